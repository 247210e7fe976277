# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page of a resource group in a real browser: what it shows, what a click and a key do, who can read it.

The fixture `page` holds for each of these tests that the browser had nothing to complain of and fetched nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.plugin_utils.status_parts import NOTHING
from ansible_collections.cluster_compute.session.tests.support.browser import groups
from ansible_collections.cluster_compute.session.tests.support.browser.page import Page
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support import expected_conditions
from selenium.webdriver.support.ui import WebDriverWait

Show = Callable[[Mapping[str, Any]], Page]
CONTRAST = """
const luminance = ([r, g, b]) => [r, g, b]
  .map((item) => item / 255).map((item) => item <= 0.04045 ? item / 12.92 : ((item + 0.055) / 1.055) ** 2.4)
  .reduce((sum, item, place) => sum + item * [0.2126, 0.7152, 0.0722][place], 0);
const colour = (text) => {
  const numbers = text.match(/[\\d.]+(?:e-?\\d+)?/g).map(Number);
  const [r, g, b, a = 1] = numbers;
  return text.startsWith("color(") ? [r * 255, g * 255, b * 255, a] : [r, g, b, a];
};
const over = (front, back) => [0, 1, 2].map((item) => front[item] * front[3] + back[item] * (1 - front[3]));
const behind = (node) => {
  const layers = [];
  for (let item = node; item; item = item.parentElement) layers.push(colour(getComputedStyle(item).backgroundColor));
  return layers.reverse().reduce((back, front) => over(front, back), [255, 255, 255]);
};
const poor = [];
let seen = 0;
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) {
  const node = walk.currentNode.parentElement;
  if (!walk.currentNode.data.trim() || !node.getClientRects().length) continue;
  if (/^(SCRIPT|STYLE)$/.test(node.tagName) || node.closest(".hidden, .skip, svg")) continue;
  const back = behind(node);
  const front = over(colour(getComputedStyle(node).color), back);
  const [light, dark] = [luminance(front), luminance(back)].sort((a, b) => b - a);
  const ratio = (light + 0.05) / (dark + 0.05);
  seen += 1;
  if (ratio < 4.5) poor.push(`${node.tagName}.${node.className} ${walk.currentNode.data.slice(0, 20)}: ${ratio}`);
}
return [seen, poor];
"""
"""Texts whose contrast is below what WCAG 2.2 wants at least (1.4.3, level AA, text of any size)."""


@pytest.fixture(scope="module")
def small() -> dict[str, Any]:
    return groups.small()


@pytest.fixture(scope="module")
def large() -> dict[str, Any]:
    return groups.large()


def only(page: Page | WebElement, selector: str) -> WebElement:
    """Return the only element of a selector."""
    found = every(page, selector)
    assert len(found) == 1, f"{selector}: {len(found)}"
    return found[0]


def every(page: Page | WebElement, selector: str) -> list[WebElement]:
    """Return all elements of a selector."""
    return (page.browser if isinstance(page, Page) else page).find_elements(By.CSS_SELECTOR, selector)


def shown(page: Page, selector: str) -> list[str]:
    """Return the texts of the elements that can be seen."""
    return [element.text for element in every(page, selector) if element.is_displayed()]


def opener(page: Page, session: str, within: str = "#sessions ~ .scroll") -> WebElement:
    """Return the button that opens the details of a session."""
    return next(button for button in every(page, f"{within} button") if button.get_attribute("title") == session)


def drawer(page: Page) -> WebElement:
    """Return the details that are open."""
    return only(page, ".drawer:popover-open")


def press(page: Page, *keys: str) -> None:
    """Press keys wherever the focus is."""
    for key in keys:
        page.browser.switch_to.active_element.send_keys(key)


def facts(details: WebElement) -> dict[str, str]:
    """Return terms and what is said of them."""
    return {only(row, "dt").text: only(row, "dd").text for row in every(details, ".facts > div")}


def test_hosts_are_drawn_with_the_replicas_networks_and_room_that_they_have(show: Show, small: dict[str, Any]) -> None:
    page = show(small)
    assert [only(host, "h3 .name").text for host in every(page, ".host")] == ["h1", "h2", "h3"]
    third = only(page, '.host[data-host="h3"]')
    assert [only(group, ".name").text for group in every(third, ".group")] == ["explore", "notebook"]
    notebook = every(third, ".group")[1]
    assert [chip.text.split()[-1] for chip in every(notebook, ".chips li")] == ["main1", "sub1"]
    assert only(notebook, ".net").text.startswith("bridge 10.213.")
    assert "3 of 8 free" in third.text
    assert "As of 2026-01-02 10:30:00 UTC, " in only(page, ".when").text
    assert "1 of 2 free" in third.text
    train = only(page, '.host[data-host="h1"] .group')
    assert only(train, ".net").text.startswith("overlay 10.213.")
    colour = page.script("return getComputedStyle(arguments[0]).borderTopColor", only(train, ".net"))
    other = page.script("return getComputedStyle(arguments[0]).borderTopColor", only(notebook, ".net"))
    assert colour != other
    assert only(train, ".mark").text != only(notebook, ".mark").text, "colour alone tells sessions apart"


def test_an_overlay_is_a_wire_between_the_hosts_that_it_joins_and_no_others(show: Show, small: dict[str, Any]) -> None:
    page = show(small)
    ends = page.script(
        """const origin = document.querySelector(".fabric").getBoundingClientRect();
        return [...document.querySelectorAll(".wires circle")].map((end) => {
          const [x, y] = ["cx", "cy"].map((key) => Number(end.getAttribute(key)));
          return document.elementsFromPoint(x + origin.left + 6, y + origin.top)
            .find((item) => item.matches(".host, .host *")).closest(".host").dataset.host;
        });"""
    )
    assert ends == ["h1", "h2"]
    assert "overlay 10.213." in only(page, ".wires text").text
    page.resize(500, 900)
    assert len(set(page.script("return [...document.querySelectorAll('.host')].map((item) => item.offsetLeft)"))) == 1
    assert len(every(page, ".wires circle")) == 2
    inside = page.script(
        """const box = document.querySelector(".wires path").getBoundingClientRect();
        return box.left >= 0 && box.right <= innerWidth"""
    )
    assert inside, "a wire leaves the page"


def test_a_click_shows_all_that_is_known_of_a_session(show: Show, small: dict[str, Any]) -> None:
    page = show(small)
    assert every(page, ".drawer:popover-open") == []
    chip = only(page, '.host[data-host="h1"] .group .chips li:first-child')
    ActionChains(page.browser).move_to_element(chip).click().perform()
    details = drawer(page)
    assert only(details, "h2").text == "train"
    rows = [[cell.text for cell in every(row, "th, td")] for row in every(details, "tbody tr")]
    session = next(session for session in small["sessions"] if session["name"] == "train")
    assert [row[0] for row in rows] == ["main1", "sub1", "sub2", "sub3"]
    for row, replica in zip(rows, session["replicas"]):
        assert row[1].split()[-1] == replica["status"]
        assert row[2:7] == [
            replica["host"],
            replica["address"],
            *(str(replica[key]) for key in ("rank", "local_rank", "node_rank")),
        ]
    assert rows[3][7].split("\n") == ["137", "out of memory"]
    assert rows[0][8] == "2.4 of 4"
    assert rows[0][9] == "3.2 of 8 GiB"
    shown = facts(details)
    assert shown["Id"] == session["id"]
    assert shown["Hosts"] == f"h1 {chr(215)}2\nh2 {chr(215)}2"
    assert session["network"]["subnet"] in shown["Network"]
    assert str(session["network"]["vni"]) in shown["Network"]
    assert shown["Login of the owner"] == "port 40022 of h1"
    assert shown["Images"] == f"registry.example.com/train:1.4 {groups.IMAGE}"
    assert shown["Published ports"].split("\n") == [
        f"main1 on h1: 0.0.0.0:{port} \N{RIGHTWARDS ARROW} {inside}/tcp" for port, inside in ((8080, 80), (40022, 2201))
    ]
    assert "python train.py --epochs 3" in shown["Role main"]
    assert "variables TOKEN" in shown["Role main"]
    assert "s3cret" not in page.browser.page_source
    history = [step.text for step in every(details, ".history li")]
    assert len(history) == len(session["history"])
    assert all(entry["reason"] in step for entry, step in zip(session["history"], history))
    only(details, ".close").click()
    assert every(page, ".drawer:popover-open") == []


def test_a_session_that_waits_says_why(show: Show, small: dict[str, Any]) -> None:
    page = show(small)
    first, second = every(page, "#waiting ~ .scroll tbody tr")
    assert [cell.text for cell in every(first, "th, td")][:5] == ["1", "large", "16 replicas", "5", "bob"]
    assert "16 replicas asked, mode multi-node: not enough room now." in first.text
    only(second, "button").click()
    details = drawer(page)
    assert only(details, "h2").text == "later"
    for line in small["pending"][1]["reason"]:
        assert line in only(details, ".report").text
    assert "6 replicas" not in facts(details)["Role main"]
    assert "5 replicas" in facts(details)["Role sub"]


def test_a_session_that_ended_says_how(show: Show, small: dict[str, Any]) -> None:
    page = show(small)
    assert "1 error" in only(page, ".tiles").text
    opener(page, "broken").click()
    assert "exit code 3 after 3 restarts" in only(drawer(page), ".report").text
    assert [only(step, ".badge").text.split()[-1] for step in every(drawer(page), ".history li")] == ["ERROR"]


def test_everything_can_be_done_with_the_keyboard(show: Show, small: dict[str, Any]) -> None:
    page = show(small)
    press(page, Keys.TAB)
    assert page.browser.switch_to.active_element.text == "Skip to the sessions"
    press(page, "/")
    assert page.browser.switch_to.active_element.get_attribute("id") == "filter"
    press(page, *"train")
    assert shown(page, "#sessions ~ .scroll tbody th .name") == ["train"]
    assert only(page, "#filter").get_attribute("value") == "train"
    press(page, Keys.ESCAPE)
    assert len(shown(page, "#sessions ~ .scroll tbody th")) == 4
    reached = []
    for _step in range(40):
        press(page, Keys.TAB)
        active = page.browser.switch_to.active_element
        reached.append(active.get_attribute("title") or active.text)
        ring = page.script("return arguments[0].matches(':focus-visible')", active)
        assert ring, f"nothing shows that {reached[-1]} has the focus"
        if active.get_attribute("title") == "notebook":
            break
    assert "train" in reached
    press(page, Keys.ENTER)
    assert only(drawer(page), "h2").text == "notebook"
    assert page.browser.switch_to.active_element.get_attribute("aria-label") == "Close"
    press(page, Keys.ESCAPE)
    assert every(page, ".drawer:popover-open") == []
    assert page.browser.switch_to.active_element.get_attribute("title") == "notebook", "the focus is lost"


def test_who_needs_somebody_comes_first_and_a_failed_replica_shows(show: Show, small: dict[str, Any]) -> None:
    page = show(small)
    rows = [[cell.text for cell in every(row, "th, td")] for row in every(page, "#sessions ~ .scroll tbody tr")]
    assert [(row[0].split()[-1], row[3]) for row in rows[:2]] == [("broken", NOTHING), ("train", "3/4\nrunning")]
    (train,) = [row for row in every(page, "#sessions ~ .scroll tbody tr") if "train" in row.text]
    assert only(train, ".badge").get_attribute("class") == "badge warn"
    assert only(train, ".badge").get_attribute("textContent") == "▲ RUNNING, with failed replicas"


def test_the_command_that_enters_a_session_is_copied(show: Show, small: dict[str, Any]) -> None:
    page = show(small)
    for session, command in (("train", "ccs ssh train"), ("explore", "docker exec -it explore-main1 /bin/sh")):
        opener(page, session).click()
        only(drawer(page), ".copy").click()
        assert only(drawer(page), ".copy").text == "Copied"
        press(page, Keys.ESCAPE)
        field = only(page, "#filter")
        field.send_keys(Keys.CONTROL, "v")
        assert field.get_attribute("value") == command
        field.send_keys(Keys.ESCAPE)


def test_the_page_tells_its_age_and_is_read_again_with_the_same_filter(show: Show, small: dict[str, Any]) -> None:
    page = show(small)
    ago = "document.getElementById('made').dateTime = new Date(Date.now() - arguments[0] * 1000).toISOString()"
    for seconds, text in ((200, "3 minutes ago"), (7200, "2 hours ago"), (200000, "2 days ago")):
        page.script(ago, seconds)
        shows = expected_conditions.text_to_be_present_in_element((By.ID, "age"), f", {text}")
        WebDriverWait(page.browser, 10).until(shows)
    only(page, "#filter").send_keys("train")
    page.script("window.before = true; document.getElementById('reload').dataset.seconds = 0")
    opener(page, "train").click()
    page.script("document.getElementById('reload').click()")
    time.sleep(2.5)
    assert page.script("return window.before"), "it was read again under somebody who reads details"
    press(page, Keys.ESCAPE)
    WebDriverWait(page.browser, 10).until(lambda browser: not browser.execute_script("return window.before"))
    assert only(page, "#filter").get_attribute("value") == "train"
    assert only(page, "#reload").is_selected()
    page.script("sessionStorage.clear()")


def test_the_filter_leaves_what_every_word_of_it_is_found_in(show: Show, small: dict[str, Any]) -> None:
    page = show(small)
    field = only(page, "#filter")
    field.send_keys("H3 rack")
    assert shown(page, ".host h3 .name") == ["h3"]
    assert only(page, "#found").text == "1 of 3 hosts, 0 of 4 sessions, 0 of 2 waiting"
    field.clear()
    field.send_keys("error")
    assert shown(page, "#sessions ~ .scroll tbody th .name") == ["broken"]
    assert shown(page, ".host") == []
    field.clear()
    field.send_keys("erik")
    assert shown(page, ".host h3 .name") == ["h3"]
    assert shown(page, "#sessions ~ .scroll tbody th .name") == ["explore"]
    assert every(page, ".wires circle") == []


def test_three_hundred_hosts_can_be_looked_through(show: Show, large: dict[str, Any]) -> None:
    page = show(large)
    assert len(every(page, ".host")) == 300
    idle = only(page, "details.idle")
    folded = len(every(idle, ".host"))
    assert folded == sum(1 for host in large["hosts"] if host["usable"] and not host["held"]["replicas"])
    assert not any(host.is_displayed() for host in every(idle, ".host"))
    assert only(idle, "summary").text.startswith(f"{folded} idle hosts: ")
    unusable = [only(host, "h3 .name").text for host in every(page, ".host.unusable")]
    assert unusable == ["node007", "node299"]
    assert "connection refused" in only(page, ".problems").text
    assert page.script("return document.documentElement.scrollWidth <= innerWidth"), "the page is wider than the window"
    spent = page.script(
        """const field = document.getElementById("filter");
        field.value = "job-15";
        const begin = performance.now();
        field.dispatchEvent(new Event("input"));
        return performance.now() - begin;"""
    )
    assert spent < 5000
    job = next(session for session in large["sessions"] if session["name"] == "job-15")
    assert shown(page, ".host h3 .name") == [host["name"] for host in large["hosts"] if host["name"] in job["hosts"]]
    opener(page, "job-15").click()
    assert only(drawer(page), "h2").text == "job-15"
    assert "MISSING" in drawer(page).text
    assert len(every(page, ".group.choice")) == len(job["hosts"])
    assert len(every(page, ".wires circle")) == len(job["hosts"])


def test_a_wire_lies_between_hosts_and_its_name_beside_it(show: Show, large: dict[str, Any]) -> None:
    page = show(large)
    only(page, "#filter").send_keys("job-15")
    found = page.script(
        """const boxes = (selector) => [...document.querySelectorAll(selector)]
          .map((item) => item.getBoundingClientRect()).filter((box) => box.width);
        const apart = (a, b) => a.bottom <= b.top || b.bottom <= a.top || a.right <= b.left || b.right <= a.left;
        const line = document.querySelector(".wires path").getAttribute("d");
        const origin = document.querySelector(".fabric").getBoundingClientRect();
        const buses = [...line.matchAll(/M([0-9.]+) ([0-9.]+)H([0-9.]+)(?![0-9.V])/g)]
          .map((item) => item.slice(1).map(Number));
        const hosts = boxes(".host");
        const crosses = ([from, y, to], host) => y + origin.top >= host.top && y + origin.top <= host.bottom;
        const label = document.querySelector(".wires text").getBoundingClientRect();
        const last = buses.at(-1);
        return [
          buses.length,
          !buses.some((bus) => hosts.some((host) => crosses(bus, host))),
          hosts.every((host) => apart(host, label)),
          label.width + 60 < last[2] - last[0] || label.left > last[2] + origin.left,
        ];"""
    )
    assert found == [3, True, True, True]


def test_idle_hosts_unfold_by_click_and_where_the_filter_finds_them(show: Show, large: dict[str, Any]) -> None:
    page = show(large)
    idle = only(page, "details.idle")
    first = only(idle, ".host:first-child")
    only(idle, "summary").click()
    assert first.is_displayed()
    only(idle, "summary").click()
    assert not first.is_displayed()
    only(page, "#filter").send_keys(str(first.get_attribute("data-host")))
    assert first.is_displayed()


def test_squares_show_which_of_many_hosts_are_full_and_lead_to_them(
    show: Show, small: dict[str, Any], large: dict[str, Any]
) -> None:
    page = show(large)
    cells = every(page, ".cell")
    assert len(cells) == 300
    assert {cell.get_attribute("title") for cell in every(page, ".cell.bad")} == {
        "node007: cannot be used",
        "node299: cannot be used",
    }
    idle = only(page, "details.idle .host:first-child")
    name = str(idle.get_attribute("data-host"))
    (cell,) = [cell for cell in cells if str(cell.get_attribute("title")).startswith(f"{name}: ")]
    assert cell.get_attribute("title") == f"{name}: 0 % of memory held"
    assert "heat0" in str(cell.get_attribute("class"))
    for host in large["hosts"][:3]:
        part = max(host["held"][key] / host["capacity"][key] for key in ("cpus", "memory"))
        (full,) = [cell for cell in cells if str(cell.get_attribute("title")).startswith(f"{host['name']}: ")]
        assert f": {round(part * 100)} % of " in str(full.get_attribute("title"))
    cell.click()
    assert idle.is_displayed(), "what is folded unfolds"
    only(page, "#filter").send_keys("job-15")
    assert len(shown(page, ".cell")) == len(shown(page, ".host"))
    assert every(show(small), ".cell") == []


def test_no_value_becomes_anything_but_text(show: Show) -> None:
    hostile = groups.hostile()
    page = show(hostile)
    assert len(every(page, "script")) == 1
    assert every(page, "img, iframe, object, embed, form, [onload], [onerror], [style]:not(.fabric)") == []
    assert len(every(page, "svg")) == page.script("return document.querySelectorAll('svg.bar, svg.wires').length")
    for button in every(page, "tbody .open"):
        page.script("arguments[0].click()", button)
        assert only(drawer(page), "h2").is_displayed()
        only(drawer(page), ".close").click()
    text = page.script("return document.body.textContent")
    for value in groups.HOSTILE:
        assert value.encode("unicode_escape").decode().replace("\\u0645\\u0631\\u062d\\u0628\\u0627", "مرحبا") in text
    assert "\u202e" not in page.browser.page_source
    assert page.script("return document.documentElement.scrollWidth <= innerWidth"), "the page is wider than the window"


def test_the_policy_of_the_page_stops_what_was_not_escaped(show: Show, small: dict[str, Any]) -> None:
    page = show(small)
    page.script(
        """const script = document.createElement("script");
        script.textContent = "window.broken = true";
        document.body.append(script);
        document.body.insertAdjacentHTML("beforeend", "<b style='color: rgb(1, 2, 3)' id='styled'>x</b>");"""
    )
    assert page.script("return window.broken") is None
    assert page.script("return getComputedStyle(document.getElementById('styled')).color") != "rgb(1, 2, 3)"
    page.listen()
    assert len(page.messages) == 2
    assert all("Content Security Policy" in message for message in page.messages)
    page.messages.clear()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("overview", ["small", "large", "hostile"])
def test_all_text_can_be_read_by_day_and_by_night(
    show: Show, page: Page, request: pytest.FixtureRequest, scheme: str, overview: str
) -> None:
    page.emulate(prefers_color_scheme=scheme)
    show(groups.hostile() if overview == "hostile" else request.getfixturevalue(overview))
    for name in ("", "train" if overview == "small" else "later"):
        if name and overview == "small":
            opener(page, name).click()
        seen, poor = page.script(CONTRAST)
        assert seen > 50
        assert poor == []


def test_who_does_not_see_the_page_is_told_the_same(show: Show, small: dict[str, Any]) -> None:
    page = show(small)
    assert only(page, "html").get_attribute("lang") == "en"
    assert only(page, "h1").text == "cluster_compute_hosts"
    assert len(every(page, "main")) == 1
    ids = [element.get_attribute("id") for element in every(page, "[id]")]
    assert len(ids) == len(set(ids))
    for name in ("aria-labelledby", "aria-describedby", "for", "popovertarget"):
        for element in every(page, f"[{name}]"):
            assert set(str(element.get_attribute(name)).split()) <= set(ids)
    for heading in every(page, "thead th, tbody th"):
        assert heading.get_attribute("scope") in ("col", "row")
    for control in every(page, "search input, search a, main button, main summary"):
        assert control.accessible_name, control.get_attribute("outerHTML")
    group = only(page, '.host[data-host="h2"] .group button')
    assert group.accessible_name == "D train 2 replicas, failed"
    chips = page.script("return arguments[0].textContent", only(page, '.host[data-host="h2"] .chips'))
    assert "failed sub3" in chips
    opener(page, "train").click()
    assert drawer(page).aria_role == "dialog"
    assert drawer(page).accessible_name == "train"
    assert only(drawer(page), ".close").accessible_name == "Close"
    for control in every(page, "main button, .drawer:popover-open button"):
        if control.is_displayed():
            assert min(control.rect["width"], control.rect["height"]) >= 24, control.accessible_name  # WCAG 2.2, 2.5.8


def test_details_need_no_script(show: Show, page: Page, small: dict[str, Any]) -> None:
    page.browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        show(small)
        opener(page, "train").click()
        assert only(drawer(page), "h2").text == "train"
    finally:
        page.browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_a_group_without_sessions_says_so(show: Show) -> None:
    page = show(groups.empty())
    assert "Idle" in only(page, ".host").text
    assert "2 of 2 free" in only(page, ".host").text
    assert "Nobody waits." in only(page, "main").text
    assert "No session has a place." in only(page, "main").text
