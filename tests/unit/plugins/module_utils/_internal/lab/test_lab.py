# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a lab is named, made of and found by, as far as it can be said without making one."""

from __future__ import annotations

import pathlib
import subprocess

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.lab import (
    debian,
    images,
    network,
    processes,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.lab.names import Lab, hardware_address
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.lab.system import LabError, locked, run

DIRECTORY = "/var/lib/cluster-compute-lab/lab"


def test_names_follow_from_the_lab_and_fit_the_kernel() -> None:
    host = Lab("twelve-chars", DIRECTORY).host("h1")
    assert host.lab.bridge == "br-twelve-chars"
    assert len(host.lab.bridge) == len(host.link) == 15
    assert host.namespace == "cclab.twelve-chars.h1"


def test_a_lab_is_not_found_by_the_prefix_of_another() -> None:
    assert not Lab("lab-two", DIRECTORY).host("h1").namespace.startswith(Lab("lab", DIRECTORY).namespace_prefix)


@pytest.mark.parametrize("name", ["", "Lab", "1lab", "thirteen-char", "a b", "../x", "a;reboot", "lab\n"])
def test_refuses_lab_names(name: str) -> None:
    with pytest.raises(LabError, match="lab_name"):
        Lab(name, DIRECTORY)


@pytest.mark.parametrize("directory", ["", "/", "/var", "relative/path", "/var/lib/../lib", "/var/lib/a b", "/var//x"])
def test_refuses_directories_which_teardown_must_never_remove(directory: str) -> None:
    with pytest.raises(LabError, match="lab_directory"):
        Lab("lab", directory)


@pytest.mark.parametrize("name", ["", "H1", "-h", "h-", "h.1", "h/1", "$(reboot)", "h" * 43])
def test_refuses_host_names(name: str) -> None:
    with pytest.raises(LabError, match="lab host"):
        Lab("lab", DIRECTORY).host(name)


def test_hardware_addresses_are_local_unicast_and_stay() -> None:
    first = hardware_address("10.212.0.11")
    assert first == hardware_address("10.212.0.11") != hardware_address("10.212.0.12")
    assert int(first[:2], 16) & 0b11 == 0b10


def test_gateway_is_the_first_address() -> None:
    assert network.gateway("10.212.0.0/24") == "10.212.0.1/24"


@pytest.mark.parametrize("subnet", ["", "10.212.0.1/24", "10.212.0.0/30", "fd00::/64", "nonsense"])
def test_refuses_subnets(subnet: str) -> None:
    with pytest.raises(LabError, match="lab_subnet"):
        network.gateway(subnet)


@pytest.mark.parametrize("address", ["", "10.212.0.0", "10.212.0.1", "10.212.0.255", "10.213.0.2", "h1"])
def test_refuses_addresses_outside_the_subnet(address: str) -> None:
    with pytest.raises(LabError, match="ansible_host"):
        network.check_address(address, "10.212.0.0/24")
    network.check_address("10.212.0.2", "10.212.0.0/24")


def test_mirror_comes_from_either_format_of_apt_sources() -> None:
    one_line = "# deb http://not.example/debian x main\ndeb [arch=amd64] http://mirror.example/debian/ bookworm main\n"
    stanza = "Types: deb\nURIs: https://mirror.example/pub/debian\nSuites: bookworm\n"
    assert debian.find_mirror([one_line]) == "http://mirror.example/debian"
    assert debian.find_mirror([stanza, one_line]) == "https://mirror.example/pub/debian"


def test_mirrors_of_other_things_are_passed_over() -> None:
    other = "deb http://archive.example/ubuntu jammy main\ndeb http://mirror.example/debian-security bookworm main\n"
    assert debian.find_mirror([other]) == debian.DEFAULT_MIRROR


def test_apt_settings_are_taken_over_by_name() -> None:
    dump = [
        "Acquire::Check-Valid-Until false",
        "Acquire::http::Proxy http://proxy.example:3128/",
        'Acquire::http::Proxy::mirror.example DIR"ECT',
        "DPkg::Post-Invoke rm -rf /",
        "Acquire::Languages none",
    ]
    assert debian.apt_options(dump) == [
        'Acquire::Check-Valid-Until "false"',
        'Acquire::http::Proxy "http://proxy.example:3128/"',
    ]


def _tree(**changed: object) -> debian.TreeRecipe:
    recipe = {
        "release": "bookworm",
        "mirror": "http://m.example/debian",
        "packages": ("python3",),
        "offered": ("tini",),
    }
    return debian.TreeRecipe(**{**recipe, **changed})  # type: ignore[arg-type]


def test_another_recipe_is_another_tree() -> None:
    keys = {_tree().key, _tree(release="trixie").key, _tree(packages=("python3", "kmod")).key, _tree(offered=()).key}
    assert len(keys) == 4
    assert _tree().key == _tree().key


@pytest.mark.parametrize(
    "changed",
    [
        {"release": "book worm"},
        {"release": "--help"},
        {"mirror": "file:///srv"},
        {"mirror": "http://m.example/debian main; reboot"},
        {"packages": ("python3;reboot",)},
        {"offered": ("$(reboot)",)},
        {"offered": ("-o",)},
    ],
)
def test_refuses_recipes_that_could_reach_a_shell(changed: dict[str, object]) -> None:
    with pytest.raises(LabError):
        _tree(**changed)


def _image(**changed: object) -> images.ImageRecipe:
    recipe = {
        "name": "cluster-compute/demo:latest",
        "release": "bookworm",
        "mirror": "http://m.example/debian",
        "variant": "minbase",
        "packages": ("python3",),
        "files": (("/etc/motd", "hello\n", "644"),),
        "shell": ("/bin/sh",),
        "setup": "",
        "config": {"User": "work"},
    }
    return images.ImageRecipe(**{**recipe, **changed})  # type: ignore[arg-type]


def test_image_configuration_names_user_layer_and_recipe() -> None:
    recipe = _image()
    config = images.image_config(recipe, "ab" * 32, "x86_64")
    assert config["config"] == {"User": "work", "Labels": {images.RECIPE_LABEL: recipe.key}}
    assert config["rootfs"] == {"type": "layers", "diff_ids": ["sha256:" + "ab" * 32]}
    assert config["architecture"] == "amd64"


def test_image_of_an_unknown_architecture_is_refused() -> None:
    with pytest.raises(LabError, match="vax"):
        images.image_config(_image(), "ab" * 32, "vax")


@pytest.mark.parametrize(
    "changed",
    [{"name": "demo"}, {"name": "Demo:latest"}, {"files": (("etc/motd", "", "644"),)}, {"files": (("/x", "", "a+x"),)}],
)
def test_refuses_images(changed: dict[str, object]) -> None:
    with pytest.raises(LabError):
        _image(**changed)


def test_a_lock_is_waited_for_only_so_long(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "lock")
    with locked(path), pytest.raises(LabError, match="not free within 0 seconds"), locked(path, seconds=0.05):
        pass
    with locked(path, shared=True), locked(path, shared=True, seconds=0.05):
        pass


def test_a_missing_program_and_a_failing_one_are_named() -> None:
    with pytest.raises(LabError, match="no-such-program is not installed"):
        run(["no-such-program"])
    with pytest.raises(LabError, match="code 1"):
        run(["false"])


def test_a_process_number_used_anew_is_not_the_host(tmp_path: pathlib.Path) -> None:
    host = Lab("lab", str(tmp_path)).host("h1")
    (tmp_path / "hosts" / "h1").mkdir(parents=True)
    assert processes.running(host) is None
    with subprocess.Popen(["sleep", "60"]) as child:
        processes.record_running(host, child.pid)
        assert processes.running(host) == child.pid
        record = pathlib.Path(host.record)
        record.write_text(record.read_text().replace('"start_time": "', '"start_time": "9'))
        assert processes.running(host) is None
        child.kill()
