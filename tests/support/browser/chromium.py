# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The distribution's Chromium, without a window."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1440,1000",
)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """Start Chromium with a profile of its own, once."""
    programs = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
    missing = [name for name, path in programs.items() if path is None]
    assert not missing, f"Not installed: {', '.join(missing)}. make browser installs it."
    options = ChromeOptions()
    options.binary_location = str(programs["chromium"])
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options=options, service=Service(executable_path=str(programs["chromedriver"])))
    try:
        driver.get("about:blank")  # the browser's own first page fetches much
        for kind in ("browser", "performance"):
            driver.get_log(kind)
        yield driver
    finally:
        driver.quit()
