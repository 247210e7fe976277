# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Open an app on the host of main1, and write a file on the controller that tells its owner how to reach it.

The answer of the host contains the app's token, which is written to that file and nowhere else.
"""

from __future__ import annotations

import os
import shlex
from typing import Any

from ansible_collections.cluster_compute.session.plugins.action.session_host import ActionModule as HostAction
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.call.session_app import (
    OpenedApp,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.decode import decode
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.rules.apps import (
    answer,
    page,
    tunnel,
)
from ansible_collections.cluster_compute.session.plugins.plugin_utils.owner_files import write_for_owner


class ActionModule(HostAction):
    """The action behind the module session_app."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what people may see of the app, or which apps were closed."""
        own = {name: str(self._task.args.pop(name, "") or "") for name in ("answer_file", "configuration")}
        self._play_context.no_log = True  # with -vvv, a connection shows the answer of a host
        result = super().run(tmp, task_vars)
        plain = result.pop("opened", None)
        if plain is None:
            return result
        opened = decode(OpenedApp, plain, "The app")
        way = opened.way
        result.update(command=list(way.command), without_token=way.without_token)
        if not opened.port:  # check mode
            return {**result, "lines": [f"It would be started: {shlex.join(way.command)}"]}
        path, configuration = (os.path.abspath(os.path.expanduser(text)) for text in own.values())
        try:
            write_for_owner(path, answer(configuration, opened.port, way, opened.token).encode())
        except OSError as error:
            return {**result, "failed": True, "msg": f"The app runs, but {path} cannot be written: {error.strerror}."}
        shown = {"ssh": tunnel(configuration, opened.port), "url": page(opened.port, way.url)}
        hint = f"The token is in {path}, which is yours alone, beside both lines."
        if way.without_token:
            hint = (
                "The app has no token. While the command runs, anyone who reaches that port of your machine can use it."
            )
        found = {"port": opened.port, "job": opened.job, "answer_file": path}
        return {**result, **shown, **found, "lines": [*shown.values(), hint]}
