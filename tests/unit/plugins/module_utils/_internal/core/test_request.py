# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests: every bad value is named with what is allowed, all together, and good ones are converted once."""

from __future__ import annotations

import copy
import itertools
import json
from dataclasses import MISSING, dataclass, fields, replace

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.fields import (
    FIELDS,
    KEPT_FIELDS,
    KNOWN_VARIABLES,
    PREFIX,
    REQUEST,
    ROLE,
    ROLE_FIELDS,
    Field,
    Question,
    documented,
    questions,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.mounts import Mount, Port
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.request import (
    OTHER_TOOLS,
    Request,
    Role,
    diff_requests,
    in_mode_of,
    may_change_to,
    parse_request,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.workdir import WORK, Workdir
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.environment import (
    ADVICE_NAMES,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.environment_names import (
    CONTRACT_NAMES,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import (
    InvalidInput,
    Problem,
    show,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.parse import (
    parse_bool,
    parse_choice,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.resources import Resources
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.start_order import (
    MAXIMUM_WAVES,
)
from hypothesis import given, settings
from hypothesis import strategies as st

MIB = 1024**2
bounded = settings(max_examples=120, derandomize=True)


def variables(**given_values):
    values = {"name": "demo", "image": "debian:12", **given_values}
    return {f"session_{key}": value for key, value in values.items()}


def parse(**given_values) -> Request:
    return parse_request(variables(**given_values))


def problems(**given_values) -> dict[str, str]:
    """The problems of a request, by the variable they name."""
    with pytest.raises(InvalidInput) as error:
        parse(**given_values)
    for problem in error.value.problems:
        assert problem.message.endswith((".", "?")), problem
    assert str(error.value).count("\n") == len(error.value.problems) - 1
    return {problem.variable: problem.message for problem in error.value.problems}


def test_defaults():
    request = parse()
    assert request.size == 1
    assert request.mode == "single-node"
    (main,) = request.roles
    assert (main.name, main.replicas, main.image, main.env, main.command) == ("main", 1, "debian:12", (), None)
    assert main.resources == Resources(1000, 1024 * MIB, 64 * MIB)
    assert (request.mounts, request.ports, request.hosts, request.excluded_hosts) == ((), (), (), ())
    assert (request.resource_group, request.priority, request.max_replicas_per_host) == (
        "cluster_compute_hosts",
        0,
        None,
    )
    assert (request.policy, request.master_port) == ("pack", 12345)
    assert (request.failure_policy, request.restart_limit) == ("restart", 3)
    assert parse(size=2).mode == "multi-node"
    assert parse(shm_size="1m").roles[0].resources.shm_size == 2**20, "the least of it"


KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAID0D3s8E9JWn04xEIs9iqqoeVlWJbCLHvqIY+zMlCfIT alice@laptop"
OTHER = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFGmJ/gx/8z/eHNzAzghDtUKw9fasWzqtpwji3eUm1OG"


def test_a_working_directory_is_known_by_its_content():
    pack = "/work@sha256:" + "1" * 64
    here, there, other = (
        parse(workdir={"path": path, "packs": [name], "size": 5 * 1024**2})
        for path, name in (("/here", pack), ("/there", pack), ("/here", "/work@sha256:" + "2" * 64))
    )
    assert (here == there, here == other, here.packs) == (True, False, (pack,))
    assert Request.from_dict(here.to_dict()).workdir == here.workdir
    assert parse(workdir=" code ").workdir == Workdir("code")
    assert "path='code'" in repr(parse(workdir=" code ").workdir)
    changes = diff_requests(here, other)
    assert changes == [("workdir", "5.0 MiB, 111111111111", "5.0 MiB, 222222222222")]
    assert diff_requests(here, there) == []
    assert diff_requests(here, parse())[0][2] == "-"


@pytest.mark.parametrize("target", [WORK, f"{WORK}/data", f"{WORK}/"])
def test_nothing_is_mounted_where_the_working_directory_is(target):
    found = problems(workdir=".", mounts=[f"/srv:{target}", "/srv:/workers"])
    assert list(found) == ["session_mounts"]
    assert "Replicas have session_workdir at /work." in found["session_mounts"]


def test_the_login_of_the_owner():
    request = parse(authorized_keys=f"{OTHER}\n{KEY}\n", ssh_port="22022")
    assert (request.to_dict()["authorized_keys"], request.ssh_port) == ([KEY, OTHER], 22022)
    assert request == parse(authorized_keys=[KEY, OTHER, KEY], ssh_port=22022)
    assert (parse().authorized_keys, parse().ssh_port) == ((), None)
    assert set(problems(authorized_keys=["x"], ssh_port=0)) == {"session_authorized_keys[0]", "session_ssh_port"}
    assert "session_authorized_keys" in problems(ssh_port=22022)["session_ssh_port"]
    taken = problems(authorized_keys=KEY, ssh_port=8080, ports="127.0.0.1:8080:80")
    assert "session_ports" in taken["session_ssh_port"]
    parse(authorized_keys=KEY, ssh_port=8080, ports="8080:80/udp")


def test_keys_change_in_place_as_long_as_there_are_some():
    none, single, other = parse(), parse(authorized_keys=KEY), parse(authorized_keys=[OTHER])
    assert may_change_to(single, other)
    assert not may_change_to(none, single)
    assert not may_change_to(single, none)
    assert not may_change_to(single, parse(authorized_keys=OTHER, ssh_port=22022))
    assert not may_change_to(single, parse(authorized_keys=OTHER, cpus=2))
    assert [field.partition(":")[0] for field, _old, _new in diff_requests(single, other)] == [
        "authorized_keys.SHA256"
    ] * 2


def test_what_may_change_while_a_session_runs():
    small = parse(size=2)
    for other in (
        parse(size=5),
        parse(size=2, max_size=9),
        parse(size=2, on_host_loss="replace"),
        parse(size=2, max_idle="2h"),
    ):
        assert may_change_to(small, other)
        assert may_change_to(other, small)
    assert not may_change_to(small, parse(size=2, cpus=2))
    assert not may_change_to(small, parse(size=5, image="other"))
    assert may_change_to(small, parse(roles=[{"name": "main"}, {"name": "worker", "replicas": 1}]))
    other_image = [{"name": "main"}, {"name": "worker", "replicas": 1, "image": "other"}]
    assert not may_change_to(small, parse(roles=other_image))
    assert not may_change_to(small, parse(roles=[{"name": "main"}, {"name": "sub", "replicas": 1, "cpus": 3}]))
    # The mode that follows from a size of 1 is no wish.
    assert may_change_to(small, in_mode_of(small, parse(size=1)))
    assert not may_change_to(small, parse(size=5, mode="single-node"))
    assert problems(size=5, max_size=4)["session_max_size"].startswith("The session has 5 replicas.")
    older = parse(size=3).to_dict()
    assert not {"max_size", "on_host_loss"} & older.keys()
    assert Request.from_dict(older).on_host_loss == "wait"


def test_homogeneous_roles_and_replicas_in_rank_order():
    request = parse(size=4)
    assert [(role.name, role.replicas) for role in request.roles] == [("main", 1), ("sub", 3)]
    assert [(name, role.name, index) for name, role, index in request.replicas()] == [
        ("main1", "main", 1),
        ("sub1", "sub", 1),
        ("sub2", "sub", 2),
        ("sub3", "sub", 3),
    ]


def test_everything_as_a_survey_sends_it_equals_everything_as_yaml_has_it():
    survey = parse(
        size="3",
        mode="multi-node",
        cpus="500m",
        memory="512MiB",
        shm_size="1g",
        accelerators="gpu=1",
        pin_cpus="no",
        capabilities="sys_nice, CAP_IPC_LOCK,IPC_LOCK",
        memlock="1g",
        mounts="/srv/data:/data:ro, /srv/out:/out\n",
        env="A=1\nB=two words\n\nC=a=b",
        ports="8888,8080:80\n127.0.0.1:2222:22/tcp",
        command="python -m 'my module' --x",
        resource_group="gpu_hosts",
        priority="-5",
        on_no_capacity="",
        hosts="h1, h2",
        excluded_hosts="h3",
        max_replicas_per_host="2",
        policy="spread",
        master_port="23456",
        failure_policy="keep",
        restart_limit="5",
        encrypted="yes",
        roles="",
    )
    extra_vars = parse(
        size=3,
        mode="multi-node",
        cpus=0.5,
        memory=512 * MIB,
        shm_size="1024m",
        accelerators={"gpu": 1},
        pin_cpus=False,
        capabilities=["IPC_LOCK", "SYS_NICE"],
        memlock=1024 * MIB,
        mounts=[
            {"source": "/srv/data", "target": "/data/", "read_only": True},
            {"source": "/srv//out", "target": "/out", "read_only": ""},
        ],
        env={"A": 1, "B": "two words", "C": "a=b"},
        ports=[8888, {"host_port": 8080, "container_port": "80"}, "127.0.0.1:2222:22"],
        command=["python", "-m", "my module", "--x"],
        resource_group="gpu_hosts",
        priority=-5,
        on_no_capacity="wait",
        recreate="yes",
        hosts=["h1", "h2"],
        excluded_hosts=["h3"],
        max_replicas_per_host=2,
        policy="spread",
        master_port=23456,
        failure_policy="keep",
        restart_limit=5,
        encrypted=True,
    )
    assert survey == extra_vars
    assert survey.mounts == (Mount("/srv/data", "/data", True), Mount("/srv/out", "/out", False))
    assert survey.ports == (
        Port("127.0.0.1", 2222, 22, "tcp"),
        Port("0.0.0.0", 8080, 80, "tcp"),
        Port("0.0.0.0", 8888, 8888, "tcp"),
    )
    assert survey.roles[1].env == (("A", "1"), ("B", "two words"), ("C", "a=b"))
    assert survey.roles[0].command == ("python", "-m", "my module", "--x")


def test_empty_strings_and_none_are_not_given():
    blank = dict.fromkeys(KNOWN_VARIABLES, "") | variables()
    assert parse_request(blank) == parse()
    assert parse_request(dict.fromkeys(KNOWN_VARIABLES) | variables()) == parse()
    assert parse_request(dict.fromkeys(KNOWN_VARIABLES, " \n") | variables()) == parse()


def test_variables_of_others_are_left_alone():
    assert parse_request({**variables(), "ansible_host": object(), "awx_job_id": 5, 7: "x"}) == parse()  # type: ignore[dict-item]


def test_roles_inherit_and_override():
    request = parse(
        cpus=2,
        env={"A": "1", "B": "1"},
        command="serve",
        roles=[
            {"name": "sub", "replicas": "2", "cpus": "500m", "env": {"B": "2"}, "command": ["work", "-v"]},
            {"name": "main", "image": "registry.example:5000/team/image:tag", "memory": "2g"},
        ],
    )
    main, sub = request.roles
    assert (main.name, sub.name) == ("main", "sub"), "main comes first"
    assert main.image == "registry.example:5000/team/image:tag"
    assert (main.resources.cpus, main.resources.memory) == (2000, 2048 * MIB)
    assert (sub.image, sub.resources.cpus, sub.resources.memory) == ("debian:12", 500, 1024 * MIB)
    assert sub.env == (("A", "1"), ("B", "2"))
    assert (main.command, sub.command) == (("serve",), ("work", "-v"))
    assert request.size == 3
    text = json.dumps([{"name": "main"}, {"name": "sub", "replicas": 2}])
    assert parse(roles=text) == parse(size=3, mode="multi-node")


def test_what_would_be_right_is_said():
    assert "It is below the least amount" in problems(cpus=0)["session_cpus"]
    assert "A name is made of letters, digits and '_'" in problems(env={"A-B": "x"})["session_env"]


def test_all_problems_are_reported_together_with_what_is_allowed():
    found = problems(
        name="-no-",
        image="a; b",
        size=0,
        mode="multinode",
        cpus=float("nan"),
        memory="1x",
        shm_size="12 parsecs",
        policy="best",
        mounts=["./data:/data"],
        env="A=1\nRANK=1",
        ports=["70000:80", "http"],
        command="echo 'open",
        priority="high",
        master_port=0,
        frobnicate=1,
        authorized_keys="~/.ssh/id_ed25519.pub",
    )
    wanted = {
        "session_name": "RFC 1123",
        "session_image": "debian:12",
        "session_size": "whole number from 1 to 4096",
        "session_mode": "single-node, multi-node",
        "session_cpus": "4, 0.5 or 500m",
        "session_memory": "4g, 512MiB or 1Gi",
        "session_shm_size": "4g, 512MiB or 1Gi",
        "session_policy": "pack, spread, inventory",
        "session_mounts[0].source": "absolute",
        "session_env.RANK": "another name",
        "session_ports[0].host_port": "from 1 to 65535",
        "session_ports[1]": "host_port:port",
        "session_command": "quotes",
        "session_priority": "whole number",
        "session_master_port": "from 1 to 65535",
        "session_frobnicate": "Known are session_name",
        "session_authorized_keys[0]": "as a file ending in .pub holds it",
    }
    assert found.keys() == wanted.keys()
    assert [found[variable] for variable, text in wanted.items() if text not in found[variable]] == []
    assert "at most 40" in problems(name="b" * 41)["session_name"]
    assert "same name" in problems(roles=[{"name": "main"}, {"name": "main"}])["session_roles[1].name"]
    assert "same target" in problems(mounts=["/a:/b", "/c:/b/"])["session_mounts[1].target"]
    assert "published twice" in problems(ports="8080:80,8080:81")["session_ports[1]"]


def each(*values: object) -> tuple[object, ...]:
    """Return values whose types have nothing in common."""
    return values


BAD = (
    [
        ("name", value, "session_name")
        for value in each(
            "Demo",
            "a_b",
            "-a",
            "a-",
            "a.b",
            "a" * 41,
            "a b",
            "ä",
            "a\nb",
            "a;reboot",
            "$(id)",
            "{{ x }}",
            "../x",
            ["a"],
            {},
            True,
            1.5,
            "a\0",
            "\uff41",
        )
    ]
    + [
        ("size", value, "session_size")
        for value in each(0, -1, "0", "-3", "3.0", 3.0, "three", True, [], 4097, 10**30, "9" * 5000, "٣", "0x3", "3;")
    ]
    + [("mode", value, "session_mode") for value in each("single", "MULTI-NODE", 1, [], True, {"a": 1})]
    + [("cpus", value, "session_cpus") for value in each(0, "-1", "0.0001", "1m", True, "inf", [], "1 ; ls", 10**9)]
    + [("memory", value, "session_memory") for value in each("1m", 0, "-1g", "1.5", True, {}, "99999t")]
    + [("shm_size", value, "session_shm_size") for value in each(0, "0", "lots", -5, True, "1023k")]
    + [
        ("accelerators", value, "session_accelerators")
        for value in each({"gpu": 0}, "gpu", ["gpu"], {"a b": 1}, {"gpu": True})
    ]
    + [("pin_cpus", value, "session_pin_cpus") for value in each("always", 2, [])]
    + [("capabilities", value, "session_capabilities[0]") for value in each("ALL", "SYS_ADMIN", "CHOWN", "CAP_", [7])]
    + [("capabilities", value, "session_capabilities") for value in each(7, True, {"NET_RAW": True})]
    + [("memlock", value, "session_memlock") for value in each("-1", -1, "infinite", True, [], "2gg")]
    + [
        ("image", value, "session_image")
        for value in each(
            "UPPER",
            "a b",
            "-x",
            "a:b:c",
            "a@sha256:abc",
            "http://x/y",
            "a//b",
            "/a",
            "a;b",
            "a\nb",
            5,
            [],
            True,
            "x" * 600,
            "$(id)",
            "--privileged",
            "a:" + "t" * 129,
        )
    ]
    + [("policy", value, "session_policy") for value in each("packed", 1, [], True)]
    + [("failure_policy", value, "session_failure_policy") for value in each("restarts", 1, [], True)]
    + [("encrypted", value, "session_encrypted") for value in each("perhaps", 2, 1.5, [True])]
    + [("image_pull", value, "session_image_pull") for value in each("sometimes", 1, [], True)]
    + [
        ("image_archive", value, "session_image_archive")
        for value in each("image.tar", "~/image.tar", "/a\nb", 5, ["/a"], True, "/" + "x" * 5000)
    ]
    + [
        ("workdir", value, "session_workdir")
        for value in each(
            "a\nb",
            5,
            ["/a"],
            True,
            "/" + "x" * 5000,
            {"path": "/a"},
            {"path": "/a", "packs": ["busybox"], "size": 1},
            {"path": "/a", "packs": ["/work@sha256:1"], "size": 1},
            {"path": "/a", "packs": "/work@sha256:" + "1" * 64, "size": 1},
            {"path": "/a", "packs": [], "size": -1},
        )
    ]
    + [("restart_limit", value, "session_restart_limit") for value in each(-1, 1001, "never", True, 1.5)]
    + [
        ("resource_group", value, "session_resource_group")
        for value in each("all:!x", "a,b", "*", "~x", "a b", "-a", 5, [], True, "a\nb", "x" * 300, "{{ x }}")
    ]
    + [("priority", value, "session_priority") for value in each("high", 1.5, True, 10**7, [])]
    + [("max_replicas_per_host", value, "session_max_replicas_per_host") for value in each(0, -1, "none", True, 1.5)]
    + [("master_port", value, "session_master_port") for value in each(0, 65536, "http", True, -1, "80.5")]
    + [
        (switch, value, f"session_{switch}")
        for switch in ("on_no_capacity", "recreate")
        for value in each("maybe", 2, [], 0.5, {})
    ]
    + [("hosts", value, "session_hosts") for value in each(5, {"a": 1}, True)]
    + [
        ("hosts", value, "session_hosts[1]")
        for value in each("a,a", ["a", "a"], ["a", 5], ["a", ""], ["a", "b\0"], ["a", None])
    ]
    + [
        ("excluded_hosts", ["x\x1b[2J"], "session_excluded_hosts[0]"),
        ("command", "'open", "session_command"),
        ("command", 5, "session_command"),
        ("command", {"a": 1}, "session_command"),
        ("command", True, "session_command"),
        ("command", ["a", True], "session_command[1]"),
        ("command", ["a", None], "session_command[1]"),
        ("command", ["a\0b"], "session_command[0]"),
        ("command", ["a", "\ud800"], "session_command[1]"),
        ("command", [""], "session_command"),
        ("command", ["x" * 131072], "session_command[0]"),
        ("env", 5, "session_env"),
        ("env", ["A=1", 5], "session_env"),
        ("env", "A", "session_env line 1"),
        ("env", "=1", "session_env"),
        ("env", "A=1\nA=2", "session_env.A"),
        ("env", {"1A": "x"}, "session_env"),
        ("env", {"A-B": "x"}, "session_env"),
        ("env", {"A=B": "x"}, "session_env"),
        ("env", {"A\nB": "x"}, "session_env"),
        ("env", {"Ä": "x"}, "session_env"),
        ("env", {5: "x"}, "session_env"),
        ("env", {"A": True}, "session_env.A"),
        ("env", {"A": 1.5}, "session_env.A"),
        ("env", {"A": None}, "session_env.A"),
        ("env", {"A": ["x"]}, "session_env.A"),
        ("env", {"A": "x\0y"}, "session_env.A"),
        ("env", {"A": "x\x1by"}, "session_env.A"),
        ("env", {"A": "\udfff"}, "session_env.A"),
        ("env", {"A": "x" * 131070}, "session_env.A"),
        ("mounts", 5, "session_mounts"),
        ("mounts", {"source": "/a", "target": "/b"}, "session_mounts"),
        ("mounts", ["/a"], "session_mounts[0]"),
        ("mounts", ["/a:/b:rw:z"], "session_mounts[0]"),
        ("mounts", ["/a:/b:z"], "session_mounts[0]"),
        ("mounts", [5], "session_mounts[0]"),
        ("mounts", ["./a:/b"], "session_mounts[0].source"),
        ("mounts", ["/a:b"], "session_mounts[0].target"),
        ("mounts", ["~/a:/b"], "session_mounts[0].source"),
        ("mounts", [{"source": "/a"}], "session_mounts[0].target"),
        ("mounts", [{"source": "/a", "target": "/b", "ro": True}], "session_mounts[0].ro"),
        ("mounts", [{"source": "/a", "target": "/b", "read_only": "perhaps"}], "session_mounts[0].read_only"),
        ("mounts", [{"source": "/a/../b", "target": "/b"}], "session_mounts[0].source"),
        ("mounts", [{"source": "/a", "target": "/b/.."}], "session_mounts[0].target"),
        ("mounts", [{"source": "/a\nb", "target": "/b"}], "session_mounts[0].source"),
        ("mounts", [{"source": "/a", "target": "/b\0"}], "session_mounts[0].target"),
        ("mounts", [{"source": "/" + "x" * 5000, "target": "/b"}], "session_mounts[0].source"),
        ("mounts", ["/a:/b", "/c:/b/"], "session_mounts[1].target"),
        ("mounts", ["/a:/b", "/c://b/."], "session_mounts[1].target"),
        ("ports", {"a": 1}, "session_ports"),
        ("ports", True, "session_ports"),
        ("ports", ["x"], "session_ports[0]"),
        ("ports", ["1:2:3"], "session_ports[0].host_ip"),
        ("ports", ["80-90:80-90"], "session_ports[0]"),
        ("ports", [["80"]], "session_ports[0]"),
        ("ports", [True], "session_ports[0]"),
        ("ports", [None], "session_ports[0]"),
        ("ports", [0], "session_ports[0].container_port"),
        ("ports", [65536], "session_ports[0].container_port"),
        ("ports", [-80], "session_ports[0].container_port"),
        ("ports", ["0:80"], "session_ports[0].host_port"),
        ("ports", ["80/icmp"], "session_ports[0].protocol"),
        ("ports", [{"host_port": 80}], "session_ports[0].container_port"),
        ("ports", [{"container_port": 80, "hostport": 81}], "session_ports[0].hostport"),
        ("ports", [{"container_port": 80, "host_ip": "localhost"}], "session_ports[0].host_ip"),
        ("ports", [{"container_port": 80, "host_ip": 5}], "session_ports[0].host_ip"),
        ("ports", ["300.0.0.1:80:80"], "session_ports[0].host_ip"),
        ("ports", [80, "80"], "session_ports[1]"),
        ("ports", ["127.0.0.1:80:80", "80"], "session_ports[1]"),
        ("ports", ["80:1", "80:2"], "session_ports[1]"),
        ("roles", "not json", "session_roles"),
        ("roles", "{}", "session_roles"),
        ("roles", [], "session_roles"),
        ("roles", {"main": 1}, "session_roles"),
        ("roles", [5], "session_roles[0]"),
        ("roles", [{"name": "sub", "replicas": 1}], "session_roles"),
        ("roles", [{"name": "main", "replicas": 2}], "session_roles[0].replicas"),
        ("roles", [{"name": "main"}, {"name": "main"}], "session_roles[1].name"),
        ("roles", [{"name": "main"}, {"name": "Sub", "replicas": 1}], "session_roles[1].name"),
        ("roles", [{"name": "main"}, {"name": "1st", "replicas": 1}], "session_roles[1].name"),
        ("roles", [{"name": "main"}, {"name": "s_b", "replicas": 1}], "session_roles[1].name"),
        ("roles", [{"name": "main"}, {"name": "sub-", "replicas": 1}], "session_roles[1].name"),
        ("roles", [{"name": "main"}, {"name": "r" * 17, "replicas": 1}], "session_roles[1].name"),
        ("roles", [{"name": "main"}, {"name": None, "replicas": 1}], "session_roles[1].name"),
        ("roles", [{"name": "main"}, {"name": "sub"}], "session_roles[1].replicas"),
        ("roles", [{"name": "main"}, {"name": "sub", "replicas": 0}], "session_roles[1].replicas"),
        ("roles", [{"name": "main"}, {"name": "sub", "replicas": 4096}], "session_roles"),
        ("roles", [{"name": "main"}, {"name": "sub", "replica": 2, "replicas": 2}], "session_roles[1].replica"),
        ("roles", [{"name": "main"}, {"name": "sub", "replicas": 1, "cpus": 0}], "session_roles[1].cpus"),
        ("roles", [{"name": "main"}, {"name": "sub", "replicas": 1, "image": "A B"}], "session_roles[1].image"),
        (
            "roles",
            [{"name": "main"}, {"name": "sub", "replicas": 1, "env": {"RANK": "1"}}],
            "session_roles[1].env.RANK",
        ),
        ("roles", [{"name": "main"}, {"name": "s1", "replicas": 1}, {"name": "s", "replicas": 11}], "session_roles"),
        ("roles", [{"name": "main", "after": ["man"]}], "session_roles"),
        ("roles", [{"name": "main", "after": "main"}], "session_roles"),
        ("roles", [{"name": "main", "ready_port": 0}], "session_roles[0].ready_port"),
        ("after", ["main"], "session_after"),
        ("ready_port", 80, "session_ready_port"),
    ]
)


@pytest.mark.parametrize(("key", "value", "variable"), BAD)
def test_bad_values_are_refused_by_name(key, value, variable):
    assert variable in problems(**{key: value})


def test_two_roles_may_have_numbers_in_their_names_if_no_replica_collides():
    request = parse(roles=[{"name": "main"}, {"name": "sub1", "replicas": 1}, {"name": "sub", "replicas": 10}])
    assert len({name for name, _role, _index in request.replicas()}) == 12
    found = problems(roles=[{"name": "main"}, {"name": "sub1", "replicas": 1}, {"name": "sub", "replicas": 11}])
    assert "replica sub11 has the same name as one of role sub1" in found["session_roles"]


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/etc",
        "/etc/",
        "//etc",
        "/etc/hosts",
        "/etc/hostname",
        "/etc/resolv.conf",
        "/etc/cluster-compute",
        "/etc/cluster-compute/x",
        "/proc",
        "/proc/1",
        "/sys",
        "/sys/fs/cgroup",
        "/dev",
        "/dev/shm",
    ],
)
def test_targets_that_hide_what_replicas_need(target):
    assert "would hide" in problems(mounts=[{"source": "/a", "target": target}])["session_mounts[0].target"]


@pytest.mark.parametrize(
    "target", ["/etc2", "/etc/hosts.d", "/home", "/device", "/etc/cluster-compute2", "/usr/lib/x y"]
)
def test_targets_that_hide_nothing(target):
    assert parse(mounts=[{"source": "/a:b", "target": target}]).mounts == (Mount("/a:b", target, False),)


@pytest.mark.parametrize("name", sorted(CONTRACT_NAMES))
def test_no_variable_of_the_contract_can_be_taken(name):
    assert "sets this variable" in problems(env={name: "1"})[f"session_env.{name}"]


@pytest.mark.parametrize("name", sorted(ADVICE_NAMES))
def test_what_only_advises_can_be_said_otherwise(name):
    assert dict(parse(env={name: "1"}).roles[0].env) == {name: "1"}


def test_names_like_the_contract_are_free():
    assert parse(env={"rank": "1", "RANKS": "2", "BACKENDAI_MINE": "3"})


def test_values_of_variables_are_never_shown():
    hidden = "hunter2\0"
    with pytest.raises(InvalidInput) as error:
        parse(env={"RANK": hidden, "A": hidden, "B": [hidden]}, roles=[{"name": "main", "env": {"C": hidden}}])
    assert "hunter2" not in str(error.value)
    with pytest.raises(InvalidInput) as error:
        parse(env="no sign hunter2")
    assert "hunter2" not in str(error.value)


def test_ports_on_different_addresses_or_protocols_do_not_collide():
    assert len(parse(ports=["127.0.0.1:80:80", "127.0.0.2:80:80", "[::1]:80:80", "80/udp"]).ports) == 4
    assert parse(ports="127.0.0.1:80").ports == (Port("127.0.0.1", 80, 80, "tcp"),)
    assert parse(ports=8080).ports[0].host_port == 8080
    assert parse(ports=[{"container_port": 53, "protocol": "UDP"}]).ports[0].protocol == "udp"


def test_unknown_variables_get_the_closest_name():
    assert problems(nam="x")["session_nam"].endswith("Did you mean session_name?")
    assert "Did you mean session_memory?" in problems(memroy="1g")["session_memroy"]
    assert "Known are session_name" in problems(zzzz=1)["session_zzzz"]
    assert "Did you mean session_cpus?" in problems(cpu=1)["session_cpu"]


def test_names_of_other_tools_are_known():
    assert all(f"{PREFIX}{own}" in KNOWN_VARIABLES for own in OTHER_TOOLS.values())
    assert not any(f"{PREFIX}{other}" in KNOWN_VARIABLES for other in OTHER_TOOLS)
    for other, own in (("gpus", "accelerators"), ("nodes", "size"), ("volumes", "mounts"), ("mem", "memory")):
        assert problems(**{other: 1})[PREFIX + other].endswith(f"Did you mean {PREFIX}{own}?")


def test_variables_in_one_line_are_not_taken_for_one():
    for text in ("A=1,B=2", "A=1, B_2=x\n"):
        assert "A comma does not separate variables." in problems(env=text)["session_env.A"]
    for value in ("A=1,2", "A=x,b=y", "A=1,B=2\nC=3", {"A": "1,B=2"}, ["A=1,B=2"]):
        assert parse(env=value).roles[0].env[0][0] == "A"


def test_missing_name_and_image():
    with pytest.raises(InvalidInput) as error:
        parse_request({})
    assert [problem.variable for problem in error.value.problems] == ["session_name", "session_image"]
    assert str(error.value).startswith("session_name is not given: A session needs a name.")
    assert "A session needs an image." in str(error.value)


def test_size_and_roles_must_agree():
    roles = [{"name": "main"}, {"name": "sub", "replicas": 2}]
    assert parse(size=3, roles=roles).size == 3
    assert "add up to 3 replicas" in problems(size=4, roles=roles)["session_size"]


def test_a_host_cannot_be_wanted_and_excluded():
    assert "is in session_hosts, too" in problems(hosts="a,b", excluded_hosts="b")["session_excluded_hosts"]


def test_what_a_launch_alone_does_is_no_part_of_a_request():
    assert parse(on_no_capacity="wait", recreate="true") == parse(on_no_capacity="fail", recreate=False)


def test_booleans():
    for value in (True, "true", "Yes", "on", "1", 1):
        assert parse_bool("x", value) is True
    for value in (False, "false", "No", "off", "0", 0):
        assert parse_bool("x", value) is False


def test_hostile_variable_names_and_values_stay_on_one_line():
    with pytest.raises(InvalidInput) as error:
        parse_request({**variables(name="\x1b[31m\nx"), "session_\nx\x1b": "y"})
    assert str(error.value).count("\n") == 1
    assert "\x1b" not in str(error.value)
    assert len(show("x" * 10_000)) < 200
    assert show(10**5000) == "a number too long to show"
    assert str(Problem("a", None, "B.")) == "a is not given: B."


# Round trips and differences.

NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,6}[a-z]", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12)
PATHS = st.from_regex(r"/[a-z0-9 _-]{1,8}(/[a-z0-9_]{1,5})?", fullmatch=True)


@st.composite
def requests(draw):
    names = draw(st.lists(NAMES.filter(lambda name: name != "main"), max_size=3, unique=True))
    roles = [{"name": name, "replicas": draw(st.integers(1, 9))} for name in names]
    for role in roles:
        if draw(st.booleans()):
            role["cpus"] = f"{draw(st.integers(10, 99999))}m"
            role["accelerators"] = draw(st.dictionaries(st.sampled_from(["gpu", "fpga"]), st.integers(1, 9)))
            role["env"] = draw(st.dictionaries(st.from_regex(r"V[A-Z_]{0,5}", fullmatch=True), TEXTS, max_size=2))
            role["after"] = draw(st.sampled_from([[], ["main"]]))
            role["ready_port"] = draw(st.sampled_from(["", 80]))
            role["command"] = draw(st.lists(TEXTS.filter(bool), max_size=3))
    return parse(
        name=draw(st.from_regex(r"[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)),
        roles=[*roles, {"name": "main", "memory": draw(st.integers(6 * MIB, 2**40))}],
        mode=draw(st.sampled_from(["", "single-node", "multi-node"])),
        env=draw(
            st.dictionaries(
                st.from_regex(r"W[A-Z_]{0,5}", fullmatch=True).filter(lambda n: n not in CONTRACT_NAMES),
                TEXTS,
                max_size=3,
            )
        ),
        mounts=[
            {"source": source, "target": target, "read_only": draw(st.booleans())}
            for source, target in draw(
                st.lists(
                    st.tuples(PATHS, PATHS.filter(lambda p: not p.startswith(("/etc", "/dev", "/sys", "/proc")))),
                    max_size=3,
                    unique_by=lambda pair: pair[1],
                )
            )
        ],
        ports=draw(st.lists(st.integers(1, 65534), max_size=3, unique=True)),
        hosts=draw(st.lists(NAMES, max_size=3, unique=True)),
        max_replicas_per_host=draw(st.sampled_from(["", 1, 7])),
        priority=draw(st.integers(-100, 100)),
        policy=draw(st.sampled_from(["pack", "spread", "inventory"])),
        image=draw(st.sampled_from(["debian:12", "alpine:3"])),
        shm_size=draw(st.sampled_from(["64m", "1g"])),
        capabilities=draw(st.lists(st.sampled_from(["IPC_LOCK", "NET_RAW", "SYS_NICE", "SYS_PTRACE"]), max_size=3)),
        memlock=draw(st.sampled_from(["", "unlimited", 0, "64k"])),
        resource_group=draw(st.sampled_from(["", "gpu_hosts"])),
        master_port=draw(st.sampled_from(["", 23456])),
        failure_policy=draw(st.sampled_from(["", "restart", "keep", "strict"])),
        restart_limit=draw(st.sampled_from(["", 0, 1000])),
        excluded_hosts=draw(st.sampled_from(["", "X1", "X1,X2"])),
        authorized_keys=(keys := draw(st.sampled_from(["", KEY, [KEY, OTHER]]))),
        ssh_port=draw(st.sampled_from(["", 65535])) if keys else "",
        encrypted=draw(st.sampled_from(["", True, False])),
    )


@bounded
@given(requests())
def test_round_trip_through_json(request):
    data = json.loads(json.dumps(request.to_dict()))
    again = Request.from_dict(data)
    assert again == request
    assert again.to_dict() == request.to_dict()
    assert diff_requests(request, again) == []


@settings(bounded, max_examples=25)
@given(requests(), requests())
def test_a_difference_is_seen_exactly_where_there_is_one(old, other):
    """Each field of one request put into another, one at a time."""
    for field in fields(Request):
        new = replace(old, **{field.name: getattr(other, field.name)})
        assert (diff_requests(old, new) == []) == (old == new), field.name
    for position, field in itertools.product((0, -1), fields(old.roles[0])):
        role = replace(old.roles[position], **{field.name: getattr(other.roles[position], field.name)})
        changed = [*old.roles]
        changed[position] = role
        new = replace(old, roles=tuple(changed))
        assert (diff_requests(old, new) == []) == (old == new), field.name


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "other"}, "name"),
        ({"mode": "single-node"}, "mode"),
        ({"size": 3}, "roles.sub.replicas"),
        ({"image": "alpine:3"}, "roles.main.image"),
        ({"cpus": 2}, "roles.main.cpus"),
        ({"memory": "2g"}, "roles.sub.memory"),
        ({"shm_size": "1g"}, "roles.sub.shm_size"),
        ({"accelerators": "gpu=1"}, "roles.main.accelerators.gpu"),
        ({"pin_cpus": "true"}, "roles.main.pin_cpus"),
        ({"capabilities": "NET_RAW"}, "roles.sub.capabilities"),
        ({"memlock": "unlimited"}, "roles.main.memlock"),
        ({"disk_size": "8g"}, "roles.main.disk_size"),
        ({"env": "A=1"}, "roles.main.env.A"),
        ({"command": "sleep 1"}, "roles.sub.command"),
        ({"entrypoint": "/entry"}, "roles.sub.entrypoint"),
        ({"init": "no"}, "roles.main.init"),
        ({"mounts": "/a:/b"}, "mounts./b"),
        ({"ports": "80"}, "ports.0.0.0.0:80/tcp"),
        ({"resource_group": "others"}, "resource_group"),
        ({"priority": 1}, "priority"),
        ({"hosts": "a"}, "hosts"),
        ({"excluded_hosts": "a"}, "excluded_hosts"),
        ({"max_replicas_per_host": 1}, "max_replicas_per_host"),
        ({"policy": "spread"}, "policy"),
        ({"master_port": 1}, "master_port"),
        ({"failure_policy": "strict"}, "failure_policy"),
        ({"restart_limit": 0}, "restart_limit"),
        (
            {"authorized_keys": KEY},
            "authorized_keys.SHA256:aRt/gk+ayybuIM5jdXzho53g4MzbW9S3L2oewKLHFUw",
        ),
        ({"encrypted": "yes"}, "encrypted"),
    ],
)
def test_each_field_alone_is_a_difference(change, field):
    old, new = parse(size=2), parse(**{"size": 2, **change})
    assert old != new
    assert field in {name for name, _old, _new in diff_requests(old, new)}


def test_how_images_come_is_no_difference_between_sessions():
    old, new = parse(), parse(image_pull="always", image_archive=" /srv/image.tar ")
    assert (new.image_pull, new.image_archive) == ("always", "/srv/image.tar")
    assert (old.image_pull, old.image_archive) == ("missing", None)
    assert old == new
    assert diff_requests(old, new) == []
    assert Request.from_dict(new.to_dict()).to_dict() == new.to_dict()


def test_differences_in_words():
    old = parse(size=2, cpus=1, env={"A": "1", "B": "1"}, ports="80", mounts="/a:/b")
    new = parse(size=3, cpus="500m", env={"A": "2", "C": "1"}, ports="8080:80", mounts="/a:/b:ro", command="x 'y z'")
    found = {field: (left, right) for field, left, right in diff_requests(old, new)}
    assert found == {
        "roles.main.cpus": ("1", "0.5"),
        "roles.sub.cpus": ("1", "0.5"),
        "roles.sub.replicas": ("1", "2"),
        "roles.main.env.A": ("set", "another value"),
        "roles.sub.env.A": ("set", "another value"),
        "roles.main.env.B": ("set", "-"),
        "roles.sub.env.B": ("set", "-"),
        "roles.main.env.C": ("-", "set"),
        "roles.sub.env.C": ("-", "set"),
        "roles.main.command": ("-", "x 'y z'"),
        "roles.sub.command": ("-", "x 'y z'"),
        "mounts./b": ("/a (read-write)", "/a (read-only)"),
        "ports.0.0.0.0:80/tcp": ("80", "-"),
        "ports.0.0.0.0:8080/tcp": ("-", "80"),
    }


def test_order_of_roles_is_a_difference():
    roles = [{"name": "main"}, {"name": "a", "replicas": 1}, {"name": "b", "replicas": 1}]
    old, new = parse(roles=roles), parse(roles=[roles[0], roles[2], roles[1]])
    assert old != new
    assert diff_requests(old, new) == [("roles", "main,a,b", "main,b,a")]


def test_order_of_mounts_ports_and_hosts_is_none():
    assert parse(mounts="/a:/b,/c:/d", ports="1,2", hosts="a,b", excluded_hosts="c,d") == parse(
        mounts="/c:/d,/a:/b", ports="2,1", hosts="b,a", excluded_hosts="d,c"
    )


@pytest.mark.parametrize(
    "change",
    [
        {"name": "Bad"},
        {"roles": []},
        {"roles": [5]},
        {"mode": None},
        {"priority": "5"},
        {"master_port": True},
        {"failure_policy": "never"},
        {"restart_limit": -1},
        {"authorized_keys": KEY},
        {"ssh_port": 22022},
        {"mounts": "/a:/b"},
        {"hosts": None},
        {"extra": 1},
    ],
)
def test_malformed_requests_are_not_read(change):
    data = {**parse().to_dict(), **change}
    with pytest.raises(InvalidInput):
        Request.from_dict(data)


def test_what_a_request_of_an_earlier_release_lacks_has_its_default():
    plain = parse_request({"session_name": "demo", "session_image": "debian:12"}).to_dict()
    stored = parse(priority=3, memory="2g", env="A=1").to_dict()
    for key in stored:
        data = {name: value for name, value in stored.items() if name != key}
        if key in ("name", "roles"):
            with pytest.raises(InvalidInput):
                Request.from_dict(data)
        else:
            assert Request.from_dict(data).to_dict() == {**stored, key: plain[key]}
    for key in stored["roles"][0]:
        data = copy.deepcopy(stored)
        for role in data["roles"]:
            del role[key]
        if key in ("name", "image", "resources"):
            with pytest.raises(InvalidInput):
                Request.from_dict(data)
        else:
            assert Request.from_dict(data).roles[0] == replace(
                Request.from_dict(stored).roles[0], **{key: getattr(parse().roles[0], key)}
            )
    with pytest.raises(InvalidInput):
        Request.from_dict([])  # type: ignore[arg-type]


def test_what_a_newer_release_asked_for_is_named_and_passed_over_where_that_does_not_matter():
    stored = parse(size=2, env="A=secret").to_dict()
    newer = copy.deepcopy(stored)
    newer["mood"] = "secret"
    newer["roles"][1]["tint"] = newer["roles"][0]["resources"]["wheels"] = "secret"
    with pytest.raises(InvalidInput) as error:
        Request.from_dict(newer)
    assert [problem.variable for problem in error.value.problems] == [
        "request.mood",
        "request.roles[0].resources.wheels",
        "request.roles[1].tint",
    ]
    assert "Use the release that wrote it, or a newer one; this one can tear the session down." in str(error.value)
    assert "secret" not in str(error.value)
    assert Request.from_dict(newer, newer_too=True) == Request.from_dict(stored)


ANYTHING = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.binary(max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(
                st.sampled_from(["name", "replicas", "source", "target", "host_port", "container_port", "env", "cpus"]),
                st.text(max_size=3),
                st.integers(),
            ),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=6,
)


@settings(bounded, max_examples=400)
@given(st.dictionaries(st.sampled_from(KNOWN_VARIABLES), ANYTHING, max_size=4))
def test_any_input_ends_in_a_request_or_in_sentences(given_values):
    values = {**variables(), **given_values}
    try:
        outcome: Request | InvalidInput = parse_request(values)
    except InvalidInput as refusal:
        outcome = refusal
    if isinstance(outcome, Request):
        assert Request.from_dict(json.loads(json.dumps(outcome.to_dict()))) == outcome
    else:
        assert outcome.problems
        assert str(outcome).count("\n") == len(outcome.problems) - 1


def test_cpus_that_are_pinned_are_whole():
    request = parse(
        cpus=2,
        pin_cpus="yes",
        size=2,
        roles=[{"name": "main", "pin_cpus": False, "cpus": "0.5"}, {"name": "sub", "replicas": 1}],
    )
    assert [role.resources.devices() for role in request.roles] == [(), (("pinned CPU", 2),)]
    with pytest.raises(InvalidInput) as error:
        parse(cpus="1500m", pin_cpus=True)
    assert [(problem.variable, problem.value) for problem in error.value.problems] == [("session_cpus", "1.5")]
    assert "session_pin_cpus" in str(error.value)
    with pytest.raises(InvalidInput, match="whole number of CPUs"):
        parse(pin_cpus=True, roles=[{"name": "main", "cpus": "0.5"}])


def test_capabilities_and_memory_locks_of_roles():
    request = parse(
        capabilities="NET_RAW",
        memlock="unlimited",
        roles=[{"name": "main", "capabilities": [], "memlock": 65536}, {"name": "sub", "replicas": 1}],
    )
    assert [(role.capabilities, role.memlock) for role in request.roles] == [((), 65536), (("NET_RAW",), -1)]
    assert (parse().roles[0].capabilities, parse().roles[0].memlock) == ((), None)
    with pytest.raises(InvalidInput) as error:
        parse(capabilities="NET_ADMIN, chown", memlock="much", roles=[{"name": "main", "capabilities": "cap_sys_time"}])
    message = str(error.value)
    allowed = "A session can be given IPC_LOCK, NET_RAW, SYS_NICE, SYS_PTRACE, no others."
    assert f"session_capabilities[0] is 'NET_ADMIN': {allowed}" in message
    assert "session_capabilities[1] is 'chown': Every replica has this capability; leave it out." in message
    assert f"session_roles[0].capabilities[0] is 'cap_sys_time': {allowed}" in message
    assert "session_memlock is 'much'" in message
    assert "Or set unlimited." in message


def test_what_runs_in_front_of_the_command_is_stored_where_it_is_not_as_usual() -> None:
    alone = {"name": "main", "init": True, "entrypoint": ["/main", "x y"]}
    request = parse(init="no", entrypoint="/entry 'a b'", roles=[alone, {"name": "sub", "replicas": 1}])
    assert [(role.init, role.entrypoint) for role in request.roles] == [
        (True, ("/main", "x y")),
        (False, ("/entry", "a b")),
    ]
    stored = request.to_dict()
    assert Request.from_dict(stored) == request
    assert ["init" in role for role in stored["roles"]] == [False, True]
    assert not {"init", "entrypoint"} & parse().to_dict()["roles"][0].keys(), "earlier releases know neither"
    with pytest.raises(InvalidInput, match="session_init is 'maybe'"):
        parse(init="maybe")


def test_a_limit_of_the_disk_is_stored_where_there_is_one_alone() -> None:
    request = parse(disk_size="8g", roles=[{"name": "main", "disk_size": "1g"}, {"name": "sub", "replicas": 1}])
    assert [role.disk_size for role in request.roles] == [1024**3, 8 * 1024**3]
    assert Request.from_dict(request.to_dict()) == request
    assert parse().roles[0].disk_size is None
    assert "disk_size" not in parse().to_dict()["roles"][0], "earlier releases wrote none"
    with pytest.raises(InvalidInput, match="session_disk_size is '1k'"):
        parse(disk_size="1k")


def test_roles_come_after_others_that_exist_and_never_in_a_circle() -> None:
    roles: list[dict[str, object]] = [{"name": "main", "after": ["db", "db", "web"]}]
    roles += [{"name": "db", "replicas": 2, "ready_port": "5432"}, {"name": "web", "replicas": 1, "after": "db"}]
    request = parse(roles=roles)
    assert [(role.name, role.after, role.ready_port) for role in request.roles] == [
        ("main", ("db", "web"), None),
        ("db", (), 5432),
        ("web", ("db",), None),
    ]
    assert Request.from_dict(json.loads(json.dumps(request.to_dict()))) == request
    assert not {"after", "ready_port"} & set(parse().to_dict()["roles"][0]), "earlier releases wrote none"
    plain = parse(roles=[{key: role[key] for key in role.keys() & {"name", "replicas"}} for role in roles])
    assert diff_requests(plain, request) == [
        ("roles.main.after", "-", "db,web"),
        ("roles.db.ready_port", "-", "5432"),
        ("roles.web.after", "-", "db"),
    ]
    with pytest.raises(
        InvalidInput, match=r"session_roles is 'main after wep': There is no role wep\. Did you mean web"
    ):
        parse(roles=[{**roles[0], "after": "wep"}, *roles[1:]])
    circle = r"session_roles is 'db, web': They wait for each other"
    with pytest.raises(InvalidInput, match=circle):
        parse(roles=[{"name": "main"}, {**roles[1], "after": "web"}, roles[2]])
    chain: list[dict[str, object]] = [{"name": "main"}]
    chain += [{"name": f"r{n}x", "replicas": 1, "after": f"r{n - 1}x" if n else "main"} for n in range(MAXIMUM_WAVES)]
    with pytest.raises(InvalidInput, match=f"session_roles is '{MAXIMUM_WAVES + 1} roles after each other'"):
        parse(roles=chain)
    parse(roles=chain[:-1])


def test_variables_of_slurm_are_stored_where_they_are_asked_for_alone() -> None:
    request = parse(slurm_variables="yes")
    assert (request.slurm_variables, request.to_dict()["slurm_variables"]) == (True, True)
    assert Request.from_dict(request.to_dict()) == request
    assert "slurm_variables" not in parse().to_dict(), "earlier releases wrote none, and read none"
    assert Request.from_dict(parse().to_dict()) == parse()
    assert diff_requests(parse(), request) == [("slurm_variables", "false", "true")]
    with pytest.raises(InvalidInput, match="session_slurm_variables is 'much'"):
        parse(slurm_variables="much")


def test_a_batch_command_is_text_for_the_shell_or_words() -> None:
    def batch(value: object) -> tuple[str, ...] | None:
        variables = {"session_name": "a", "session_image": "b", "session_batch_command": value}
        request = parse_request(variables)
        assert Request.from_dict(request.to_dict()) == request
        return request.batch_command

    assert batch("a | b $C") == ("/bin/sh", "-c", "a | b $C")
    assert batch(["a", 1]) == ("a", "1")
    assert batch("") is None
    with pytest.raises(InvalidInput, match="session_batch_command"):
        batch(["a\0"])


@dataclass(frozen=True)
class Coloured(Request):
    """A request with a variable more."""

    colour: str = ""
    fields = (
        *FIELDS,
        Field(
            "colour",
            "`red`, `blue`",
            "Of the session.",
            lambda variable, value: parse_choice(variable, value, ("red", "blue")),
            default="red",
            choices=("red", "blue"),
            optional=True,
            question=Question("Colour", "Which of them"),
        ),
    )


def test_a_field_in_the_table_is_all_that_a_new_variable_takes() -> None:
    red, blue = (parse_request(variables(colour=colour), Coloured) for colour in ("", "blue"))
    assert isinstance(blue, Coloured)
    assert blue.colour == "blue"
    with pytest.raises(InvalidInput, match=r"session_colour is 'bleu': .* Did you mean blue\?"):
        parse_request(variables(colour="bleu"), Coloured)
    assert "session_colour" in problems(colour="blue"), "unknown without the field"
    assert Coloured.from_dict(json.loads(json.dumps(blue.to_dict()))) == blue
    assert blue.to_dict() == {**parse().to_dict(), "colour": "blue"}
    assert red.to_dict() == parse().to_dict(), "an earlier release can read it"
    assert Coloured.from_dict(parse().to_dict()) == red, "an earlier release wrote it"
    assert diff_requests(red, blue) == [("colour", "red", "blue")]
    assert documented(Coloured.fields)[-1] == ("`session_colour`", "`red`, `blue`", "`red`", "Of the session.")
    assert questions(Coloured.fields)["session_colour"] == {
        "type": "multiplechoice",
        "question_name": "Colour",
        "question_description": "Which of them",
        "variable": "session_colour",
        "required": True,
        "choices": ["red", "blue"],
        "default": "red",
    }


def test_every_field_of_a_request_or_a_role_has_its_attribute() -> None:
    own = {field.name for field in fields(Request)} - {"roles"}
    assert {field.name for field in FIELDS if field.of == REQUEST} == own
    of_a_role = {field.name for kind in (Role, Resources) for field in fields(kind)} - {"name", "replicas", "resources"}
    assert {field.name for field in (*FIELDS, *ROLE_FIELDS, *KEPT_FIELDS) if field.of == ROLE} == of_a_role
    request = parse()
    for field in fields(Request):
        if field.default is not MISSING:
            assert getattr(request, field.name) == field.default, "what the class says is what the table says"
