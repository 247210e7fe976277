# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Read and change the host's firewall: the rules of sessions in it, and nothing else.

The programs are those with these names on the host, and so those that its engine uses. Each change is one transaction
(iptables-restore(8), nft(8)); rules of others are neither moved nor rewritten.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shlex
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import Any

from ..core.preflight.opening import FIREWALLD, UFW
from ..core.rules import isolation
from ..core.rules.isolation import USER_CHAIN, Rules
from ..core.values.errors import SessionError
from .command import run_command

IPTABLES = "iptables"
IP6TABLES = "ip6tables"
NFT = "nft"

LOCK_SECONDS = "20"
"""How long iptables waits for other programs that change the rules."""

LOCK = "/run/cluster-compute-firewall.lock"
"""Held from reading the rules to writing them: the chain for users may be missing, and has to be made only once."""

ENGINE_SECONDS = 0.2
"""How long an engine may take from removing its jump to the chain for users to putting it back at the top."""

UFW_SETTINGS = Path("/etc/ufw/ufw.conf")

# A shell without login may not have the folders of root's programs.
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_ENVIRONMENT = {**os.environ, "PATH": _PATH, "LC_ALL": "C"}

PROBE = (
    "*filter\n"
    "-A FORWARD -m conntrack --ctstate DNAT --ctorigdst 192.0.2.1 --ctorigdstport 80 "
    "-m comment --comment try -j RETURN\n"
    "-A FORWARD -m connlimit --connlimit-above 8192 --connlimit-mask 0 -j DROP\n"
    "-A FORWARD -m limit --limit 64/sec --limit-burst 8192 -j RETURN\n"
    '-A INPUT -p udp -m udp --dport 4789 -m u32 --u32 "0>>22&0x3C@12>>8=1" -j DROP\n'
    "COMMIT\n"
)
"""Rules with the matches that keep others out of sessions; the role prepare_hosts tests the same."""

_RULE = re.compile(r"-A (\S+) (.*)")
_COMMENT = re.compile(r'--comment ("(?:[^"\\]|\\.)*"|\S+)')
_EVERYTHING = re.compile(r"(?:-m comment --comment (?:\"[^\"]*\"|\S+) )?-j (?:ACCEPT|RETURN|DROP|REJECT)\b.*")
"""A rule without a condition: rules after it are never reached."""

Found = dict[str, list[str]]
"""The digests of a session's rules by chain, in their order; "?" for a foreign rule in a chain of the session."""


class FirewallError(SessionError):
    """The firewall rejected a change; the message contains the command and its output."""


def _run(command: list[str], stdin: str | None = None) -> str:
    return run_command(command, stdin, error=FirewallError, environment=_ENVIRONMENT)


def manager() -> str:
    """Return the program that manages this host's firewall and drops what it does not know, empty if there is none."""
    with suppress(OSError):
        settings = UFW_SETTINGS.read_text(encoding="utf-8", errors="replace")
        if re.search(r"^\s*ENABLED\s*=\s*[\"']?yes\b", settings, re.MULTILINE | re.IGNORECASE):
            return UFW
    if shutil.which("firewall-cmd", path=_PATH):
        with suppress(FirewallError):
            _run(["firewall-cmd", "--state"])
            return FIREWALLD
    return ""


def open_rules(manager: str) -> tuple[set[str], set[str]]:
    """Return the rules of a manager, in the form of `opening.rules`: those in force now and later, and all others too.

    There are none if the manager is gone.
    """
    if manager == UFW:
        lines = _run(["ufw", "show", "added"]).splitlines() if _has("ufw") else []
        found = [{line.removeprefix("ufw ").partition(" comment ")[0].strip() for line in lines}]
    else:
        found = [set(_run([*command, "--list-rich-rules"]).splitlines()) for command in _firewalld()] or [set()]
    return set.intersection(*found), set.union(*found)


def change_rule(manager: str, rule: str, opens: bool) -> None:
    """Add a rule of a manager, or remove it, now and for later boots. Raises FirewallError.

    firewalld is not made to reload its rules, because that removes those of Docker Engine for a moment.
    """
    if manager == UFW:
        _run(["ufw", *([] if opens else ["delete"]), *rule.split()])
        return
    for command in _firewalld():
        _run([*command, f"--{'add' if opens else 'remove'}-rich-rule={rule}"])


def _firewalld() -> list[list[str]]:
    """Return the commands for rules of firewalld: of later boots, and unless it is stopped those in force."""
    if manager() == FIREWALLD:
        return [["firewall-cmd", "--permanent"], ["firewall-cmd"]]
    return [["firewall-offline-cmd"]] if _has("firewall-offline-cmd") else []


def try_matches(nftables: bool) -> None:
    """Write rules with the matches that sessions need, in a namespace of their own. Raises FirewallError.

    nftables: whether the engine writes its rules so.
    """
    if nftables:
        _run(["unshare", "--net", NFT, "list", "tables"])
    else:
        _run(["unshare", "--net", "iptables-restore", "--noflush"], PROBE)


def drops_forwarded() -> bool:
    """Return whether iptables drops forwarded IPv4 packets that none of its rules accepts.

    An engine sets that when its rules are those of iptables, and leaves it behind (Docker docs, Docker with nftables).
    """
    with suppress(FirewallError):
        return _has(IPTABLES) and "-P FORWARD DROP" in _run([IPTABLES, "--wait", LOCK_SECONDS, "-S"]).splitlines()
    return False


def _has(name: str) -> bool:
    return any(os.access(os.path.join(folder, name), os.X_OK) for folder in _PATH.split(":"))


def kinds() -> list[str]:
    """Return which of iptables and ip6tables exist on this host."""
    every = [IPTABLES, IP6TABLES] if os.path.exists("/proc/net/if_inet6") else [IPTABLES]
    return [name for name in every if _has(f"{name}-save")]


# ---- iptables -------------------------------------------------------------------------------------------------------


class Iptables:
    """The table ``filter`` of iptables or ip6tables, as it is at one moment."""

    def __init__(self, name: str) -> None:
        """Read it. *name*: IPTABLES or IP6TABLES."""
        self.name = name
        self.chains = self._read()
        if USER_CHAIN in self.chains and f"-j {USER_CHAIN}" not in self.chains.get("FORWARD", ()):
            # Engines move their jump with each network that they make, in two steps (moby, arrangeUserFilterRule):
            # if one is added in between, it stays there twice.
            time.sleep(ENGINE_SECONDS)
            self.chains = self._read()

    def _read(self) -> dict[str, list[str]]:
        chains: dict[str, list[str]] = {}
        for line in _run([f"{self.name}-save", "-t", "filter"]).splitlines():
            if line.startswith(":"):
                chains.setdefault(line[1:].split(" ")[0], [])
            elif match := _RULE.match(line):
                chains.setdefault(match.group(1), []).append(match.group(2))
        return chains

    def owners(self) -> dict[str, str]:
        """Return the owners of rules, `isolation.STANDING` or a session: id to name."""
        found = {}
        for rules in self.chains.values():
            for rule in rules:
                owner = _owner(rule)
                if owner is not None:
                    found[owner[0]] = owner[1]
        return found

    def found(self, session_id: str) -> Found:
        """Return the rules of a session. A rule behind one that matches everything counts as missing."""
        result: Found = {}
        own = isolation.chain_name(session_id)
        for chain, rules in self.chains.items():
            if _is_own(chain, own):
                result[chain] = [_digest(rule, session_id) or "?" for rule in rules]
                continue
            reached = takewhile(lambda rule: not _EVERYTHING.fullmatch(rule), rules)
            if chain_digests := [digest for rule in reached if (digest := _digest(rule, session_id))]:
                result[chain] = chain_digests
        if USER_CHAIN in result and not self._asks_users():
            result[USER_CHAIN].append("?")  # no packet gets there
        return result

    def _asks_users(self) -> bool:
        for rule in self.chains.get("FORWARD", []):
            if rule == f"-j {USER_CHAIN}":
                return True
            if _EVERYTHING.fullmatch(rule):
                return False
        return False

    def put(self, session_id: str, session_name: str, rules: Rules) -> None:
        """Replace everything that the session has by *rules*."""
        if not rules:
            self.remove(session_id)
            return
        lines = self._removals(session_id)
        if USER_CHAIN in rules:
            lines += [] if USER_CHAIN in self.chains else [f"-N {USER_CHAIN}"]
            lines += [] if self._asks_users() else [f"-I FORWARD 1 -j {USER_CHAIN}"]
        self._restore([*lines, *_additions(session_id, session_name, rules)])

    def remove(self, session_id: str) -> None:
        """Remove everything that the session has; a chain that no engine requires goes with the last rule in it."""
        lines = self._removals(session_id)
        others = [rule for rule in self.chains.get(USER_CHAIN, []) if not _digest(rule, session_id)]
        if lines and USER_CHAIN in self.chains and not others and "DOCKER" not in self.chains:
            lines += [f"-D FORWARD -j {USER_CHAIN}" for rule in self.chains["FORWARD"] if rule == f"-j {USER_CHAIN}"]
            lines.append(f"-X {USER_CHAIN}")
        self._restore(lines)

    def _removals(self, session_id: str) -> list[str]:
        own = isolation.chain_name(session_id)
        chains = [chain for chain in self.chains if _is_own(chain, own)]
        lines = [
            f"-D {chain} {rule}"
            for chain, rules in self.chains.items()
            for rule in rules
            if chain not in chains and _digest(rule, session_id)
        ]
        return [*lines, *(f"-F {chain}" for chain in chains), *(f"-X {chain}" for chain in chains)]

    def _restore(self, lines: list[str]) -> None:
        if lines:
            text = "\n".join(["*filter", *lines, "COMMIT"]) + "\n"
            _run([f"{self.name}-restore", "--noflush", "--wait", LOCK_SECONDS], text)


def _additions(session_id: str, session_name: str, rules: Rules) -> list[str]:
    """Return the lines that make the session's own chains and add its rules."""
    own = isolation.chain_name(session_id)
    chains = [chain for chain in rules if _is_own(chain, own)]
    lines = [f"-N {chain}" for chain in chains]
    for chain, chain_rules in rules.items():
        where = f"-A {chain}" if chain in chains else f"-I {chain} 1"
        # Each is inserted before all others, so the last one goes first.
        for rule in chain_rules if chain in chains else reversed(chain_rules):
            comment = isolation.iptables_comment(session_id, session_name, rule)
            match, _jump, target = rule.rpartition("-j ")
            lines.append(f'{where} {match}-m comment --comment "{comment}" -j {target}')
    return lines


def _is_own(chain: str, own: str) -> bool:
    return chain == own or chain.startswith(f"{own}-")


def _owner(rule: str) -> tuple[str, str, str] | None:
    match = _COMMENT.search(rule)
    if match is None:
        return None
    try:
        words = shlex.split(match.group(1))
    except ValueError:
        return None  # a comment of several lines; none of ours is
    return isolation.read_comment(words[0]) if words else None


def _digest(rule: str, session_id: str) -> str:
    owner = _owner(rule)
    return owner[2] if owner is not None and owner[0] == session_id else ""


# ---- nftables -------------------------------------------------------------------------------------------------------


def nft_owners() -> dict[str, tuple[str, str]]:
    """Return the owners of tables, `isolation.STANDING` or a session: id to its name and that of the table.

    Empty without the program.
    """
    if not _has(NFT):
        return {}
    found = {}
    for entry in _nft_json(["list", "tables", "inet"]):
        name = entry.get("table", {}).get("name", "")
        owner = isolation.read_table_name(name)
        if owner is not None:
            found[owner[0]] = (owner[1], name)
    return found


def nft_found(table: str) -> Found:
    """Return the digests of the rules of a table that exists, by chain; "?" for one that is not ours."""
    result: Found = {}
    for entry in _nft_json(["list", "table", "inet", table]):
        if "chain" in entry:
            chain = entry["chain"]
            known = chain.get("hook") == chain["name"] and chain.get("policy") == "accept"
            result.setdefault(chain["name"], [] if known else ["?"])
        elif "rule" in entry:
            result.setdefault(entry["rule"]["chain"], []).append(entry["rule"].get("comment", "?"))
    return result


def nft_put(table: str, rules: Rules) -> None:
    """Replace the table of the same name by one with *rules*."""
    _run([NFT, "-f", "-"], isolation.nft_table(table, rules))


def nft_remove(table: str) -> None:
    """Remove a table."""
    _run([NFT, "delete", "table", "inet", table])


def _nft_json(argv: list[str]) -> list[Any]:
    return list(json.loads(_run([NFT, "-j", *argv]))["nftables"])


# ---- both -----------------------------------------------------------------------------------------------------------


def tables() -> dict[str, Iptables]:
    """Return the tables of iptables and ip6tables as they are, by name."""
    return {name: Iptables(name) for name in kinds()}


def owners(known: Mapping[str, Iptables] | None = None) -> dict[str, str]:
    """Return the owners of rules on this host, in whatever form, `isolation.STANDING` or a session: id to name.

    known: the result of `tables`.
    """
    found = {key: name for key, (name, _table) in nft_owners().items()}
    for table in (tables() if known is None else known).values():
        found.update(table.owners())
    return found


def sessions(known: Mapping[str, Iptables] | None = None) -> dict[str, str]:
    """Return all sessions that have rules on this host: id to name. known: the result of `tables`."""
    found = owners(known)
    for nobody, _name in (isolation.STANDING, isolation.PROBE):
        found.pop(nobody, None)
    return found


def put(name: str, session_id: str, session_name: str, rules: Rules) -> None:
    """Replace everything that the session has there by *rules* of iptables or ip6tables."""
    with _alone():
        Iptables(name).put(session_id, session_name, rules)


def remove(session_id: str) -> None:
    """Remove all rules of a session, in whatever form they are."""
    with _alone():
        for name in kinds():
            Iptables(name).remove(session_id)
        known = nft_owners()
        if session_id in known:
            nft_remove(known[session_id][1])


@contextmanager
def _alone() -> Iterator[None]:
    with open(LOCK, "a", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def digests(rules: Mapping[str, list[str]]) -> Found:
    """Return what `Iptables.found` and `nft_found` return if exactly *rules* exist."""
    return {chain: [isolation.digest(rule) for rule in chain_rules] for chain, chain_rules in rules.items()}
