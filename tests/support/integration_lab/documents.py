# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands of the documents, as they are run on the lab."""

from __future__ import annotations

import re
from configparser import ConfigParser

from ansible_collections.cluster_compute.session.tests.support import preloaded
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    CHECKOUT,
    DEMO,
    DIRECTORY,
    INVENTORY,
    NETWORK,
    environment,
    run_here,
)

SETTINGS = ConfigParser(interpolation=None)
SETTINGS.read(CHECKOUT / "ansible.cfg", encoding="utf-8")
AS_USERS = {"ANSIBLE_STDOUT_CALLBACK": SETTINGS["defaults"]["stdout_callback"]}
"""The callback of the checkout's settings, instead of the one that the other tests read."""
SUBSTITUTES = [
    ("inventories/lab", str(INVENTORY.relative_to(CHECKOUT))),
    ("my-inventory", str(INVENTORY.relative_to(CHECKOUT))),
    ("/var/lib/cluster-compute-lab/lab", str(DIRECTORY)),
    ("10.212.0.", f"{NETWORK}.0."),
    # The tests' lab has other racks: what comes to h2 in the text comes to n3 there.
    (r"\bh1\b", "n1"),
    (r"\bh2\b", "n3"),
    (r"\bh3\b", "n2"),
    ("registry.example.com/train:1.4", DEMO),
    ("session_size=8", "session_size=4"),
    ("session_cpus=4", "session_cpus=1"),
    ("session_memory=16g", "session_memory=64m"),
]


def blocks(text: str, language: str) -> list[str]:
    """Return the fenced blocks of *language*."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def commands(text: str) -> list[str]:
    """Return the commands of the ``sh`` blocks, each on one line."""
    lines = "".join(blocks(text, "sh")).replace("\\\n", " ").splitlines()
    return [re.sub(r" {2,}", " ", line).strip() for line in lines if line.strip() and not line.startswith("#")]


def read(name: str) -> str:
    """Return a file of the checkout."""
    return (CHECKOUT / name).read_text(encoding="utf-8")


def program(command: str) -> str:
    """Return the program that a command runs."""
    return command.removeprefix("! ").split()[0]


def here(command: str) -> str:
    """Return the command for the tests' lab."""
    for old, new in SUBSTITUTES:
        command = re.sub(old if old.startswith(r"\b") else re.escape(old), new, command)
    return command


def run(command: str) -> str:
    """Run a command as a user does, in the checkout, and return its output; it has to succeed."""
    if program(command) == "ansible-playbook":
        # With the words that the shell makes of it.
        words = run_here("bash", "-euc", f"printf '%s\\0' {command.removeprefix('! ')}").split("\0")[:-1]
        done = preloaded.run(words, CHECKOUT, environment(**AS_USERS), 600)
        assert (done.returncode != 0) == command.startswith("! "), f"{command}\n{done.stdout}"
        return done.stdout
    argv = ["bash", "-euc", command]
    if re.search(r" -it? ", command) and program(command) == "ssh" and " -t " in command:
        # A shell in a replica wants a terminal, and gets one.
        argv = ["script", "--quiet", "--return", "--command", command, "/dev/null"]
    return run_here(*argv, stdin="exit\n", variables=AS_USERS)
