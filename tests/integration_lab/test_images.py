# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Images: pulled from a real registry with credentials, pinned by digest, or handed on from host to host."""

from __future__ import annotations

import base64
import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.lab.names import Lab
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.lab.processes import running
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    ADDRESSES,
    BUSYBOX,
    DIRECTORY,
    HOSTS,
    LAB,
    ON_EACH,
    STATE,
    Run,
    Snapshot,
    clear,
    in_parallel,
    launch,
    on,
    record,
    replicas,
    script,
    ssh_options,
    try_on,
)

REGISTRY = f"{ADDRESSES['n1']}:5000"
TRAIN = f"{REGISTRY}/team/train:1"
SHIPPED = "cluster-compute/shipped:1"
ARCHIVED = "cluster-compute/archived:1"
BUILT = "cluster-compute/built:1"
MIXED = "cluster-compute/mixed:1"
PASSWORD = "only-the-engine-knows-4711"  # noqa: S105 - of a registry that lives as long as the tests
# bcrypt, by htpasswd(1).
HASH = "$2b$04$Z3R30Af5P2EUy5MepcmXrehcYnCHo6eMpGeCLJwH8ByljyDVZsvlq"
LOGIN = {"cluster_compute_registries": {REGISTRY: {"username": "trainer", "password": PASSWORD}}}
REQUEST: dict[str, Any] = {**ON_EACH, "session_name": "trio", "session_image": TRAIN, "session_cpus": "0.3"}
PACKAGES = "/usr/lib/python3/dist-packages"
"""Of a host: what every Python there takes in."""
SERVERS = "ss -Htln 'sport >= :8480 and sport <= :8489'; ps -e -o comm= | grep cc-image || true"
"""Prints nothing where no server of images is left."""

CONFIGURATION = f"""
version: 0.1
storage: {{filesystem: {{rootdirectory: /srv/registry/data}}}}
http:
  addr: {REGISTRY}
  tls: {{certificate: /srv/registry/cert.pem, key: /srv/registry/key.pem}}
auth: {{htpasswd: {{realm: test, path: /srv/registry/users}}}}
"""
CERTIFICATE = f"""
import datetime, ipaddress
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization as form
from cryptography.hazmat.primitives.asymmetric import ec

key = ec.generate_private_key(ec.SECP256R1())
name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "registry")])
made = (
    x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    .serial_number(1).not_valid_before(datetime.datetime(2020, 1, 1)).not_valid_after(datetime.datetime(2099, 1, 1))
    .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("{ADDRESSES["n1"]}"))]), False)
    .sign(key, hashes.SHA256())
)
open("cert.pem", "wb").write(made.public_bytes(form.Encoding.PEM))
open("key.pem", "wb").write(
    key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
)
"""


def push(image: str) -> None:
    """Give the registry *image* by the name TRAIN, as its owner does."""
    script(
        "n1",
        f"docker tag {image} {TRAIN}; export DOCKER_CONFIG=/srv/registry/client; "
        f"echo {PASSWORD} | docker login -u trainer --password-stdin {REGISTRY} >/dev/null 2>&1; "
        f"docker push -q {TRAIN} >/dev/null; rm -r /srv/registry/client; docker rmi {TRAIN} >/dev/null",
    )


def make(image: str, number: int, host: str = "n1") -> str:
    """Make an image on a host that differs from all others; return its id."""
    made = script(
        host,
        f"docker create --name made {BUSYBOX} >/dev/null; docker commit --change 'LABEL number={number}' made {image}; "
        "docker rm made >/dev/null",
    )
    return made.strip()


def forget(*images: str) -> None:
    """Remove images, by name or id, from all hosts."""
    in_parallel(lambda host: try_on(host, ["docker", "rmi", "-f", *images]), HOSTS)


@pytest.fixture(scope="module")
def leftovers(untouched_lab: Snapshot) -> Iterator[set[str]]:
    """Give a set for names and ids of images: they go at the end, when one run has torn down all sessions."""
    found: set[str] = set()
    yield found
    clear("trio", "shipped", "archived", "built")
    forget(*found)


@pytest.fixture(scope="class")
def registry(leftovers: set[str]) -> Iterator[tuple[str, str]]:
    """Run a registry with TLS and a password on n1, and give it one image; return the ids of that and of another."""
    on("n1", "apt-get", "install", "-qq", "docker-registry", seconds=120)
    script("n1", f"mkdir -p /srv/registry; cd /srv/registry; python3 -c '{CERTIFICATE}'; echo 'trainer:{HASH}' >users")
    on("n1", "tee", "/srv/registry/config.yml", stdin=CONFIGURATION)
    authority = on("n1", "cat", "/srv/registry/cert.pem")
    for host in HOSTS:
        script(host, f"mkdir -p /etc/docker/certs.d/{REGISTRY}")
        on(host, "tee", f"/etc/docker/certs.d/{REGISTRY}/ca.crt", stdin=authority)
    pid = script(
        "n1",
        "cd /srv/registry; setsid docker-registry serve config.yml >log 2>&1 </dev/null & echo $!; "
        "until ss -Htln 'sport = :5000' | grep -q .; do sleep 0.1; done",
    ).strip()
    first, second = make("made:1", 1), make("made:2", 2)
    leftovers |= {"made:1", "made:2", TRAIN, first, second}
    try:
        push("made:1")
        yield first, second
    finally:
        script("n1", f"kill {pid}; rm -r /srv/registry")
        in_parallel(lambda host: script(host, f"rm -r /etc/docker/certs.d/{REGISTRY}"), HOSTS)


def images(session: str) -> dict[str, str]:
    """Return by host the image that the session's replica there was made from."""
    return {replica.host: replica.inspected["Image"] for replica in replicas(session).values()}


def shows(run: Run, secret: str) -> bool:
    """Tell whether anything that Ansible printed or kept of a run holds a secret, plainly or as engines are told it."""
    everything = run.output + json.dumps(run.results)
    # In base64 it looks different with the place where it begins; its last letters depend on what follows.
    encoded = [base64.b64encode(b"-" * before + secret.encode()).decode()[4:-4] for before in range(3)]
    return any(form in everything for form in (secret, *encoded))


@contextmanager
def watched(host: str, secret: str) -> Iterator[list[str]]:
    """Look for a secret in arguments and variables of all processes of a host, all the time; it may not be there."""
    found: list[str] = []
    on(host, "tee", "/run/pattern", stdin=secret)
    look = "grep -lasFf /run/pattern /proc/[0-9]*/cmdline /proc/[0-9]*/environ"
    watch = f"touch /run/watching; while test -e /run/watching; do {look} || true; sleep 0.1; done"
    watching = subprocess.Popen(
        ["ssh", *ssh_options(), f"root@{ADDRESSES[host]}", watch], stdout=subprocess.PIPE, text=True
    )
    try:
        yield found
    finally:
        on(host, "rm", "/run/watching", "/run/pattern")
        found += watching.communicate(timeout=30)[0].splitlines()


@pytest.fixture(scope="class")
def pulled(registry: tuple[str, str]) -> Run:
    """Launch a session whose image only the registry has, with all that Ansible can tell."""
    with watched("n2", PASSWORD) as found:
        # Without pipelining Ansible would write modules, and what they are given, to files on the hosts.
        plain = {host: {"ansible_ssh_pipelining": False} for host in HOSTS}
        run = launch({**REQUEST, **LOGIN}, "-vvv", "--diff", hosts=plain)
    assert found == []
    return run


class TestPull:
    """From a registry that lets nobody in without a password."""

    def test_all_hosts_pull_side_by_side_what_the_registry_said_once(
        self, registry: tuple[str, str], pulled: Run
    ) -> None:
        pulled.ok()
        assert set(images("trio").values()) == {registry[0]}
        assert len(pulled.of("Ask the registry, once for all hosts, which image it is")) == 1
        took = [result for result in pulled.results if "Pull by digest, in parallel, hosts: 3" in result["task"]]
        assert {pull["host"] for pull in took} == set(HOSTS)
        for pull in took:
            assert pull["values"]["pulled"][TRAIN]["id"] == registry[0]
        (message,) = pulled.of("Report who has pulled what")
        assert [line.split(" (")[0] for line in message["values"]["msg"]] == [f"{h} pulled {TRAIN}" for h in HOSTS]

    def test_the_password_is_nowhere(self, pulled: Run) -> None:
        assert not shows(pulled, PASSWORD)
        # The commands are shown, as words for any shell; what they read on their standard input is not.
        words = re.findall(r"\$\(echo (\S+)\|base64 -d\)", pulled.output)
        scripts = [base64.b64decode(word).decode() for word in words]
        assert any("/usr/local/lib/cluster-compute/programs" in text for text in scripts)
        assert not any(PASSWORD in text for text in scripts)
        assert "AnsiballZ_session_images.py" not in pulled.output
        for host in HOSTS:
            folders = f"{STATE} /var/log /root /tmp /run/user /var/tmp /etc/docker"
            assert script(host, f"grep -rlasF {PASSWORD} {folders} || true") == ""
        for replica in replicas("trio").values():
            assert PASSWORD not in json.dumps(replica.inspected)
        assert PASSWORD not in json.dumps(record("trio"))

    def test_a_wrong_password_is_refused_and_no_login_is_shown(self, pulled: Run) -> None:
        """The right login belongs to another registry, and is not used for this one."""
        wrong = {"username": "trainer", "password": "not-even-this-is-shown"}
        logins = {REGISTRY: wrong, "registry.example": LOGIN["cluster_compute_registries"][REGISTRY]}
        other = {**REQUEST, "session_name": "other", "session_image": f"{REGISTRY}/team/train:none"}
        run = launch({**other, "cluster_compute_registries": logins}, "-vvv")
        assert run.code != 0
        assert not shows(run, "not-even-this-is-shown")
        assert not shows(run, PASSWORD)
        assert "unauthorized" in run.failures
        assert "Nothing was started" in run.failures

    def test_a_session_keeps_its_image_when_the_tag_moves(self, registry: tuple[str, str], pulled: Run) -> None:
        push("made:2")
        # A host that has lost replica and image gets the same one again, not what the name means by now.
        script("n3", f"docker rm -f trio-sub2; docker rmi {TRAIN}; docker rmi {registry[0]} || true")
        assert try_on("n3", ["docker", "image", "inspect", registry[0]]).returncode != 0
        assert launch({**REQUEST, **LOGIN}).ok().changed_hosts == {"n3"}
        assert set(images("trio").values()) == {registry[0]}
        # What hosts have is not asked for again, unless it is to be.
        fresh = {"session_recreate": True, "session_memory": "65m", "session_image_pull": "always"}
        launch({**REQUEST, **LOGIN, **fresh}).ok()
        assert set(images("trio").values()) == {registry[1]}
        pinned = record("trio")["plan"]["images"][TRAIN]
        assert pinned["digest"].startswith(f"{REGISTRY}/team/train@sha256:")
        assert set(pinned["ids"].values()) == {registry[1]}

    def test_an_image_for_another_machine_is_refused_when_it_was_pulled(self, registry: tuple[str, str]) -> None:
        """A registry that has an image for one machine gives it to any."""
        made = make("made:3", 3)
        # Both names are equally long, and the id follows from the content.
        script("n1", 'docker save made:3 | sed \'s/"architecture":"amd64"/"architecture":"arm64"/\' | docker load')
        try:
            push("made:3")
            run = launch({**REQUEST, **LOGIN, "session_name": "other", "session_image_pull": "always"})
            assert run.code != 0
            for host in HOSTS:
                assert f"{host}: {REGISTRY}/team/train@sha256:" in run.failures
            assert run.failures.count("is for arm64, and this host is x86_64") == len(HOSTS)
            assert "Nothing was started" in run.failures
            wrong = on("n1", "docker", "image", "inspect", "--format", "{{.Id}}", "made:3").strip()
            assert try_on("n2", ["docker", "image", "inspect", wrong]).returncode != 0
        finally:
            forget("made:3", made)


def replace_engine(host: str, text: str) -> None:
    """Have the program of a host's side run *text* before it brings or gives images, with Engine as `client`."""
    lines = f"""
import importlib
import os
find = importlib.import_module
def found(name, package=None):
    module = find(name, package)
    if name.endswith(".session_images"):
        client = module.Engine
{indent(dedent(text), " " * 8)}
    return module
importlib.import_module = found
"""
    on(host, "tee", f"{PACKAGES}/cc_instead.py", stdin=lines)
    # The program runs isolated from its user's settings, but not from the site's.
    on(host, "tee", f"{PACKAGES}/cc_instead.pth", stdin="import cc_instead\n")


DIES = """
    whole = client.save_image
    def half(self, image):
        for chunk in whole(self, image):
            yield chunk[:100000]
            os._exit(1)
    client.save_image = half
"""


@pytest.fixture
def no_server_stays(leftovers: set[str]) -> Iterator[None]:
    """Look on all hosts for servers of images when a test has ended."""
    yield
    look = f"rm -f {PACKAGES}/cc_instead.*; {SERVERS}"
    assert "".join(in_parallel(lambda host: script(host, look), HOSTS)) == ""


@pytest.mark.usefixtures("no_server_stays")
class TestWithoutRegistry:
    """Hosts that have an image give it to those that lack it.

    tests/contract/test_images.py and the unit tests in test_image_stream.py have senders of another image, and
    strangers that answer in a sender's place.
    """

    def test_hosts_help_each_other_and_do_without_one_that_dies(self, leftovers: set[str]) -> None:
        """n2 has it from n1 already; n1, asked first for n3, dies over it, and n2 takes its place."""
        shipped = make(SHIPPED, 3)
        leftovers |= {SHIPPED, shipped}
        packed = script("n1", f"docker save {SHIPPED} | gzip | base64")
        on("n2", "sh", "-ec", "base64 -d | gzip -d | docker load", stdin=packed)
        replace_engine("n1", DIES)
        request = {"session_name": "shipped", "session_image": SHIPPED, "session_image_pull": "never"}
        run = launch({**REQUEST, **request}).ok()
        assert images("shipped") == dict.fromkeys(HOSTS, shipped)
        lines = [line for result in run.of("Report who has got it from whom") for line in result["values"]["msg"]]
        assert lines[0] == f"n3 did not get {SHIPPED} from n1: it ended before the image was whole."
        assert lines[1].startswith(f"n3 got {SHIPPED} from n2 (")
        # Only the host that lacked it was sent it.
        assert {result["host"] for result in run.results if "bytes" in result["values"]} == {"n3"}
        for number, rounds in ((1, 1), (2, 2)):
            assert len(run.of(f"Receive, round {number} of {rounds}, hosts: 1")) == 1

    def test_the_controller_gives_its_archive_to_one_host(self, leftovers: set[str], tmp_path: Path) -> None:
        archived = make(ARCHIVED, 6)
        leftovers |= {ARCHIVED, archived}
        archive = saved("n1", ARCHIVED, tmp_path)
        forget(ARCHIVED, archived)
        request = {"session_name": "archived", "session_image": ARCHIVED, "session_image_archive": str(archive)}
        run = launch({**REQUEST, **request}).ok()
        assert images("archived") == dict.fromkeys(HOSTS, archived)
        lines = givers(run)
        assert lines[0] == f"n1 got {ARCHIVED} from the controller"
        assert sorted(line.split()[0] for line in lines[1:]) == ["n2", "n3"]
        assert not any("the controller" in line for line in lines[1:])

    def test_the_engine_of_the_controller_gives_its_image_to_one_host(
        self, leftovers: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The engine of a host that is not in the resource group serves as that of the controller."""
        built = make(BUILT, 7, "n3")
        leftovers |= {BUILT, built}
        pool = tmp_path / "pool.json"
        pool.write_text(json.dumps({"all": {"children": {"pair_pool": {"hosts": {"n1": {}, "n2": {}}}}}}), "utf-8")
        request = {"session_name": "built", "session_image": BUILT, "session_image_from": "controller"}
        socket = f"/proc/{running(Lab(LAB, str(DIRECTORY)).host('n3'))}/root/run/docker.sock"
        monkeypatch.setenv("DOCKER_HOST", f"unix://{socket}")
        pair = {"session_size": 2, "session_resource_group": "pair_pool"}
        run = launch({**REQUEST, **request, **pair}, "-i", str(pool)).ok()
        assert images("built") == dict.fromkeys(("n1", "n2"), built)
        assert givers(run) == [f"n1 got {BUILT} from the controller", f"n2 got {BUILT} from n1"]

    def test_an_archive_goes_to_both_kinds_of_store_and_comes_from_both(
        self, leftovers: set[str], other_store: None, tmp_path: Path
    ) -> None:
        """Classic stores have one id of it, that of containerd has another, whoever has saved the archive."""
        mixed = make(MIXED, 8)
        archive = saved("n1", MIXED, tmp_path)
        forget(MIXED, mixed)
        request = {**REQUEST, "session_name": "mixed", "session_image": MIXED}
        first = {**request, "session_image_archive": str(archive)}
        launch(first).ok()
        found = images("mixed")
        assert {host: found[host] == mixed for host in HOSTS} == {"n1": True, "n2": True, "n3": False}
        leftovers |= {MIXED, mixed}
        assert launch(first).ok().changed_hosts == set()
        clear("mixed")
        archive = saved("n3", MIXED, tmp_path)
        forget(MIXED, *found.values())
        launch({**request, "session_image_archive": str(archive)}).ok()
        assert images("mixed") == found


def saved(host: str, image: str, folder: Path) -> Path:
    """Return an archive of a host's image, on the controller."""
    archive = folder / f"image-of-{host}.tar"
    archive.write_bytes(base64.b64decode(script(host, f"docker save {image} | gzip | base64")))
    return archive


@pytest.fixture
def other_store() -> Iterator[None]:
    """Have n3's engine keep images in the store of containerd, the default from 29 on, where it has none at first."""
    settings = "/etc/docker/daemon.json"
    change = f"""
import json
with open("{settings}") as file:
    known = json.load(file)
with open("{settings}", "w") as file:
    json.dump({{**known, "features": {{"containerd-snapshotter": True}}}}, file)
"""
    restart = "service docker restart >/dev/null 2>&1; until docker info >/dev/null 2>&1; do sleep 0.2; done"
    script("n3", f"cp {settings} /run/daemon.json; python3 -c '{change}'; {restart}")
    try:
        assert "io.containerd.snapshotter" in script("n3", "docker info")
        yield
    finally:
        clear("mixed")
        script("n3", f"docker rmi -f $(docker images -q) || true; mv /run/daemon.json {settings}; {restart}")


def givers(run: Run) -> list[str]:
    """Return what a launch reports of who has got the image from whom, without amounts."""
    results = run.of("Report who has got it from whom")
    return [line.split(" (")[0] for result in results for line in result["values"]["msg"]]
