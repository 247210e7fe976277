// SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
// SPDX-License-Identifier: GPL-3.0-or-later

// What the page cannot do by itself: the filter, the wires of overlay networks, marking a session wherever it is, its own
// age, reloading, and copying a command. All else, the details of sessions included, works without this script.
(() => {
  "use strict";
  const WIRED_HOSTS = 24;
  const WIRED_SESSIONS = 6;
  const LANE = 22;
  const RAIL = 9;
  const filter = document.getElementById("filter");
  const found = document.getElementById("found");
  const fabric = document.querySelector(".fabric");
  const wires = document.querySelector(".wires");
  const idle = document.querySelector("details.idle");
  let chosen = null;

  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const isShown = (item) => item.getClientRects().length > 0;

  function count(nodes, what) {
    const shown = nodes.filter((item) => !item.hidden).length;
    return `${shown} of ${nodes.length} ${what}`;
  }

  function applyFilter() {
    const asked = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const item of all("[data-search]")) {
      item.hidden = !asked.every((word) => item.dataset.search.includes(word));
    }
    if (idle) {
      const inside = all(".host", idle);
      idle.hidden = inside.every((item) => item.hidden);
      if (asked.length && !idle.hidden) idle.open = true;
    }
    found.value = asked.length
      ? [
          count(all(".host"), "hosts"),
          count(all("tr[data-search][data-session]"), "sessions"),
          count(all("tr[data-search]:not([data-session])"), "waiting"),
        ].join(", ")
      : "";
    draw();
  }

  function choose(session) {
    chosen = session;
    if (!fabric) return;
    let any = false;
    for (const item of all(".group")) {
      const is = item.dataset.session === session;
      item.classList.toggle("choice", is);
      any ||= is;
    }
    fabric.classList.toggle("chosen", any);
    draw();
  }

  function svg(name, attributes) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  }

  // Each overlay is a bus below every row of hosts that it reaches, its rows joined at the left; from a session's group
  // on a host a wire leads through the host's left margin down to the bus.
  function draw() {
    if (!fabric) return;
    wires.replaceChildren();
    const parts = all(".group[data-net=overlay]").filter(isShown);
    const sessions = [...new Set(parts.map((item) => item.dataset.session))];
    const isSmall = all(".host").filter(isShown).length <= WIRED_HOSTS && sessions.length <= WIRED_SESSIONS;
    const wanted = isSmall ? sessions : sessions.filter((item) => item === chosen);
    const lanes = isSmall ? wanted.length : 0;
    fabric.style.setProperty("--gap", lanes ? `${lanes * LANE + 18}px` : "");
    fabric.style.setProperty("--below", lanes ? `${lanes * LANE + 6}px` : "");
    fabric.style.setProperty("--rail", lanes ? `${lanes * RAIL + 14}px` : "");
    fabric.style.setProperty("padding-left", lanes && hasRows(wanted, parts) ? `${lanes * RAIL + 4}px` : "");
    const origin = fabric.getBoundingClientRect();
    wanted.forEach((session, lane) => {
      const mine = parts.filter((item) => item.dataset.session === session);
      wire(mine, lane, origin, isSmall);
    });
  }

  function hasRows(wanted, parts) {
    return wanted.some((session) => {
      const tops = parts.filter((item) => item.dataset.session === session).map(rowOf);
      return new Set(tops).size > 1;
    });
  }

  const rowOf = (group) => Math.round(group.closest(".host").getBoundingClientRect().top);

  function wire(groups, lane, origin, isSmall) {
    const rows = new Map();
    for (const group of groups) {
      const row = rowOf(group);
      if (!rows.has(row)) rows.set(row, []);
      rows.get(row).push(group);
    }
    const colour = [...groups[0].classList].find((name) => /^k\d+$/.test(name));
    const holder = svg("g", { class: colour });
    const step = isSmall ? lane : 0;
    const margin = step * RAIL + 4;
    const path = [];
    const ends = [];
    const buses = [];
    for (const [row, some] of rows) {
      const below = Math.max(
        ...all(".host").filter((item) => isShown(item) && Math.round(item.getBoundingClientRect().top) === row)
          .map((item) => item.getBoundingClientRect().bottom),
      ) - origin.top;
      const y = below + (isSmall ? 14 + step * LANE : 4);
      const xs = [];
      for (const group of some) {
        const box = group.getBoundingClientRect();
        const host = group.closest(".host").getBoundingClientRect();
        const x = host.left - origin.left + (isSmall ? 9 + step * RAIL : 4);
        const from = box.bottom - origin.top - Math.min(12, box.height / 2);
        path.push(`M${box.left - origin.left} ${from}H${x}V${y}`);
        ends.push([box.left - origin.left, from]);
        xs.push(x);
      }
      const left = rows.size > 1 ? margin : Math.min(...xs);
      path.push(`M${left} ${y}H${Math.max(...xs)}`);
      buses.push([y, Math.min(...xs), Math.max(...xs)]);
    }
    if (rows.size > 1) {
      const ys = buses.map(([y]) => y);
      path.push(`M${margin} ${Math.min(...ys)}V${Math.max(...ys)}`);
    }
    const line = path.join("");
    holder.append(svg("path", { d: line }), svg("path", { d: line, class: "core" }));
    for (const [x, y] of ends) holder.append(svg("circle", { cx: x, cy: y, r: 4 }));
    wires.append(holder);
    if (!isSmall) return;
    const [y, from, to] = buses[buses.length - 1];
    const text = svg("text", { x: (from + to) / 2, y: y + 4, "text-anchor": "middle" });
    text.textContent = `${groups[0].dataset.mark}  ${groups[0].dataset.label}`;
    holder.append(text);
    if (text.getBBox().width + 60 > to - from) {
      // It would hide the wire, so it goes beside it.
      text.setAttribute("x", to + 16);
      text.setAttribute("text-anchor", "start");
    }
    const box = text.getBBox();
    text.before(svg("rect", { x: box.x - 6, y: box.y, width: box.width + 12, height: box.height }));
  }

  filter.addEventListener("input", applyFilter);
  filter.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && filter.value) {
      event.preventDefault();
      filter.value = "";
      applyFilter();
    }
  });
  document.addEventListener("keydown", (event) => {
    const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName ?? "");
    if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      filter.focus();
    }
  });
  for (const drawer of all(".drawer")) {
    drawer.addEventListener("toggle", (event) => {
      if (event.newState === "open") choose(drawer.id);
      else if (chosen === drawer.id) choose(null);
    });
  }
  // Where not all wires are drawn, those of the session are that the mouse or the keyboard is at.
  for (const item of all(".group")) {
    item.addEventListener("mouseenter", () => choose(item.dataset.session));
    item.addEventListener("mouseleave", () => choose(document.querySelector(".drawer:popover-open")?.id ?? null));
    item.addEventListener("focusin", () => choose(item.dataset.session));
    item.addEventListener("focusout", () => choose(document.querySelector(".drawer:popover-open")?.id ?? null));
  }

  // How old the page is, and reading it again, with the same filter, while nobody reads details or types.
  const made = document.getElementById("made");
  const age = document.getElementById("age");
  const reload = document.getElementById("reload");

  // A server may have the pages of several groups.
  function stored(name, value) {
    const key = `${name} ${location.pathname}`;
    try {
      if (value === undefined) return sessionStorage.getItem(key) ?? "";
      sessionStorage.setItem(key, value);
    } catch {
      // The browser keeps nothing for this page.
    }
    return "";
  }

  function since(seconds) {
    const [amount, unit] = seconds < 90 ? [seconds, "second"]
      : seconds < 5400 ? [seconds / 60, "minute"] : seconds < 129600 ? [seconds / 3600, "hour"] : [seconds / 86400, "day"];
    const whole = Math.max(0, Math.round(amount));
    return `, ${whole} ${unit}${whole === 1 ? "" : "s"} ago`;
  }

  function tick() {
    const text = made ? since((Date.now() - Date.parse(made.dateTime)) / 1000) : "";
    if (made && age.textContent !== text) age.textContent = text;
    const isDue = performance.now() >= 1000 * Number(reload.dataset.seconds);
    const isRead = document.querySelector(".drawer:popover-open");
    if (!reload.checked || !isDue || isRead || document.activeElement === filter) return;
    stored("filter", filter.value);
    location.reload();
  }

  reload.checked = stored("reload") === "yes";
  filter.value ||= stored("filter");
  stored("filter", "");
  reload.closest("label").hidden = false;
  reload.addEventListener("change", () => stored("reload", reload.checked ? "yes" : "no"));
  setInterval(tick, 1000);
  tick();

  for (const button of all("button.copy")) {
    button.hidden = false;
    button.addEventListener("click", () => {
      // Not the clipboard's own interface, which pages read from files or over plain HTTP do not have.
      const selection = getSelection();
      selection.selectAllChildren(button.previousElementSibling);
      button.textContent = document.execCommand("copy") ? "Copied" : "Copy";
      selection.removeAllRanges();
    });
  }
  idle?.addEventListener("toggle", draw);
  window.addEventListener("resize", draw);
  applyFilter();
})();
