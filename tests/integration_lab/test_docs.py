# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The documentation is true: every command in it is run, every variable in it exists, none is missing from it.

Commands are those of the blocks marked ``sh``. They run in the order of the text, on the tests' lab in place of the
lab or the site that the text speaks of. What cannot run here is in ELSEWHERE, with the place that runs it. A command
whose work is still there is not run again, whichever document has it: what it printed then is what it prints.
"""

from __future__ import annotations

import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator

import pytest
import yaml
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.request import parse_request
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.environment import (
    ADVICE_NAMES,
    CUDA_DEVICES,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.site import HOST_VARIABLES
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.environment_names import (
    CONTRACT_NAMES,
)
from ansible_collections.cluster_compute.session.tests.support.integration_lab.documents import (
    blocks,
    commands,
    here,
    program,
    read,
    run,
)
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    CHECKOUT,
    clear,
    forget_packs,
    run_here,
)

DOCUMENTS = ["README.md", *sorted(f"docs/{path.name}" for path in (CHECKOUT / "docs").glob("*.md"))]
OF_EXAMPLES = {"docs/examples.md", "docs/torchrun.md"}
"""Documents whose commands test_examples runs, on hosts that have the image of the examples."""
REPEATS = {"docs/operate.md", "docs/tour.md"}
"""Documents whose commands are all in others as well, and run for those."""
INSTALLATION = "docs/install.md"
"""tools/build.sh runs its commands, one after the other."""
REPOSITORY = str(yaml.safe_load((CHECKOUT / "galaxy.yml").read_text(encoding="utf-8"))["repository"])
PUBLISHED = (f"{REPOSITORY}/blob/main/", f"{REPOSITORY.replace('github.com', 'raw.githubusercontent.com')}/main/")
"""Where readers who have no checkout find the files of it, as pages and as they are."""
PROGRAMS = {"ansible", "ansible-inventory", "ansible-playbook", "ccs", "ssh"}
MAKE = {"make lab-up", "make launch", "make teardown"}
"""Targets that are run by running what make would run."""
ELSEWHERE = {
    "make lab-down": (".ci/run", "make lab-down"),
    "ansible-playbook -i inventories/lab playbooks/lab_down.yml": (
        "tests/integration_lab/conftest.py",
        'play("lab_down")',
    ),
    "ansible-galaxy collection build --force --output-path ee .": (
        "tests/awx/test_execution_environment.py",
        '"ansible-galaxy", "collection", "build"',
    ),
    "ansible-builder create -f ee/execution-environment.yml -c ee/context": (
        "tests/awx/test_execution_environment.py",
        '"ansible-builder", "create"',
    ),
    "ansible-playbook -i my-inventory cluster_compute.session.configure_awx -e @awx.yml": (
        "tests/awx/test_configure_awx.py",
        '"playbooks/configure_awx.yml"',
    ),
    **dict.fromkeys(
        (
            "ufw allow proto udp from PEER to any port 4789",
            "ufw allow proto tcp from PEER to any port 8480:8489",
            "ufw allow proto udp from PEER to any port 61000:61999",
        ),
        ("tests/contract/test_firewalls.py", "commands(UFW, protocol, ports)"),
    ),
    ". .venv/bin/activate": ("tests/support/integration_lab/driver.py", "Path(sys.executable).parent"),
}
"""Command: file and text in it that runs the same."""
EXPECTED = {
    "README.md": ["main1 ", "rank 3 of 4: sub3 on host"],
    "docs/awx.md": [],
    "docs/ccs.md": ["Next: ccs ssh first", "first    RUNNING", " | sub2", "sub2     n3", "main1: rank 0 of 3"],
    "docs/firewalls.md": [],
    "docs/first_session.md": [
        "sub2     n3",
        "first-sub2",
        "sub2",
        "sub2",
        "PLANNED",
        "sub3     n3",
        "roles.sub.memory: 256MiB -> 320MiB",
        "Session big is PENDING, position 1 in the queue.",
        "Largest size that fits now in mode multi-node: 2.",
    ],
    "docs/environment.md": ["0 of 3", "sub2"],
    "docs/gpu_and_numa.md": ["main1    n1", "sub1     n", "/dev/fuse", "main1    n2", "Cpus_allowed_list:"],
    "docs/login.md": ["Log in with your key, port 22", "Host first.sub2 sub2", "main1\n", "sub2\n"],
    "docs/inside.md": ["@session_first:", "first-sub2 | SUCCESS", "first-sub1 | CHANGED", "name: first"],
    "docs/preflight.md": [
        "all 6 pairs  UDP 4789 is open.",
        "6 directed pairs: median ",
        # Every host meets every other. The command succeeds, so no host is named.
        "round 1: n",
        "round 2: n",
        "round 3: n",
    ],
    "docs/jobs.md": [
        "world 3",
        "exit code 0",
        "sub2 on n3 ended with exit code 3",
        "Come back to it",
        "main1/",
        "| trained",
    ],
    "docs/monitoring.md": ["Resource group cluster_compute_hosts: 3 hosts"],
    "docs/logs.md": ["main1 | rank 0 begins", "sub2  ! no card", "logs_grep is 'a(b'", "it had ended with exit code"],
    "docs/queue.md": ["Session big is PENDING, position 1 in the queue.", "1. big of", "The queue is empty."],
    "docs/recovery.md": [
        "create container first-sub2",
        "Everything is as recorded.",
        "will be cleaned when back",
        "There are no objects without an owner.",
    ],
    "docs/request.md": [" train.py", "Next: ccs ssh code"],
    "docs/resize.md": ["sub1     n", "sub3     n"],
    "docs/status.md": [
        "main1    n1",
        "Variables of the request, whose values are not shown: EPOCHS.",
        "first    RUNNING  multi-node  3/3",
    ],
    "docs/site.md": ["@cluster_compute_hosts:", "gpu02"],
    "docs/lab.md": ["Server Version: 20.10", "Server Version: 26.1", "n1"],
}
"""What the output of a document's commands has to hold, in this order where it matters for more than one."""
SESSIONS = ("first", "big", "small", "train", "demo", "cards", "pinned", "batch", "code")
SHARED = ("docs/status.md", "docs/environment.md", "docs/inside.md", "docs/first_session.md", "docs/queue.md")
"""Documents that look at the session `first`: the one before leaves it to the one after, and the last removes it."""
REPEATED = "docs/lab.md"
"""The last one: its playbooks are run for others, and that they were is enough."""
STAYS = ("lab_up", "prepare_hosts", "lab_images")
"""Playbooks whose work stays until the lab goes."""


def expanded(command: str) -> list[str]:
    """Return the commands that stand for one: those of a make target, or itself."""
    if command not in MAKE:
        return [command]
    found = [line for line in run_here(*shlex.split(command), "--dry-run").splitlines() if program(line) in PROGRAMS]
    assert found, f"{command} runs none of {sorted(PROGRAMS)}"
    return found


@pytest.fixture(scope="module")
def printed() -> Iterator[dict[str, str]]:
    """Give what the commands printed that have been run, by command; at the end no session is left."""
    yield {}
    clear(*SESSIONS)


@pytest.fixture
def clean_up(document: str) -> Iterator[None]:
    """Remove the sessions that a document leaves, also when a command failed, but for what the next one wants."""
    yield
    clear(*(name for name in SESSIONS if name != "first" or document not in SHARED[:-1]))
    forget_packs()


def is_done(command: str, document: str, printed: dict[str, str]) -> bool:
    """Tell whether the work of a command is there, since another document has run it."""
    stays = document in (*SHARED, REPEATED) or any(name in command for name in STAYS)
    return stays and program(command) == "ansible-playbook" and "teardown" not in command and command in printed


def is_left(command: str, document: str) -> bool:
    """Tell whether a command is left to the last of the documents that share a session."""
    ends_it = "teardown_cluster" in command and command.endswith("session_name=first")
    return document in SHARED[:-1] and ends_it and command in commands(read(SHARED[-1]))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_command_runs_here_or_elsewhere(document: str) -> None:
    if document == INSTALLATION:
        assert f"page={INSTALLATION}\n" in read("tools/build.sh")
        return
    others = {command for name in set(DOCUMENTS) - REPEATS - OF_EXAMPLES for command in commands(read(name))}
    for command in commands(read(document)):
        assert document not in REPEATS or command in others, f"{document}: no other document has '{command}'"
        known = program(command) in PROGRAMS or command in MAKE or command in ELSEWHERE
        assert known, f"{document}: nothing runs '{command}'; run it here, or name in ELSEWHERE what does"


@pytest.mark.parametrize("command", sorted(ELSEWHERE))
def test_what_runs_elsewhere_is_there(command: str) -> None:
    name, text = ELSEWHERE[command]
    assert text in read(name)
    assert any(command in commands(read(document)) for document in DOCUMENTS), "no document has it any more"


@pytest.mark.parametrize("document", [*SHARED, *sorted({*EXPECTED} - {*SHARED, REPEATED}), REPEATED])
def test_the_commands_of_a_document(
    document: str,
    printed: dict[str, str],
    clean_up: None,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    if document == "docs/environment.md":
        # It goes on where the first session is running.
        launch = next(command for command in commands(read("docs/status.md")) if "launch_cluster" in command)
        if launch not in printed:
            printed[launch] = run(here(launch))
    if document in ("docs/login.md", "docs/logs.md"):
        # What they write is for the reader's home. Ansible's sockets lie there as well, whose paths have to be short.
        home = tempfile.mkdtemp(prefix="home-")
        request.addfinalizer(lambda: shutil.rmtree(home, ignore_errors=True))
        monkeypatch.setenv("HOME", home)
    output = ""
    for command in commands(read(document)):
        if command not in ELSEWHERE and not is_left(command, document):
            for part in expanded(command):
                if not is_done(part, document, printed):
                    printed[part] = run(here(part))
                output += printed[part]
    place = 0
    for text in EXPECTED[document]:
        found = output.find(text, place if document == "docs/first_session.md" else 0)
        assert found >= 0, f"'{text}' is not in the output of {document}, or not in its place:\n{output}"
        place = found + len(text)


def test_there_is_something_to_run() -> None:
    elsewhere = {*OF_EXAMPLES, *REPEATS, INSTALLATION}
    assert set(EXPECTED) == {name for name in DOCUMENTS if commands(read(name))} - elsewhere
    assert sum(len(commands(read(name))) for name in DOCUMENTS) > 20


def rows(document: str, prefix: str = "") -> dict[str, list[str]]:
    """Return the rows of a document's tables whose first cell is a name with *prefix*: name to the other cells."""
    found = {}
    for line in read(document).splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if line.startswith("| `" + prefix):
            found[cells[0].strip("` ")] = cells[1:]
    return found


def test_the_requests_in_the_documents_are_accepted() -> None:
    found = [yaml.safe_load(block) for document in DOCUMENTS for block in blocks(read(document), "yaml")]
    requests = [block for block in found if any(name.startswith("session_") for name in block)]
    assert len(requests) > 4
    for variables in requests:
        parse_request({"session_name": "a", "session_image": "b", **variables})


def test_every_variable_of_a_replica_is_described() -> None:
    first_cells = [name for name in rows("docs/environment.md") if not name.startswith("/")]
    names = {name for cell in first_cells for name in cell.split("`, `")}
    assert names == {*CONTRACT_NAMES, *ADVICE_NAMES, CUDA_DEVICES}


def test_every_variable_of_a_site_is_described() -> None:
    described = set(rows("docs/site.md", "cluster_compute_"))
    assert described >= set(HOST_VARIABLES)
    code = "".join(
        path.read_text(encoding="utf-8")
        for folder in ("plugins", "roles")
        for path in (CHECKOUT / folder).rglob("*")
        if path.suffix in (".py", ".yml")
    )
    assert [name for name in described if f"{name}" not in code and name[len("cluster_compute_") :] not in code] == []


def test_the_variables_of_the_lab_are_described() -> None:
    described = rows("docs/lab.md", "lab_")
    del described["lab_release"]
    defaults = yaml.safe_load(read("roles/lab/defaults/main.yml"))
    assert set(described) <= set(defaults)
    for name in ("lab_name", "lab_subnet", "lab_mtu", "lab_boot_timeout", "lab_cache"):
        assert described[name][0].strip("`") == str(defaults[name])


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", read(document)):
        name, _hash, anchor = target.partition("#")
        path = (CHECKOUT / document).parent / name if name else CHECKOUT / document
        if name.startswith(PUBLISHED):
            path = CHECKOUT / name.partition("/main/")[2]
        elif name.startswith("https://"):
            continue
        assert path.exists(), f"{document} links to {target}"
        headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE) if anchor else []
        slugs = [re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-") for heading in headings]
        assert not anchor or anchor in slugs, f"{document} links to {target}"


def test_documents_are_linked_from_the_readme() -> None:
    assert [name for name in DOCUMENTS[1:] if f"({PUBLISHED[0]}{name})" not in read("README.md")] == []


def test_the_readme_is_read_elsewhere_and_has_what_a_hub_asks_for() -> None:
    text = read("README.md")
    targets = re.findall(r"\]\(([^)]+)\)|<img[^>]* src=\"([^\"]+)\"", text)
    assert len(targets) > 30
    assert [name for pair in targets for name in pair if name and not name.startswith("https://")] == []
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    wanted = ["Requirements", "Installation", "Use", "Documentation", "Support", "Release notes", "License"]
    assert headings == wanted
    assert "pip install ansible" not in text
