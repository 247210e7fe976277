# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a command in this checkout under the distribution's own kernel: other_kernel.py COMMAND [ARGUMENT ...]

For what the kernel of this machine cannot do. The command runs as root in a virtual machine that has no network and
sees the files of this machine; what it writes is gone with it. Processors are emulated, so that it works everywhere and
takes some ten times as long.
"""

from __future__ import annotations

import gzip
import os
import shlex
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "other-kernel"
KERNEL = "linux-image-cloud-amd64"
PACKAGES = ("kmod", "libkmod2", "busybox-static", "iputils-ping", "libcap2")
"""What the virtual machine needs beside the kernel, unpacked and not installed."""
VIRTIOFSD = "/usr/lib/qemu/virtiofsd"
"""A part of Debian 12's package of QEMU."""
SECONDS = 1800
MODULES = ("virtio_pci", "virtiofs", "overlay")

INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev
modprobe -a {modules}
mount -t virtiofs -o ro machine /lower
mount -t tmpfs none /upper; mkdir /upper/files /upper/work
mount -t overlay -o lowerdir=/lower,upperdir=/upper/files,workdir=/upper/work overlay /new
for folder in run tmp dev/shm; do mkdir -p /new/$folder; mount -t tmpfs none /new/$folder; done
mount --move /proc /new/proc; mount --move /sys /new/sys; mount --move /dev /new/dev
mkdir -p /new/dev/pts; mount -t devpts none /new/dev/pts
chroot /new /bin/bash -c {command} </new/dev/null 2>&1
echo "{end} $?"
poweroff -f
"""
END = "The command ended with"


def main() -> int:
    """Run the command and return its exit code."""
    if len(sys.argv) < 2:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    unpacked = _unpack()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write_initramfs(folder / "initramfs", unpacked, _guest_command(unpacked, sys.argv[1:]))
        output = _boot(folder, unpacked)
    lines = output.replace("\r", "").splitlines()
    ends = [line for line in lines if line.startswith(END)]
    return int(ends[0].split()[-1]) if ends else 1


def _unpack() -> Path:
    """Fetch and unpack the kernel and what else the virtual machine needs, once; return where."""
    target = CACHE / "files"
    if not target.exists():
        partial = CACHE / "partial"
        subprocess.run(["rm", "-rf", str(partial)], check=True)
        (partial / "packages").mkdir(parents=True)
        dependencies = subprocess.run(
            ["apt-cache", "depends", KERNEL], capture_output=True, text=True, check=True
        ).stdout
        image = next(line.split()[-1] for line in dependencies.splitlines() if "Depends: linux-image-" in line)
        fetch = ["apt-get", "download", "--quiet", image, *PACKAGES]
        subprocess.run(fetch, cwd=partial / "packages", stdout=subprocess.DEVNULL, check=True)
        for package in (partial / "packages").iterdir():
            subprocess.run(["dpkg", "-x", str(package), str(partial)], check=True)
        depmod = ["-b", str(partial), _release(partial)]
        loader = {**os.environ, "LD_LIBRARY_PATH": _libraries(partial)}
        subprocess.run(["depmod", *depmod], executable=partial / "bin" / "kmod", env=loader, check=True)
        partial.rename(target)
    return target


def _release(unpacked: Path) -> str:
    return next(path.name for path in (unpacked / "lib" / "modules").iterdir())


def _libraries(unpacked: Path) -> str:
    return ":".join(str(unpacked / folder / "lib/x86_64-linux-gnu") for folder in ("", "usr"))


def _guest_command(unpacked: Path, words: list[str]) -> str:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}:{unpacked}/bin:{unpacked}/usr/bin"
    settings = {"PATH": path, "HOME": "/root", "LANG": "C.UTF-8", "LD_LIBRARY_PATH": _libraries(unpacked)}
    command = shlex.join([*(f"{name}={value}" for name, value in settings.items()), *words])
    return f"ip link set dev lo up; cd {shlex.quote(str(ROOT))} && exec env {command}"


def _write_initramfs(path: Path, unpacked: Path, command: str) -> None:
    """Write the archive that the kernel begins with (Linux, Documentation/driver-api/early-userspace/buffer-format)."""
    init = INIT.format(modules=" ".join(MODULES), command=shlex.quote(command), end=END)
    files: dict[str, tuple[int, bytes]] = {
        "init": (stat.S_IFREG | 0o755, init.encode()),
        "bin/busybox": (stat.S_IFREG | 0o755, (unpacked / "bin" / "busybox").read_bytes()),
        # The kernel calls it for a module that it lacks, and does so here and not below /new.
        "sbin/modprobe": (stat.S_IFLNK | 0o777, b"/bin/busybox"),
    }
    for source in sorted((unpacked / "lib" / "modules").rglob("*")):
        if source.is_file():
            files[str(source.relative_to(unpacked))] = (stat.S_IFREG | 0o644, source.read_bytes())
    folders = {str(parent) for name in files for parent in Path(name).parents if parent.name}
    folders |= {"proc", "sys", "dev", "lower", "upper", "new"}
    with gzip.open(path, "wb", 1) as archive:
        number = 0

        def add(name: str, mode: int, content: bytes, device: tuple[int, int] = (0, 0)) -> None:
            nonlocal number
            number += 1
            label = name.encode() + b"\0"
            fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(label), 0)
            head = b"070701" + b"".join(b"%08X" % field for field in fields) + label
            archive.write(head + bytes(-len(head) % 4) + content + bytes(-len(content) % 4))

        for name in sorted(folders):
            add(name, stat.S_IFDIR | 0o755, b"")
        for name, (mode, content) in files.items():
            add(name, mode, content)
        add("dev/console", stat.S_IFCHR | 0o600, b"", (5, 1))
        add("TRAILER!!!", 0, b"")


def _boot(folder: Path, unpacked: Path) -> str:
    """Boot the virtual machine, show what it prints and return that."""
    door = folder / "door"
    # What the machine is shown cannot be written to, whatever happens in there.
    shown = folder / "shown"
    shown.mkdir()
    share = (
        f"mount --bind / {shown} && mount -o remount,ro,bind {shown} && "
        f"exec {VIRTIOFSD} --socket-path={door} -o source={shown} -o cache=always -o sandbox=chroot"
    )
    words = ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "2048"]
    words += ["-object", "memory-backend-memfd,id=memory,size=2048M,share=on", "-numa", "node,memdev=memory"]
    words += ["-chardev", f"socket,id=door,path={door}", "-device", "vhost-user-fs-pci,chardev=door,tag=machine"]
    words += ["-nographic", "-no-reboot", "-nic", "none", "-initrd", str(folder / "initramfs")]
    words += ["-kernel", str(unpacked / "boot" / f"vmlinuz-{_release(unpacked)}")]
    words += ["-append", "console=ttyS0 quiet panic=-1 mitigations=off"]
    with subprocess.Popen(["unshare", "--mount", "sh", "-c", share], stderr=subprocess.DEVNULL) as files:
        try:
            deadline = time.monotonic() + 20
            while not door.exists() and time.monotonic() < deadline:
                time.sleep(0.1)
            machine = subprocess.Popen(
                ["timeout", str(SECONDS), *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                text=True,
                errors="replace",
            )
            assert machine.stdout is not None  # noqa: S101 - a pipe was asked for
            output = []
            for line in machine.stdout:
                sys.stdout.write(line)
                sys.stdout.flush()
                output.append(line)
            machine.wait()
        finally:
            files.terminate()
    return "".join(output)


if __name__ == "__main__":
    sys.exit(main())
