# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ansible loads all filters of a collection to find one of them, and compiles what they import in each run."""

from __future__ import annotations

from ansible_collections.cluster_compute.session.tests.support.fresh_python import printed

PLUGINS = "ansible_collections.cluster_compute.session.plugins"
LOAD = f"""
import pkgutil, sys
from importlib import import_module

package = import_module("{PLUGINS}.filter")
names = [module.name for module in pkgutil.iter_modules(package.__path__)]
for name in names:
    import_module("{PLUGINS}.filter." + name)
print(len(names))
print(*sorted(name.removeprefix("{PLUGINS}.") for name in sys.modules if name.startswith("{PLUGINS}.")))
"""


def test_loading_all_filters_imports_little() -> None:
    """What shows a plan, a status page or surveys of AWX is imported where it is used."""
    count, modules = printed(LOAD)

    assert int(count) >= 10
    heavy = ("core.show", "core.model", "core.rules", "core.verbs", "plugin_utils.status_page")
    assert [name for name in modules.split() if any(part in name for part in heavy)] == []
