# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Mounts: what a site allows, what is wrong with them on hosts, and who proves that a folder is shared."""

from __future__ import annotations

from functools import partial

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.mounts import Mount
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.request import (
    Request,
    parse_request,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.data import (
    DRIVERS,
    ROOTS,
    data_of_hosts,
    drivers_of,
    for_owner,
    inventory_for,
    mount_problems,
    of_site,
    roots_of,
    sharing_problems,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidInput
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.paths import is_below
from ansible_collections.cluster_compute.session.tests.support.core.rules.examples import (
    path_facts,
)
from ansible_collections.cluster_compute.session.tests.support.host_facts import typed

shared_path = partial(path_facts, filesystem="nfs4", origin="server:/export")

HOSTS = ("h1", "h2", "h3")
SITE = {host: {ROOTS: ["/srv"]} for host in HOSTS}


def request(*mounts):
    return parse_request({"session_name": "demo", "session_image": "a", "session_mounts": list(mounts)})


PRIVATE = {
    "/var/lib/cluster-compute": "the state of sessions",
    "/usr/local/lib/cluster-compute": "programs that run as root",
    "/run/docker.sock": "Docker Engine's socket",
    "/etc": "the host's settings",
}


@pytest.mark.parametrize(
    ("root", "really", "shown"),
    [
        ("/", "/", "/var/lib/cluster-compute (the state of sessions)"),
        ("/var/lib", "/var/lib", "/var/lib/cluster-compute (the state of sessions)"),
        ("/var/lib/cluster-compute", "/var/lib/cluster-compute", "/var/lib/cluster-compute (the state of sessions)"),
        ("/srv", "/var/lib/cluster-compute/sessions", "/var/lib/cluster-compute (the state of sessions)"),
        ("/usr", "/usr", "/usr/local/lib/cluster-compute (programs that run as root)"),
        ("/run", "/run", "/run/docker.sock (Docker Engine's socket)"),
        ("/etc", "/etc", "/etc (the host's settings)"),
        ("/etc/ssl/certs", "/etc/ssl/certs", ""),
        ("/var/lib/data", "/var/lib/data", ""),
        ("/var/lib/cluster-compute-data", "/var/lib/cluster-compute-data", ""),
        ("/usr/share", "/usr/share", ""),
        ("/srv", "/srv", ""),
    ],
)
def test_a_root_that_would_show_what_is_not_for_sessions_allows_nothing(root, really, shown):
    source = f"{root.rstrip('/')}/a"
    real = f"{really.rstrip('/')}/a"
    found = facts(source, {host: {"real": real, "ancestors": {root: really, source: real}} for host in HOSTS})
    for of_host in found.values():
        of_host["private"] = PRIVATE
    problems = check(f"{source}:/b", found, {host: {ROOTS: [root]} for host in HOSTS})
    message = f"{root} ({ROOTS} of h1, h2, h3) would show sessions {shown}. The operator must name folders without it."
    assert [problem.partition(": ")[2] for problem in problems] == ([message] if shown else []), problems


@pytest.mark.parametrize(("source", "is_shown"), [("/srv", True), ("/srv/docker/volumes", True), ("/srv/a", False)])
def test_nobody_mounts_what_the_engine_keeps(source, is_shown):
    found = {host: {**own, "engine": {"root": "/srv/docker"}} for host, own in facts(source).items()}
    problems = check(f"{source}:/b", found)
    assert ["it would show the session /srv/docker (Docker Engine's data)" in problem for problem in problems] == (
        [True] if is_shown else []
    )


def mount_of(mount):
    return request(mount).mounts[0]


def refused(*mounts):
    with pytest.raises(InvalidInput) as error:
        request(*mounts)
    return {problem.variable: problem.message for problem in error.value.problems}


def facts(path="/srv/a", changes=None):
    changes = changes or {}
    return {host: {"paths": {path: shared_path(path, **changes.get(host, {}))}, "volumes": {}} for host in HOSTS}


def check(mount, found, site=None):
    return [
        str(problem) for problem in mount_problems(request(mount), HOSTS, typed(found), SITE if site is None else site)
    ]


def test_text_and_mapping_mean_the_same():
    assert mount_of("/a:/b") == mount_of({"source": "/a", "target": "/b"}) == Mount("/a", "/b", False)
    assert mount_of("/a:/b:ro:local") == mount_of("/a:/b:local:ro") == Mount("/a", "/b", True, shared=False)
    assert mount_of("data:/b:ro") == mount_of({"volume": "data", "target": "/b", "read_only": "yes"})
    assert mount_of("data:/b") == Mount(None, "/b", False, "data", "local")
    folder = {"source": "/a", "target": "/b", "owner": "007:8", "mode": "770"}
    assert mount_of(folder) == Mount("/a", "/b", False, owner="7:8", mode="0770")
    everything = request(
        "/a:/b:local",
        {"volume": "data", "target": "/c", "driver_options": {"type": "tmpfs"}},
        folder | {"source": "/d", "target": "/e"},
    )
    assert Request.from_dict(everything.to_dict()) == everything


@pytest.mark.parametrize(
    ("mount", "variable"),
    [
        ("/a:/b:ro:rw", ""),
        ("/a:/b:local:local", ""),
        ("/a", ""),
        ("x:/b", ".volume"),
        ("-ab:/b", ".volume"),
        ({"volume": "data", "source": "/a", "target": "/b"}, ".volume"),
        ({"volume": "data", "target": "/b", "shared": True}, ".shared"),
        ({"source": "/a", "target": "/b", "driver": "local"}, ".driver"),
        ({"source": "/a", "target": "/b", "owner": "root:root"}, ".owner"),
        ({"source": "/a", "target": "/b", "owner": 6050}, ".owner"),
        ({"source": "/a", "target": "/b", "owner": "4294967295:0"}, ".owner"),
        ({"source": "/a", "target": "/b", "mode": 504}, ".mode"),
        ({"source": "/a", "target": "/b", "mode": "4755"}, ".mode"),
        ({"source": "/a", "target": "/b", "mode": "u=rwx"}, ".mode"),
        ({"source": "/a", "target": "/b", "shared": "perhaps"}, ".shared"),
        ({"volume": "data", "target": "/b", "driver_options": "type=nfs"}, ".driver_options"),
        ({"volume": "data", "target": "/b", "driver_options": {"type": True}}, ".driver_options.'type'"),
        ({"volume": "data", "target": "/b", "driver_options": {"type": "tmpfs"}, "mode": "0700"}, ".mode"),
        ({"volume": "data", "target": "/b", "driver": "sshfs", "owner": "1:1"}, ".owner"),
    ],
)
def test_malformed_mounts_are_refused_by_name(mount, variable):
    assert "session_mounts[0]" + variable in refused(mount)


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"type": "none", "o": "bind", "device": "/etc"}, "type"),
        ({"o": "bind", "device": "/etc"}, "type"),
        ({"type": "ext4", "device": "/dev/sda1"}, "type"),
        ({"type": "overlay", "o": "lowerdir=/etc", "device": "overlay"}, "type"),
        ({"type": "proc", "device": "proc"}, "type"),
        ({"type": "tmpfs", "device": "/etc"}, "device"),
        ({"type": "nfs", "device": "//server/x"}, "device"),
        ({"type": "cifs", "device": "/etc"}, "device"),
        ({"type": "nfs", "device": ":/x", "o": "addr=192.0.2.1, bind"}, "o"),
        ({"type": "tmpfs", "device": "tmpfs", "o": "rshared"}, "o"),
        ({"type": "tmpfs", "device": "tmpfs", "mountpoint": "/etc"}, "mountpoint"),
    ],
)
def test_the_local_driver_mounts_nothing_of_the_host(options, key):
    mount = {"volume": "data", "target": "/b", "driver_options": options}
    assert f"session_mounts[0].driver_options.{key}" in refused(mount)
    other = request({**mount, "driver": "other"})
    assert dict(other.mounts[0].driver_options) == options, "what other drivers do is for the site to judge"


def local(**values):
    return {"volume": "data", "target": "/x", "driver_options": values}


@pytest.mark.parametrize(
    ("mount", "words"),
    [
        ("/srv/shared/../../etc:/x", ["session_mounts[0].source", "must not hold '..'"]),
        (local(type="none", o="bind", device="/etc"), ["driver_options.type is 'none'", "by its path, as a source"]),
        (local(type="nfs", o="addr=192.0.2.1,bind", device=":/x"), ["driver_options.o is", "bind is not for"]),
        (local(type="ext4", device="/dev/sda1"), ["driver_options.type is 'ext4'", "device is '/dev/sda1'"]),
        (local(type="overlay", o="lowerdir=/etc", device="overlay"), ["driver_options.type is 'overlay'"]),
        ({"source": "/srv/shared", "target": "/x", "mode": 504}, ["[0].mode is 504", "octal digits in quotes"]),
    ],
)
def test_a_way_out_that_its_form_shows_is_refused_in_words(mount, words):
    with pytest.raises(InvalidInput) as caught:
        request(mount)
    assert [word for word in words if word not in str(caught.value)] == []


@pytest.mark.parametrize(
    "options",
    [
        {"type": "nfs", "o": "addr=192.0.2.1,rw", "device": ":/export"},
        {"type": "nfs4", "o": "addr=192.0.2.1,nfsvers=4.1", "device": "server:/export"},
        {"type": "cifs", "o": "username=a", "device": "//server/share"},
        {"type": "tmpfs", "device": "tmpfs", "o": "size=1m"},
        {},
    ],
)
def test_file_systems_of_a_network_are_taken(options):
    assert dict(mount_of({"volume": "data", "target": "/b", "driver_options": options}).driver_options) == options


def test_what_is_mounted_twice_is_asked_for_in_the_same_way():
    assert len(request("/a:/b", "/a:/c:ro").mounts) == 2
    assert "session_mounts[1]" in refused("/a:/b", "/a:/c:local")
    twice = {"volume": "data", "driver_options": {"type": "tmpfs"}}
    assert "session_mounts[1]" in refused("data:/b", {**twice, "target": "/c"})


def test_below_means_in_the_folder_and_no_neighbour():
    assert [path for path in ("/a", "/a/b", "/ab", "/", "/b/a") if is_below(path, "/a")] == ["/a", "/a/b"]
    assert is_below("/a", "/")


def test_site_variables():
    assert roots_of({"h1": {ROOTS: "/srv/, //mnt/x"}}, "h1") == ("/mnt/x", "/srv")
    assert roots_of({}, "h1") == roots_of({"h1": {ROOTS: ""}}, "h1") == ()
    nested = roots_of({"h1": {ROOTS: ["/srv/users/a/data", "/srv", "/srv-2"]}}, "h1")
    assert nested == ("/srv", "/srv-2"), "users of /srv could make the third a link to anywhere"
    assert drivers_of({}, "h1") == ("local",)
    assert drivers_of({"h1": {DRIVERS: []}}, "h1") == ()
    with pytest.raises(InvalidInput, match=f"{ROOTS} of host h1 is 'srv'.*absolute paths"):
        roots_of({"h1": {ROOTS: "srv"}}, "h1")
    bad: object
    for bad in (["srv"], ["/srv/.."], 5, [{}]):
        with pytest.raises(InvalidInput, match=f"{ROOTS} of host h1"):
            roots_of({"h1": {ROOTS: bad}}, "h1")
    with pytest.raises(InvalidInput, match=f"{DRIVERS} of host h1"):
        drivers_of({"h1": {DRIVERS: [""]}}, "h1")


def test_the_folders_of_owners():
    roots = roots_of({"h1": {ROOTS: ["/home/{owner}", "/srv"]}}, "h1")
    assert for_owner(roots, "alice") == ("/home/alice", "/srv")
    assert of_site(roots) == ("/home", "/srv")
    for unsafe in ("", ".", "..", ".ssh", "a/b", "../root", "a b", "{owner}/"):
        assert for_owner(roots, unsafe) == ("/srv",)
    for bad in ("/home/{owner}/data", "/{owner}", "/home/x{owner}", "/home/{owner}{owner}", "/{owner}/{owner}"):
        with pytest.raises(InvalidInput, match="has to be the last part of a path, below a folder"):
            roots_of({"h1": {ROOTS: bad}}, "h1")
    inventory = inventory_for({"h1": {ROOTS: ["/home/{owner}", "/srv"], "x": 1}, "h2": {ROOTS: "/srv"}, "h3": {}}, "al")
    assert inventory == {"h1": {ROOTS: ["/home/al", "/srv"], "x": 1}, "h2": {ROOTS: "/srv"}, "h3": {}}


def test_paths_have_to_be_allowed_as_written_and_as_they_are():
    assert check("/srv/a:/x", facts()) == []
    assert "allows no path of h1, h2, h3" in check("/srv/a:/x", facts(), {})[0]
    alone = check("/srv/a:/x", facts(), {host: variables for host, variables in SITE.items() if host != "h2"})[0]
    assert "The site allows no path of h2 to be mounted" in alone
    assert "names the folders for that in" in alone
    narrowed = SITE | {"h2": {ROOTS: "/mnt"}}
    assert "On h2 the site allows only what is below /mnt" in check("/srv/a:/x", facts(), narrowed)[0]
    out = facts(changes={"h3": {"real": "/etc"}})
    assert "On h3 it is really /etc, by a symbolic link" in check("/srv/a:/x", out)[0]
    near = facts(changes={"h3": {"real": "/srv-other/a"}})
    assert len(check("/srv/a:/x", near)) == 1
    within = facts(changes={"h3": {"real": "/srv/b"}})
    assert check("/srv/a:/x", within) == []
    moved = facts()
    for reported in moved.values():  # the root itself is a link: the site's own affair
        reported["paths"]["/srv/a"].update(real="/disk/a", ancestors={"/": "/", "/srv": "/disk", "/srv/a": "/disk/a"})
    assert check("/srv/a:/x", moved) == []


def test_what_is_missing_is_made_only_when_asked_and_possible():
    gone = {host: {"kind": "missing"} for host in HOSTS}
    made = {"source": "/srv/a", "target": "/x", "mode": "0700"}
    assert "does not exist on h1, h2, h3" in check("/srv/a:/x", facts(changes=gone))[0]
    assert check(made, facts(changes=gone)) == []
    lost = facts(changes=gone | {"h2": {"kind": "missing", "parent": False}})
    assert "cannot be made on h2" in check(made, lost)[0]
    root = facts("/srv", gone)
    assert "cannot be made" in check({**made, "source": "/srv"}, root)[0], "a root is the site's to make"
    other = {"source": "/srv/a", "target": "/x", "owner": "5:5", "mode": "0755"}
    assert "owner 0:0 where 5:5 is asked." in check(other, facts())[0]


def test_volumes_that_exist_are_taken_as_they_are_or_refused():
    found = facts()
    assert check("data:/x", found) == []
    found["h2"]["volumes"]["data"] = {"driver": "local", "options": {}, "maker": None}
    assert "On h2 there is a volume of this name: it was not made by a session" in check("data:/x", found)[0]
    found["h2"]["volumes"]["data"]["maker"] = ""
    assert check("data:/x", found) == []
    found["h2"]["volumes"]["data"]["options"] = {"type": "none", "o": "bind", "device": "/etc"}
    assert "options {'type': 'none', 'o': 'bind', 'device': '/etc'}, where driver local" in check("data:/x", found)[0]
    assert "only volumes of no driver" in check("data:/x", facts(), {"h1": {DRIVERS: []}})[0]


def test_a_plugin_is_the_same_with_its_tag_and_without():
    """Engines tell it with the tag, whatever it was called when the volume was made."""
    plain, tagged = (
        {"volume": "data", "target": "/x", "driver": name} for name in ("some/plugin", "some/plugin:latest")
    )
    for allowed in ("some/plugin", "some/plugin:latest"):
        inventory = {host: {DRIVERS: [allowed]} for host in HOSTS}
        found = facts()
        for host in HOSTS:
            found[host]["volumes"]["data"] = {"driver": "some/plugin:latest", "options": {}, "maker": ""}
        assert check(plain, found, inventory) == check(tagged, found, inventory) == []
        assert (
            "where driver some/plugin:2 "
            in check(
                {**plain, "driver": "some/plugin:2"}, found, {host: {DRIVERS: ["some/plugin:2"]} for host in HOSTS}
            )[0]
        )


def test_what_a_file_server_gives_to_the_host_is_for_the_site_to_allow():
    small = {"volume": "data", "target": "/x", "driver_options": {"type": "tmpfs", "device": "tmpfs"}}
    export = {"volume": "data", "target": "/x", "driver_options": {"type": "nfs", "o": "addr=a", "device": ":/home"}}
    assert check(small, facts()) == []
    assert "On h1, h2, h3 the site allows only volumes of local (" in check(export, facts())[0]
    assert "and this is one of local:nfs." in check(export, facts())[0]
    assert check(export, facts(), {host: {DRIVERS: ["local:nfs"]} for host in HOSTS}) == []
    assert check(export, facts(), {host: {DRIVERS: ["local", "local:nfs4"]} for host in HOSTS}) != []
    assert "this is one of local." in check("data:/x", facts(), {host: {DRIVERS: "local:nfs"} for host in HOSTS})[0]


def shared(mount, found, hosts=HOSTS):
    problems = [str(problem) for problem in sharing_problems(request(mount), hosts, typed(found))]
    data = data_of_hosts(request(mount), hosts, typed(found), SITE)
    return problems, [data[host][1]["/srv/a"].proof for host in hosts]


def test_the_first_host_that_can_write_proves_and_the_others_read():
    assert shared("/srv/a:/x", facts()) == ([], ["writes", "reads", "reads"])
    assert shared("/srv/a:/x", facts(changes={"h1": {"read_only": True}})) == ([], ["reads", "writes", "reads"])
    assert shared("/srv/a:/x:local", facts()) == ([], [None] * 3)
    assert shared("/srv/a:/x", facts(), HOSTS[:1]) == ([], [None])


def test_where_nobody_can_write_a_file_system_of_a_network_has_to_be_the_same():
    locked = {host: {"read_only": True} for host in HOSTS}
    assert shared("/srv/a:/x", facts(changes=locked)) == ([], [None] * 3)
    for change in ({"inode": 13}, {"origin": "other:/export"}, {"filesystem": "nfs"}):
        problems, _proofs = shared("/srv/a:/x", facts(changes=locked | {"h2": {"read_only": True, **change}}))
        assert "cannot be proven" in problems[0]
        assert ":local" in problems[0]
    disks = {host: {"read_only": True, "filesystem": "ext4", "origin": "/dev/vda1"} for host in HOSTS}
    assert "cannot be proven" in shared("/srv/a:/x", facts(changes=disks))[0][0]


def test_what_is_not_alike_is_not_shared():
    mixed = facts(changes={"h2": {"kind": "file"}})
    assert "directory on h1, h3, file on h2" in shared("/srv/a:/x", mixed)[0][0]
    files = facts(changes={host: {"kind": "file"} for host in HOSTS})
    assert shared("/srv/a:/x", files) == ([], [None] * 3)
    mount = {"source": "/srv/a", "target": "/x", "shared": True}
    assert "Only folders can be proven" in shared(mount, files)[0][0]
