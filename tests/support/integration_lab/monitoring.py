# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Debian's Prometheus, and its node_exporter on hosts of the lab, as a site has them.

The machine's own programs, or those of the distribution's packages, unpacked and not installed: an installation would
start servers that the machine was not asked for.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import (
    ADDRESSES,
    CHECKOUT,
    HOSTS,
    on,
    recorded,
    script,
    ssh_options,
)
from ansible_collections.cluster_compute.session.tests.support.integration_lab.driver import INVENTORY as LAB_INVENTORY

PACKAGES = ("prometheus", "prometheus-node-exporter")
PLACE = CHECKOUT / ".cache" / "monitoring"
DIRECTORY = "/var/lib/prometheus/node-exporter"
ON_HOST = "/var/tmp/node_exporter"
PORT = 9100


def program(name: str) -> str:
    """Return the path of one of the programs."""
    found = shutil.which(name)
    if found:
        return found
    PLACE.mkdir(parents=True, exist_ok=True)
    with (PLACE / ".lock").open("w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (PLACE / "usr/bin" / name).exists():
            download = ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", *PACKAGES]
            if subprocess.run(download, cwd=PLACE, check=False).returncode:  # the lists may be old
                subprocess.run(["apt-get", "-qq", "update"], check=False)
                subprocess.run(download, cwd=PLACE, check=True)
            for package in PLACE.glob("*.deb"):
                subprocess.run(["dpkg-deb", "--extract", str(package), str(PLACE)], check=True)
                package.unlink()
    return str(PLACE / "usr/bin" / name)


def tell_metrics(folder: str) -> None:
    """Have the hosts write their figures, or with an empty *folder* not any more, as prepare_hosts does."""
    argv = ["ansible", "-i", str(LAB_INVENTORY), "lab", "-m", "cluster_compute.session.host_boot"]
    recorded([*argv, "-a", f"metrics_directory='{folder}'"]).ok()


@contextmanager
def exporters(hosts: Iterable[str] = HOSTS) -> Iterator[None]:
    """Run node_exporter on hosts of the lab."""
    content = Path(program("prometheus-node-exporter")).read_bytes()
    pids = {}
    try:
        for host in hosts:
            take = ["ssh", *ssh_options(), f"root@{ADDRESSES[host]}", f"cat > {ON_HOST} && chmod 755 {ON_HOST}"]
            subprocess.run(take, input=content, check=True)
            options = f"--collector.disable-defaults --collector.textfile --collector.textfile.directory={DIRECTORY}"
            listens = f"--web.listen-address={ADDRESSES[host]}:{PORT}"
            start = f"setsid {ON_HOST} {options} {listens} >/dev/null 2>&1 </dev/null & echo $!"
            pids[host] = script(host, start).strip()
        yield
    finally:
        for host, pid in pids.items():
            on(host, "kill", pid)
            on(host, "rm", ON_HOST)


class Prometheus:
    """A Prometheus that asks the hosts each second."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/api/v1"

    def query(self, expression: str) -> dict[str, float]:
        """Return the samples that an expression gives now: labels without the hosts' own to value."""
        address = f"{self.url}/query?{urllib.parse.urlencode({'query': expression})}"
        with urllib.request.urlopen(address) as answer:  # noqa: S310 - it is the loopback
            found = json.load(answer)
        assert found["status"] == "success", found
        result = found["data"]["result"]
        return {_named(sample["metric"]): float(sample["value"][1]) for sample in result}

    def until(self, expression: str, good: Callable[[dict[str, float]], Any], seconds: float = 20) -> dict[str, float]:
        """Return what an expression gives as soon as it is *good*; it has to be soon."""
        deadline = time.monotonic() + seconds
        while True:
            found = self.query(expression)
            if good(found):
                return found
            assert time.monotonic() < deadline, f"{expression} gives {found}"
            time.sleep(0.3)


def _named(metric: dict[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(metric.items()) if key not in ("job", "__name__"))


@contextmanager
def prometheus(hosts: Iterable[str] = HOSTS) -> Iterator[Prometheus]:
    """Run Prometheus here, with the collection's alert rules; it listens on the loopback alone."""
    targets = [{"targets": [f"{ADDRESSES[host]}:{PORT}"], "labels": {"instance": host}} for host in hosts]
    settings = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(CHECKOUT / "extensions/monitoring/alerts.yml")],
        "scrape_configs": [{"job_name": "hosts", "static_configs": targets}],
    }
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="cluster-compute-it-") as folder:
        path = Path(folder) / "prometheus.yml"
        path.write_text(yaml.safe_dump(settings), encoding="utf-8")
        options = [f"--config.file={path}", f"--storage.tsdb.path={folder}/data", "--log.level=warn"]
        server = subprocess.Popen([program("prometheus"), *options, f"--web.listen-address=127.0.0.1:{port}"])
        try:
            yield _ready(Prometheus(port), server)
        finally:
            server.terminate()
            server.wait(30)


def _ready(found: Prometheus, server: subprocess.Popen[bytes]) -> Prometheus:
    deadline = time.monotonic() + 60
    while True:
        assert server.poll() is None, "Prometheus has ended"
        try:
            found.query("vector(1)")
        except OSError:
            assert time.monotonic() < deadline, "Prometheus does not answer"
            time.sleep(0.2)
        else:
            return found
