# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Extra variables that nothing reads, and that were probably meant to be a variable of the collection.

Names that begin like a playbook's own variables are checked where those are read. Any other name may be a site's own:
so only variables given with ``-e`` are checked, and only names that nearly match an existing one are reported.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import SequenceMatcher, get_close_matches

from ..model.fields import KNOWN_VARIABLES, PREFIX
from ..values.errors import HIDDEN, Problem

SITE_PREFIX = "cluster_compute_"
SITE = (
    *("accelerators", "admins", "cpus", "deadline_seconds", "encrypted_ports", "events", "fair_share", "image_ports"),
    *("labels", "lease_seconds", "limits", "login_address", "max_replicas", "memory", "mount_roots", "output_days"),
    *("output_sessions", "output_size", "registries", "reserved_cpus", "reserved_memory", "root_users", "shared_with"),
    *("ssh_ports", "state_directory", "subnet_pool", "topology_keys", "underlay_address", "vni_pool", "volume_drivers"),
    *("vxlan_port", "workdir_size"),
)
"""Variables that a site sets, each without `SITE_PREFIX`."""
HANDED_ON = ("event", "info_file", "info_query", "job", "own_job", "own_request", "progress", "session")
"""Variables that playbooks pass to each other, also as artifacts of a workflow."""
OFTEN_OWN = ("command", "env", "hosts", "mode", "name", "owner", "policy", "priority", "roles")
"""Variables that sites may have for purposes of their own."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
ALIKE = 0.8
"""Share of equal characters from which a word is taken for a misspelling of another."""
ALIKE_IF_SHORT = 0.6


def near_misses(extra: Iterable[str], given: Collection[str], launches: bool) -> list[Problem]:
    """Return a problem for each extra variable that was meant to be another one.

    extra: names of the variables given with ``-e``. given: names of the request's variables that have a value.
    launches: whether the request is read as a whole. A value from elsewhere may come from a variable of the site's own.
    """
    problems = []
    for name in sorted(map(str, extra)):
        meant = _meant(name, given, launches)
        if meant:
            # Its value is not shown: it may be meant for session_env, which holds secrets.
            problems.append(Problem(name, HIDDEN, f"There is no such variable. Did you mean {meant}?"))
    return problems


def cut_values(options: Iterable[Sequence[str]]) -> list[Problem]:
    """Return a problem for each value that ends at a blank, because its quotes were for the shell alone.

    options: those given with ``-e`` in the form NAME=VALUE, each as the words that Ansible reads. Ansible ignores what
    is not of this form, and takes an option of a command, such as --epochs=3, for a variable.
    """
    problems: dict[str, Problem] = {}
    for words in options:
        name = ""
        for word in words:
            head, equals, _value = word.partition("=")
            if equals and _NAME.fullmatch(head):
                name = head
            elif not word.strip():
                continue
            elif name:
                message = f'It ends at the first blank. Quote it twice: -e "{name}=\'…\'", or -e \'{{"{name}": "…"}}\'.'
                problems[name] = Problem(name, HIDDEN, message)
            else:
                problems[name] = Problem("-e", HIDDEN, "It must be of the form NAME=VALUE, @FILE or JSON.")
    return list(problems.values())


def slips_of_prefix(extra: Iterable[str], prefix: str, keys: Collection[str]) -> list[Problem]:
    """Return a problem for each extra variable that is a misspelling of one of a verb's own, such as jobs_timeout.

    prefix: of the verb's variables, with which *keys* begin; names that have it are checked where they are read.
    """
    problems = []
    for name in sorted(map(str, extra)):
        head, _line, tail = name.lower().replace("-", "_").partition("_")
        is_slip = not name.startswith(prefix) and _is_like(head, prefix.rstrip("_"), ALIKE_IF_SHORT)
        if is_slip and (near := get_close_matches(tail, keys, 1, ALIKE)):
            problems.append(Problem(name, HIDDEN, f"There is no such variable. Did you mean {prefix}{near[0]}?"))
    return problems


def slips_of_roles(extra: Iterable[str], roles: Mapping[str, Collection[str]]) -> list[Problem]:
    """Return a problem for each misspelling of a role's variable, such as drain_reson or drian_reason.

    roles: by the prefix of a role's variables, the names after it.
    """
    problems = []
    for name in sorted({*map(str, extra)} - {f"{role}_{key}" for role, keys in roles.items() for key in keys}):
        words = name.lower().replace("-", "_").split("_")
        for role, keys in roles.items():
            count = role.count("_") + 1
            head, tail = "_".join(words[:count]), "_".join(words[count:])
            # People seldom mistype the first letter: drain_hosts is not a misspelling of train_hosts.
            is_like = head == role or (head[:1] == role[:1] and _is_like(head, role) and tail in keys)
            if is_like and (near := get_close_matches(tail, keys, 1, ALIKE)):
                problems.append(Problem(name, HIDDEN, f"There is no such variable. Did you mean {role}_{near[0]}?"))
                break
    return problems


def _meant(name: str, given: Collection[str], launches: bool) -> str:
    """Return the variable that a name was meant to be; empty if the name may be meant as it is."""
    if _is_known(name):
        return ""
    plain = name.lower().replace("-", "_").replace(".", "_")
    joined = {known.replace("_", ""): known for known in (*KNOWN_VARIABLES, *(SITE_PREFIX + key for key in SITE))}
    if plain.replace("_", "") in joined:
        return joined[plain.replace("_", "")]
    head, _line, tail = plain.partition("_")
    of_request = [known[len(PREFIX) :] for known in KNOWN_VARIABLES]
    if _is_like(head, PREFIX.rstrip("_")):
        return next((PREFIX + near for near in get_close_matches(tail, of_request, 1, ALIKE)), "")
    tail = plain[len(SITE_PREFIX) :] if plain.startswith(SITE_PREFIX) else tail
    if plain.startswith(SITE_PREFIX) and (near := get_close_matches(tail, SITE, 1, ALIKE)):
        return SITE_PREFIX + near[0]
    is_own = tail in OFTEN_OWN or PREFIX + tail in given
    if launches and head == SITE_PREFIX.partition("_")[0] and tail in of_request and not is_own:
        return PREFIX + tail
    return ""


def _is_known(name: str) -> bool:
    """Tell whether something reads a variable of this name, or else rejects it."""
    return name.startswith(PREFIX) or name in {SITE_PREFIX + key for key in (*SITE, *HANDED_ON)}


def _is_like(word: str, other: str, share: float = ALIKE) -> bool:
    return SequenceMatcher(None, word, other).ratio() >= share
