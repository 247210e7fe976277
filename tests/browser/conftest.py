# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A real browser for the tests: the distribution's Chromium, without a window, driven as a user would drive it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.tests.support.browser.chromium import browser
from ansible_collections.cluster_compute.session.tests.support.browser.page import Page
from selenium.webdriver import Chrome

__all__ = ["browser"]


@pytest.fixture
def page(browser: Chrome, tmp_path: Path) -> Iterator[Page]:
    """Give a page to open; whatever a test does with it, it may neither complain nor fetch anything."""
    shown = Page(browser, tmp_path / "status.html")
    shown.emulate()
    yield shown
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    shown.listen()
    assert shown.messages == []
    assert {url for url in shown.fetched if not url.startswith("data:")} <= {shown.path.as_uri()}


@pytest.fixture
def show(page: Page) -> Callable[[Mapping[str, Any]], Page]:
    """Give a function that opens an overview."""
    return page.open
