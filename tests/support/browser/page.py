# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""One page in a browser."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.cluster_compute.session.plugins.plugin_utils.status_page import render
from selenium.webdriver import Chrome


class Page:
    """One page in the browser, and what the browser said and fetched meanwhile."""

    def __init__(self, browser: Chrome, path: Path) -> None:
        self.browser = browser
        self.path = path
        self.messages: list[str] = []
        self.fetched: list[str] = []

    def open(self, overview: Mapping[str, Any]) -> Page:
        """Show an overview."""
        self.path.write_text(render(overview, "2026-01-02T10:30:00Z"), encoding="utf-8")
        self.listen()
        self.messages, self.fetched = [], []
        self.browser.get(self.path.as_uri())
        return self

    def listen(self) -> None:
        """Read what the browser has said and fetched since it was last asked."""
        self.messages += [entry["message"] for entry in self.browser.get_log("browser")]
        for entry in self.browser.get_log("performance"):
            event = json.loads(entry["message"])["message"]
            if event["method"] == "Network.requestWillBeSent":
                self.fetched.append(event["params"]["request"]["url"])

    def script(self, text: str, *arguments: Any) -> Any:
        """Return what a function of the page's own language returns."""
        return self.browser.execute_script(text, *arguments)

    def emulate(self, **media: str) -> None:
        """Pretend that the user prefers something, such as ``prefers_color_scheme="dark"``; no motion ever."""
        preferences = {"prefers_reduced_motion": "reduce", **media}
        features = [{"name": name.replace("_", "-"), "value": value} for name, value in preferences.items()]
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def resize(self, width: int, height: int) -> None:
        """Give the page another size, in CSS pixels."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
