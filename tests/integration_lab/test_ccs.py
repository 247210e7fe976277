# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""ccs at a terminal: exit codes of programs, a login with the user's own key, hosts that are drained.

The unit tests playbooks/test_ccs.py show the lines of ansible-playbook, test_docs runs the commands of its page.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.tests.support import preloaded
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    BUSYBOX,
    CHECKOUT,
    DEMO,
    INVENTORY,
    clear,
    environment,
    replicas,
    run_here,
)

CCS = str(CHECKOUT / "playbooks" / "ccs")
FILE = f"""
image: {DEMO}
size: 3
max_replicas_per_host: 1
cpus: 0.1
memory: 64m
command: [sh, -c, 'echo rank $RANK; exec sleep infinity']
"""
BATCH = f"image: {BUSYBOX}\nmemory: 16m\ncommand: [sh, -c, 'echo begins; exit 5']\n"


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """Give a home with a key of its own; its path is short, as Ansible has sockets there."""
    with tempfile.TemporaryDirectory(prefix="home-") as name:
        folder = Path(name)
        (folder / ".ssh").mkdir(mode=0o700)
        (folder / ".config").mkdir()
        run_here("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{folder}/.ssh/id_ed25519")
        (folder / ".config" / "ccs.yml").write_text(f"inventory: {INVENTORY}\n", encoding="utf-8")
        (folder / "train.yml").write_text(FILE, encoding="utf-8")
        (folder / "batch.yml").write_text(BATCH, encoding="utf-8")
        yield folder
        clear("train", "batch")


def ccs(home: Path, *words: str) -> tuple[int, str]:
    """Run ccs in the home, and return its exit code and what it printed."""
    variables = environment(HOME=str(home))
    variables.pop("XDG_CONFIG_HOME", None)
    done = preloaded.run_command([CCS, *words], home, variables, 300)
    return done.returncode, done.stdout


def test_from_the_first_launch_to_the_end(home: Path) -> None:
    code, output = ccs(home, "plan", "train.yml")
    assert code == 0, output
    assert "Session train " in output
    assert replicas("train") == {}
    code, output = ccs(home, "up", "train.yml")
    assert code == 0, output
    assert "TASK" not in output
    assert output.splitlines()[-1] == "Next: ccs ssh train   ccs logs -f train   ccs down train"
    assert list(replicas("train")) == ["main1", "sub1", "sub2"]

    assert ccs(home, "names") == (0, "train\n")
    # The client of SSH looks for keys in the home that its user has by name.
    key = f"login_identity_file={home}/.ssh/id_ed25519"
    tell = 'hostname; echo "$RANK of $WORLD_SIZE"'
    code, output = ccs(home, "ssh", "-e", key, "train", "sub2", "--", "sh", "-c", tell)
    assert (code, output) == (0, "sub2\n2 of 3\n")
    code, output = ccs(home, "exec", "--on", "sub", "train", "--", "sh", "-c", 'echo "from $RANK"; exit $((RANK + 1))')
    assert code == 2, output
    assert {"from 1", "from 2"} <= {line.partition(" | ")[2] for line in output.splitlines()}
    code, output = ccs(home, "logs", "train", "sub1")
    assert code == 0, output
    assert "rank 1" in output
    assert "rank 2" not in output
    code, output = ccs(home, "down", "train", "train")
    assert code == 0, output
    assert replicas("train") == {}


def test_a_batch_command_ends_with_its_code_and_nothing_is_left(home: Path) -> None:
    code, output = ccs(home, "run", "batch.yml")
    assert code == 5, output
    assert " | begins" in output
    assert replicas("batch") == {}


def test_a_host_is_drained_and_given_back(home: Path) -> None:
    try:
        code, output = ccs(home, "drain", "n2", "new memory")
        assert code == 0, output
        code, output = ccs(home, "ps")
        assert code == 0, output
        assert "new memory" in output
    finally:
        code, output = ccs(home, "undrain", "n2")
    assert code == 0, output
    assert "new memory" not in ccs(home, "ps")[1]
