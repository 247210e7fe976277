# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The documentation as a reader has it who unpacked it somewhere: files, no server and no network."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the documentation."""
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        check=True,
    )
    return folder


def addresses(browser: Chrome) -> list[str]:
    """Return what the browser has asked for since it was asked last."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]


def test_the_pages_are_searched_without_a_network(browser: Chrome, site: Path) -> None:
    addresses(browser)
    browser.get((site / "index.html").as_uri())
    wait = WebDriverWait(browser, 20)
    wait.until(lambda _: browser.find_elements(By.CSS_SELECTOR, "[data-md-component=search-query]"))
    browser.find_element(By.CSS_SELECTOR, "label[for=__search]")
    browser.execute_script("document.querySelector('#__search').click()")
    browser.find_element(By.CSS_SELECTOR, "[data-md-component=search-query]").send_keys("tombstone")
    found = wait.until(lambda _: browser.find_elements(By.CSS_SELECTOR, ".md-search-result__link"))
    assert "recovery.html" in " ".join(link.get_attribute("href") or "" for link in found)
    asked = addresses(browser)
    assert (site / "search" / "search_index.js").as_uri() in asked
    assert [address for address in asked if not address.startswith(("file:", "data:", "about:"))] == []


def test_the_pictures_of_the_first_page_are_shown(browser: Chrome, site: Path) -> None:
    browser.get((site / "index.html").as_uri())
    widths = browser.execute_script("return [...document.querySelectorAll('article img')].map(i => i.naturalWidth)")
    assert len(widths) == 2
    assert min(widths) > 0
