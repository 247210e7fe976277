# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Refuse a run whose tags leave out all that a playbook does, as it would do nothing and say that all is well."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from ansible import context
from ansible.errors import AnsibleError, AnsibleFilterError
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play import Play

DOCUMENTATION = r"""
name: refuse_tags
short_description: Refuse a run whose tags leave out all that a playbook does
version_added: 1.0.0
author: The cluster_compute.session authors
description:
  - Returns what it is given. It is for C(hosts) of plays, which Ansible evaluates whatever tags a run has.
  - Fails where a playbook on the command line is one of the collection, or does nothing but import such playbooks, and
    the tags of the run, of the command line or of the site's settings, leave all of that out.
  - A playbook that has plays of its own is left alone.
options:
  _input:
    description: The hosts of a play.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show the hosts of a play that must not be left out in silence
  ansible.builtin.debug:
    msg: "{{ 'localhost' | cluster_compute.session.refuse_tags }}"
"""

RETURN = r"""
_value:
  description: What was given.
  type: str
"""

COLLECTION = "cluster_compute.session."
PLAYBOOKS = Path(__file__).resolve().parents[2] / "playbooks"


def refuse_tags(hosts: str) -> str:
    """Return *hosts*; raises AnsibleFilterError where a playbook of this run would do nothing."""
    only, skipped = (list(context.CLIARGS.get(name) or ()) for name in ("tags", "skip_tags"))
    for playbook in context.CLIARGS.get("args") or ():
        imported = [*_imported(playbook)]
        if imported and not any(_is_run(tags, only, skipped) for tags in imported):
            given = [f"tags {', '.join(only)}"] if only != ["all"] else []
            given += [f"skipped tags {', '.join(skipped)}"] if skipped else []
            raise AnsibleFilterError(
                f"The run has {' and '.join(given)}, which leave out all of {Path(playbook).name}: nothing would be "
                "done. Run it without --tags and --skip-tags, and without TAGS_RUN and TAGS_SKIP in Ansible's settings."
            )
    return hosts


def _is_run(tags: Any, only: Collection[str], skipped: Collection[str]) -> bool:
    return bool(Play.load({"name": "", "hosts": "all", "tags": tags}).evaluate_tags(only, skipped, {}))


def _imported(playbook: str) -> Iterator[Any]:
    """Yield the tags of each playbook of the collection in one that has nothing else; nothing for another."""
    if _is_ours(playbook, Path()):
        yield []
        return
    try:
        entries = DataLoader().load_from_file(playbook)
    except AnsibleError:
        return
    found = [(entry.get("import_playbook") or entry.get("ansible.builtin.import_playbook"), entry) for entry in entries]
    if all(name and _is_ours(str(name), Path(playbook).parent) for name, _entry in found):
        yield from (entry.get("tags") or [] for _name, entry in found)


def _is_ours(playbook: str, folder: Path) -> bool:
    return playbook.startswith(COLLECTION) or (folder / playbook).resolve().parent == PLAYBOOKS


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"refuse_tags": refuse_tags}
