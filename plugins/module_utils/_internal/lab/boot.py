# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Boot a lab host: a process in its own namespaces, which mounts the host's disk and becomes its init."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import signal
import stat
import traceback
from collections.abc import Mapping

from ..core.values.deferred import dataclass
from . import cgroups
from .system import LabError

# From linux/sched.h and linux/mount.h. Python has them only from 3.12 on, and does not have mount(2).
_NEWNS, _NEWUTS, _NEWIPC, _NEWPID, _NEWNET = 0x00020000, 0x04000000, 0x08000000, 0x20000000, 0x40000000
_RDONLY, _NOSUID, _NODEV, _NOEXEC, _REMOUNT = 1, 2, 4, 8, 32
_BIND, _REC, _PRIVATE = 4096, 16384, 1 << 18
_DETACH = 2

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "fuse", "net/tun")


@dataclass(frozen=True)
class BootPlan:
    """The settings for the first process of a host.

    `binds` maps a path on the host to a directory of this machine and whether it is read-only; `files` maps a path on
    the host to its content and mode, written before init starts.
    """

    hostname: str
    namespace: str
    cgroup: str
    tree: str
    directory: str
    binds: tuple[tuple[str, str, bool], ...]
    files: Mapping[str, tuple[str, int]]

    @property
    def root(self) -> str:
        """Where the host's disk is mounted, in the host's mount namespace only."""
        return f"{self.directory}/root"


def boot(plan: BootPlan) -> int:
    """Start the host's init and return its process id here. Raises LabError if it could not be started.

    The process is detached from the caller: another session, no open files, its own control groups.
    """
    for folder in ("root", "upper", "work"):
        os.makedirs(f"{plan.directory}/{folder}", mode=0o755, exist_ok=True)
    receive, send = os.pipe()
    launcher = os.fork()
    if launcher == 0:
        _launch(plan, send)
    os.close(send)
    with os.fdopen(receive, encoding="utf-8", errors="replace") as stream:
        report = stream.read()
    os.waitpid(launcher, 0)
    pid, _separator, problem = report.partition("\n")
    if problem or not pid.isdigit():
        raise LabError(f"The lab host {plan.hostname} could not be booted: {problem or report or 'no word from it'}")
    return int(pid)


def _launch(plan: BootPlan, send: int) -> None:
    try:
        os.setsid()
        cgroups.enter(plan.cgroup)
        with open(f"/run/netns/{plan.namespace}", "rb") as namespace:
            _call("setns", namespace.fileno(), _NEWNET)
        _call("unshare", _NEWNS | _NEWUTS | _NEWIPC | _NEWPID)
        first = os.fork()
        if first == 0:
            _become_init(plan, send)
        os.write(send, f"{first}\n".encode())
    except BaseException:
        os.write(send, f"\n{traceback.format_exc()}".encode())
    finally:
        os._exit(0)


def _become_init(plan: BootPlan, send: int) -> None:
    try:
        os.umask(0o022)
        _mount_all(plan)
        _write_files(plan)
        console = os.open(f"{plan.root}/dev/console", os.O_RDWR)
        os.chdir(plan.root)
        _pivot()
        libc = _libc()
        name = plan.hostname.encode()
        if libc.sethostname(name, len(name)) != 0:
            raise OSError(ctypes.get_errno(), "sethostname")
        for number in range(3):
            os.dup2(console, number)
        for number in map(int, os.listdir("/proc/self/fd")):
            if number > 2:
                _close_on_exec(number)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        for caught in (signal.SIGPIPE, signal.SIGINT, signal.SIGXFSZ):
            signal.signal(caught, signal.SIG_DFL)
        environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "TERM": "linux"}
        os.execve("/sbin/init", ["init"], environment)  # noqa: S606 - this is the purpose
    except BaseException:
        os.write(send, f"\n{traceback.format_exc()}".encode())
    finally:
        os._exit(1)


def _mount_all(plan: BootPlan) -> None:
    root = plan.root
    _mount("none", "/", "", _REC | _PRIVATE)
    layers = f"lowerdir={plan.tree},upperdir={plan.directory}/upper,workdir={plan.directory}/work"
    _mount("lab", root, "overlay", 0, layers)
    _mount("proc", f"{root}/proc", "proc", _NOSUID | _NODEV | _NOEXEC)
    _mount("sysfs", f"{root}/sys", "sysfs", _NOSUID | _NODEV | _NOEXEC)
    _mount("/sys/fs/cgroup", f"{root}/sys/fs/cgroup", "", _BIND | _REC)
    _mount_devices(plan)
    _mount("tmpfs", f"{root}/run", "tmpfs", _NOSUID | _NODEV, "mode=755")
    os.mkdir(f"{root}/run/lock", 0o1777)
    os.chmod(f"{root}/run/lock", 0o1777)  # noqa: S103 - as on every Debian
    with open(f"{root}/run/utmp", "wb"):
        pass
    for target, source, read_only in plan.binds:
        os.makedirs(f"{root}{target}", exist_ok=True)
        _mount(source, f"{root}{target}", "", _BIND)
        if read_only:
            _mount(source, f"{root}{target}", "", _BIND | _REMOUNT | _RDONLY)


def _mount_devices(plan: BootPlan) -> None:
    dev = f"{plan.root}/dev"
    _mount("tmpfs", dev, "tmpfs", _NOSUID, "mode=755")
    for name in _DEVICES:
        try:
            status = os.stat(f"/dev/{name}")
        except FileNotFoundError:
            continue
        os.makedirs(os.path.dirname(f"{dev}/{name}"), exist_ok=True)
        os.mknod(f"{dev}/{name}", stat.S_IFCHR | 0o666, status.st_rdev)
        os.chmod(f"{dev}/{name}", 0o666)  # noqa: S103 - as on every Debian
    for name in ("pts", "shm", "mqueue"):
        os.mkdir(f"{dev}/{name}")
    _mount("devpts", f"{dev}/pts", "devpts", _NOSUID | _NOEXEC, "newinstance,gid=5,mode=620,ptmxmode=666")
    _mount("tmpfs", f"{dev}/shm", "tmpfs", _NOSUID | _NODEV, "mode=1777")
    _mount("mqueue", f"{dev}/mqueue", "mqueue", _NOSUID | _NODEV | _NOEXEC)
    os.symlink("pts/ptmx", f"{dev}/ptmx")
    os.symlink("/proc/self/fd", f"{dev}/fd")
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        os.symlink(f"/proc/self/fd/{number}", f"{dev}/{name}")
    log = f"{plan.directory}/console.log"
    for path in (log, f"{dev}/console"):
        with open(path, "wb"):
            pass
    _mount(log, f"{dev}/console", "", _BIND)


def _write_files(plan: BootPlan) -> None:
    for path, (content, mode) in plan.files.items():
        folder = os.path.dirname(f"{plan.root}{path}")
        if not os.path.isdir(folder):
            os.makedirs(folder)
            os.chmod(folder, 0o700 if mode == 0o600 else 0o755)
        with open(f"{plan.root}{path}", "w", encoding="utf-8") as stream:
            os.fchmod(stream.fileno(), mode)
            stream.write(content)


def _pivot() -> None:
    """Make the current directory the root and drop the old one (see pivot_root(2), the form with two dots)."""
    libc = _libc()
    number = _PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, f"pivot_root on {os.uname().machine}")
    if libc.syscall(number, b".", b".") != 0:
        raise OSError(ctypes.get_errno(), "pivot_root")
    if libc.umount2(b".", _DETACH) != 0:
        raise OSError(ctypes.get_errno(), "umount of the old root")
    os.chdir("/")


_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41}
"""Numbers of pivot_root(2), which no C library wraps."""


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(function: str, *arguments: int) -> None:
    if getattr(_libc(), function)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    done = _libc().mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode() or None)
    if done != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"mount of {source} on {target}: {os.strerror(number)}")


def _close_on_exec(descriptor: int) -> None:
    try:
        os.set_inheritable(descriptor, False)
    except OSError as error:
        if error.errno != errno.EBADF:
            raise


def clear_disk(directory: str) -> None:
    """Remove a host's directory with its disk."""
    shutil.rmtree(directory, ignore_errors=True)
    if os.path.isdir(directory):
        # A process that was just killed may still have been writing.
        shutil.rmtree(directory)
