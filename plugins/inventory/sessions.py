# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""List the replicas of sessions as hosts.

The state of sessions is stored on their hosts, so the plugin collects it there. It runs the collection's own playbook
in a separate process, because options of the command that reads the inventory (--tags, --check, --become, -e) are meant
for replicas and must not reach the hosts. That process gets the site's hosts with their variables resolved, and needs
no vault password.
"""

from __future__ import annotations

DOCUMENTATION = r"""
name: sessions
short_description: Replicas of sessions as hosts
version_added: 1.0.0
description:
  - Lists the replicas of all sessions of a resource group as hosts named C(SESSION-REPLICA), such as C(train-main1),
    with connections into their containers, so that any playbook can run inside a session.
  - Each replica is in the groups C(cluster_compute_replicas), C(session_NAME), C(role_NAME) and C(host_NAME).
    Characters that are not valid in the name of a group become underscores.
  - Collects the state from the hosts of the group, which takes as long as one task on them, unless the answer is in the
    cache. An unreachable host is reported in a warning. Replicas of its sessions on other hosts are still listed.
  - Variables of a replica are C(cluster_compute_session), C(cluster_compute_session_id), C(cluster_compute_replica),
    C(cluster_compute_role), C(cluster_compute_index), C(cluster_compute_rank), C(cluster_compute_local_rank),
    C(cluster_compute_node_rank), C(cluster_compute_size), C(cluster_compute_mode), C(cluster_compute_host),
    C(cluster_compute_address), C(cluster_compute_container), C(cluster_compute_image), C(cluster_compute_ports) and
    C(cluster_compute_status). Environment variables of replicas are not among them.
  - C(ansible_become) is false for every replica, whatever the site sets. O(compose) can change it.
  - No option of the command line that reads this inventory reaches the hosts, not even extra variables.
author: The cluster_compute.session authors (@cluster-compute)
extends_documentation_fragment:
  - constructed
  - inventory_cache
options:
  plugin:
    description: Marks the file as one for this plugin. The name of the file has to end in C(.sessions.yml).
    type: str
    required: true
    choices: [cluster_compute.session.sessions]
  site:
    description:
      - Inventories of the site that contain the hosts of sessions, in the form that C(-i) accepts.
      - A relative path starts at the directory of this file.
    type: list
    elements: str
    required: true
  resource_group:
    description: Group of the site's inventory whose sessions are listed.
    type: str
    default: cluster_compute_hosts
  sessions:
    description: Names of the only sessions to list. Empty lists all.
    type: list
    elements: str
    default: []
  query:
    description:
      - Expression of JMESPath that selects the names of the only sessions to list, from what
        M(cluster_compute.session.session_info) returns as C(overview). Empty lists all. It needs the Python library
        jmespath.
    type: str
    default: ""
  timeout:
    description: Maximum number of seconds until the hosts have to answer.
    type: int
    default: 300
"""

EXAMPLES = r"""
# my.sessions.yml: every session of the site
# plugin: cluster_compute.session.sessions
# site: [inventories/site]

# One session, cached for a minute, with groups by image and status, and your own variable
plugin: cluster_compute.session.sessions
site: [/etc/ansible/site]
sessions: [train]
cache: true
cache_plugin: ansible.builtin.jsonfile
cache_connection: ~/.cache/sessions
cache_timeout: 60
compose:
  is_main: cluster_compute_rank == 0
groups:
  running: cluster_compute_status == 'RUNNING'
keyed_groups:
  - key: cluster_compute_image | regex_replace('[:/].*')
    prefix: image
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible import constants as C
from ansible.errors import AnsibleError, AnsibleParserError
from ansible.inventory.group import to_safe_group_name
from ansible.inventory.manager import InventoryManager
from ansible.module_utils.common.text.converters import to_native
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable
from ansible.plugins.loader import become_loader, connection_loader, shell_loader
from ansible.template import Templar
from ansible.utils.collection_loader import AnsibleCollectionConfig
from ansible.utils.unsafe_proxy import wrap_var
from ansible.vars.manager import VariableManager
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.cluster.group import SITE_VARIABLES
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.site import HOST_VARIABLES
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import (
    CoreError,
    InvalidInput,
    printable,
)
from ansible_collections.cluster_compute.session.plugins.plugin_utils.queries import select

try:
    from ansible.template import trust_as_template
except ImportError:  # before ansible-core 2.19 text is a template unless it is marked

    def trust_as_template(value: str) -> str:
        """Return *value*."""
        return value


ALL = "cluster_compute_replicas"
CONNECTION = "cluster_compute.session.replica"
PLAYBOOK = Path(__file__).resolve().parents[2] / "playbooks" / "session_info.yml"
FURTHER_VARIABLES = (
    "ansible_connection",
    "ansible_become",
    "ansible_become_method",
    "ansible_python_interpreter",
)
"""Variables that a connection to a host needs, and that no plugin lists."""
OWN_VARIABLES = ("cluster_compute_state_directory", *HOST_VARIABLES, *SITE_VARIABLES)
OF_SESSION = {"session": "name", "session_id": "id", "mode": "mode", "size": "size"}
OF_REPLICA = {
    "replica": "name",
    **{
        name: name
        for name in (
            "role",
            "index",
            "rank",
            "local_rank",
            "node_rank",
            "host",
            "address",
            "container",
            "image",
            "ports",
            "status",
        )
    },
}
"""Variables of a replica, each to go after ``cluster_compute_``, and where the overview has them."""
TEMPLATE_MARKS = ("{{", "{%", "{#", "#jinja2:")


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):  # type: ignore[misc]
    """The inventory plugin."""

    NAME = "cluster_compute.session.sessions"
    _being_read: set[str] = set()  # noqa: RUF012 - of all instances on purpose

    def verify_file(self, path: str) -> bool:
        """Tell whether the file is for this plugin, by its name."""
        return super().verify_file(path) and path.endswith((".sessions.yml", ".sessions.yaml"))

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:
        """Add the replicas to the inventory. Raises AnsibleParserError if their state cannot be collected."""
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        place = os.path.realpath(path)
        if place in self._being_read:  # the site's inventory is the directory of this file
            return
        self._being_read.add(place)
        try:
            site = self._read_site(os.path.dirname(place))
        finally:
            self._being_read.remove(place)
        self._list(self._overview(path, site, cache), site)

    def _read_site(self, folder: str) -> dict[str, dict[str, Any]]:
        """Return the hosts of the resource group, in order, each with its variables resolved."""
        sources = [
            source if "," in source else os.path.join(folder, os.path.expanduser(source))
            for source in self.get_option("site")
        ]
        for source in sources:
            if "," not in source and not os.path.exists(source):
                raise AnsibleParserError(f"site: There is no inventory {source}.")
        site = InventoryManager(loader=self.loader, sources=sources)
        group = self.get_option("resource_group")
        if not site.groups.get(group) or not site.groups[group].get_hosts():
            known = ", ".join(sorted(name for name, group in site.groups.items() if group.get_hosts())) or "none"
            raise AnsibleParserError(
                f"resource_group: The site has no group {group} with hosts. Groups that have hosts: {known}."
            )
        variables = VariableManager(loader=self.loader, inventory=site)
        variables._extra_vars = {}  # they are meant for the replicas
        return {host.name: self._resolve(host.name, variables, host) for host in site.groups[group].get_hosts()}

    def _resolve(self, name: str, variables: VariableManager, host: Any) -> dict[str, Any]:
        """Return those variables of a host that are needed to reach it and to ask it."""
        given = variables.get_vars(host=host, include_hostvars=False)
        templar = Templar(loader=self.loader, variables=given)

        def read(variable: str) -> Any:
            try:
                return _plain(templar.template(given[variable])) if given.get(variable) is not None else None
            except AnsibleError as error:
                raise AnsibleParserError(f"Variable {variable} of host {name}: {to_native(error)}") from error

        kind = read("ansible_connection") or C.DEFAULT_TRANSPORT
        method = read("ansible_become_method") or C.DEFAULT_BECOME_METHOD
        names = {*FURTHER_VARIABLES, *OWN_VARIABLES}
        for what, plugins, plugin in (
            ("connection", connection_loader, kind),
            ("become", become_loader, method),
            ("shell", shell_loader, "sh"),
        ):
            found = plugins.get(plugin, class_only=True)
            if found is None:
                raise AnsibleParserError(f"Host {name} needs the {what} plugin {plugin}, which is not there.")
            names.update(C.config.get_plugin_vars(what, found._load_name))
        values = {variable: read(variable) for variable in sorted(names) if given.get(variable) is not None}
        return {**values, "inventory_hostname": name}

    def _overview(self, path: str, site: Mapping[str, Mapping[str, Any]], cache: bool) -> Mapping[str, Any]:
        """Return what is known of the resource group, from the cache where it may be."""
        self.load_cache_plugin()
        cache_subject = json.dumps([list(site), self.get_option("resource_group")])
        key = f"{self.get_cache_key(path)}_{hashlib.sha256(cache_subject.encode()).hexdigest()[:12]}"
        if self.get_option("cache") and cache:
            try:
                return dict(self._cache[key])
            except KeyError:
                pass
        found = self._ask(site)
        for host in found["hosts"]:
            if not host["usable"]:
                self.display.warning(printable(f"Replicas on {host['name']} may be missing: {host['problem']}"))
        if self.get_option("cache"):
            self._cache[key] = found
        return found

    def _ask(self, site: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
        """Return what the hosts say, by the playbook session_info."""
        group = self.get_option("resource_group")
        with tempfile.TemporaryDirectory(prefix="cluster-compute-") as folder:
            inventory, answer = os.path.join(folder, "hosts.yml"), os.path.join(folder, "answer.json")
            hosts = {
                name: {key: value for key, value in values.items() if key != "inventory_hostname"}
                for name, values in site.items()
            }
            with open(inventory, "x", encoding="utf-8") as file:
                file.write(_as_yaml({"all": {"children": {group: {"hosts": hosts}}}}))
            given = {"session_resource_group": group, "cluster_compute_info_file": answer}
            argv = ["playbook", "-i", inventory, str(PLAYBOOK), "-e", json.dumps(given)]
            try:
                done = subprocess.run(
                    [sys.executable, "-m", "ansible", *argv],
                    env={**os.environ, **_environment()},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    timeout=self.get_option("timeout"),
                    check=False,
                )
            except subprocess.TimeoutExpired as error:
                raise AnsibleParserError(
                    f"The hosts of group {group} did not answer within {self.get_option('timeout')} seconds."
                ) from error
            try:
                with open(answer, encoding="utf-8") as file:
                    return dict(json.load(file))
            except (OSError, ValueError):
                output = done.stdout.decode("utf-8", "replace").partition("PLAY RECAP")[0]
                output = output[max(output.rfind("fatal: ["), 0) :].strip()[-3000:]
                raise AnsibleParserError(
                    f"The hosts of group {group} could not be asked for sessions:\n{output}"
                ) from None

    def _list(self, found: Mapping[str, Any], site: Mapping[str, Mapping[str, Any]]) -> None:
        """Add what the overview holds to the inventory."""
        wanted = self.get_option("sessions")
        chosen = self._chosen(found)
        sessions = [
            session
            for session in found["sessions"]
            if (not wanted or session["name"] in wanted) and (chosen is None or session["name"] in chosen)
        ]
        for name in sorted(set(wanted) - {session["name"] for session in sessions}):
            self.display.warning(printable(f"There is no session {name} in group {self.get_option('resource_group')}."))
        self.inventory.add_group(ALL)
        entries = [(session, replica) for session in sessions for replica in session["replicas"]]
        for name, (session, replica) in zip(_names(entries), entries):
            if replica["host"] not in site:
                self.display.warning(
                    printable(f"Replica {name} is not listed: its host {replica['host']} has left the site.")
                )
            else:
                self._add(name, session, replica, site[replica["host"]])

    def _chosen(self, found: Mapping[str, Any]) -> list[str] | None:
        """Return the names that the query selects; None without a query."""
        query = self.get_option("query")
        if not query:
            return None
        try:
            names = select("query", query, found)
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                wanted = "It has to select names of sessions, such as sessions[?size > `1`].name"
                raise InvalidInput.single("query", query, f"{wanted}; it selects {json.dumps(names)[:80]}.")
        except CoreError as error:
            raise AnsibleParserError(str(error)) from error
        return names

    def _add(self, name: str, session: Mapping[str, Any], replica: Mapping[str, Any], host: Mapping[str, Any]) -> None:
        """Add one replica, with its groups and variables."""
        self.inventory.add_host(name, ALL)
        for group in (f"session_{session['name']}", f"role_{replica['role']}", f"host_{replica['host']}"):
            safe = self.inventory.add_group(to_safe_group_name(group, force=True, silent=True))
            self.inventory.add_child(safe, name)
        own = {
            **{f"cluster_compute_{key}": session[source] for key, source in OF_SESSION.items()},
            **{f"cluster_compute_{key}": replica[source] for key, source in OF_REPLICA.items()},
            "cluster_compute_host_variables": {key: value for key, value in host.items() if key not in OWN_VARIABLES},
            "ansible_connection": CONNECTION,
            "ansible_become": False,
        }
        for key, value in own.items():
            self.inventory.set_variable(name, key, _as_data(value))
        strict = self.get_option("strict")
        variables = self.inventory.get_host(name).get_vars()
        self._set_composite_vars(self.get_option("compose"), variables, name, strict)
        self._add_host_to_composed_groups(self.get_option("groups"), variables, name, strict)
        self._add_host_to_keyed_groups(self.get_option("keyed_groups"), variables, name, strict)


def _names(entries: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> list[str]:
    """Return a name for each replica: session and replica, and a part of the session's id where two would be alike."""
    plain = [f"{session['name']}-{replica['name']}" for session, replica in entries]
    return [
        name if plain.count(name) == 1 else f"{name}-{session['id'][:8]}"
        for name, (session, _replica) in zip(plain, entries)
    ]


def _environment() -> dict[str, str]:
    """Return the environment for the process that contacts the hosts, in place of that of the reading process."""
    return {
        "ANSIBLE_COLLECTIONS_PATH": os.pathsep.join(map(to_native, AnsibleCollectionConfig.collection_paths)),
        "ANSIBLE_INVENTORY_ENABLED": "ansible.builtin.yaml",
        "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default",
        "ANSIBLE_CALLBACKS_ENABLED": "ansible.builtin.default",  # a list of none cannot be said
        "ANSIBLE_STRATEGY": "ansible.builtin.linear",
        "ANSIBLE_NOCOLOR": "1",
    }


def _as_data(value: Any) -> Any:
    """Return external data, in which nothing is templated.

    Text without a template is not marked, because `ansible-inventory --list` shows marks.
    """
    if isinstance(value, Mapping):
        return {key: _as_data(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_data(item) for item in value]
    if isinstance(value, str):
        return wrap_var(value) if any(mark in value for mark in TEMPLATE_MARKS) else trust_as_template(value)
    return value


def _plain(value: Any) -> Any:
    """Return a value without what Ansible adds to the types of Python."""
    if isinstance(value, Mapping):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, bool) or value is None:
        return value
    for kind in (int, float):
        if isinstance(value, kind):
            return kind(value)
    return str(value)


def _as_yaml(value: Any) -> str:
    """Return JSON in which each text is marked so that it is not templated again."""
    if isinstance(value, Mapping):
        items: Iterable[str] = (f"{json.dumps(key)}: {_as_yaml(item)}" for key, item in value.items())
        return f"{{{', '.join(items)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_as_yaml, value))}]"
    return f"!unsafe {json.dumps(value, ensure_ascii=False)}" if isinstance(value, str) else json.dumps(value)
