# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Reject a run whose tags skip everything in a playbook, because it would do nothing and report success."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from ansible import context
from ansible.errors import AnsibleError, AnsibleFilterError
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play import Play

DOCUMENTATION = r"""
name: refuse_tags
short_description: Reject a run whose tags skip everything in a playbook
version_added: 1.0.0
author: The cluster_compute.session authors
description:
  - Returns its input. Use it for C(hosts) of plays, which Ansible evaluates whatever tags a run has.
  - Fails if a playbook on the command line is one of the collection, or only imports such playbooks, and the tags of
    the run skip all of it. The tags can come from the command line or from the site's settings.
  - A playbook with its own plays is not checked.
options:
  _input:
    description: The hosts of a play.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show the hosts of a play that must not be skipped silently
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
    """Return *hosts*. Raises AnsibleFilterError if a playbook of this run would do nothing."""
    only, skipped = (list(context.CLIARGS.get(name) or ()) for name in ("tags", "skip_tags"))
    for playbook in context.CLIARGS.get("args") or ():
        imported = [*_imported(playbook)]
        if imported and not any(_is_run(tags, only, skipped) for tags in imported):
            raise AnsibleFilterError(_refusal(playbook, only, skipped))
    return hosts


def _refusal(playbook: str, only: Sequence[str], skipped: Sequence[str]) -> str:
    given = [f"tags {', '.join(only)}"] if [*only] != ["all"] else []
    given += [f"skipped tags {', '.join(skipped)}"] if skipped else []
    return (
        f"The run has {' and '.join(given)}, which leave out all of {Path(playbook).name}: nothing would be "
        "done. Run it without --tags and --skip-tags, and without TAGS_RUN and TAGS_SKIP in Ansible's settings."
    )


def _is_run(tags: Any, only: Collection[str], skipped: Collection[str]) -> bool:
    return bool(Play.load({"name": "", "hosts": "all", "tags": tags}).evaluate_tags(only, skipped, {}))


def _imported(playbook: str) -> Iterator[Any]:
    """Yield the tags of each collection playbook in a playbook that has nothing else. Yield nothing for any other."""
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
