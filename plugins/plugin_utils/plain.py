# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Read Ansible variables as plain data, with encrypted text decrypted and without Ansible's own types.

Before ansible-core 2.19, text that is encrypted in the inventory (``!vault``) is an object and not a string, also in
lists and mappings, and templating does not change it. Later releases decrypt it when they template.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

ENCRYPTED = ("AnsibleVaultEncryptedUnicode", "EncryptedString")
"""Names of the types of encrypted text, of ansible-core before 2.19 and since."""


def plain(value: Any) -> Any:
    """Return a value without Ansible's additions to the types of Python, and with everything in it decrypted.

    Raises AnsibleError if it cannot be decrypted.
    """
    if isinstance(value, Mapping):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, str) or type(value).__name__ in ENCRYPTED:
        return str(value)
    return value


def reader(templar: Any) -> Callable[[Any], Any]:
    """Return a function that reads a variable that may be a template. templar: of an action."""
    return lambda value: plain(templar.template(value))


class PlainVariables(Mapping[str, Any]):
    """The variables of one host. Each is read when it is requested."""

    def __init__(self, variables: Mapping[str, Any]) -> None:
        """Take the variables in Ansible's form. Reading one templates it."""
        self._variables = variables

    def __getitem__(self, name: str) -> Any:
        """Return the value of a variable."""
        return plain(self._variables[name])

    def __contains__(self, name: object) -> bool:
        """Return whether a variable is set, without reading it."""
        return name in self._variables

    def __iter__(self) -> Iterator[str]:
        """Return the names of the variables."""
        return iter(self._variables)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._variables)


class PlainHosts(Mapping[str, PlainVariables]):
    """The variables of each host of the inventory (hostvars)."""

    def __init__(self, hosts: Mapping[str, Mapping[str, Any]]) -> None:
        """Take Ansible's hostvars."""
        self._hosts = hosts

    def __getitem__(self, name: str) -> PlainVariables:
        """Return the variables of a host."""
        return PlainVariables(self._hosts[name])

    def __contains__(self, name: object) -> bool:
        """Return whether the inventory has a host."""
        return name in self._hosts

    def __iter__(self) -> Iterator[str]:
        """Return the names of the hosts."""
        return iter(self._hosts)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._hosts)
