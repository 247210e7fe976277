# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""For mkdocs: what the pages in docs, which are read as files as well, need to become pages of a site."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
_NAVIGATION: list[Any] = []
"""Pages, and sections of pages, of the site that is being built."""


def on_nav(nav: Any, **_more: Any) -> None:
    """Keep the pages and sections for `on_post_build`."""
    _NAVIGATION[:] = nav.items


def on_post_build(config: Any, **_more: Any) -> None:
    """Write llms.txt, the list of pages for programs that read them (llmstxt.org): section, title and beginning."""
    lines = [f"# {config['site_name']}", "", f"> {config['site_description']}"]
    for item in _NAVIGATION:
        pages = [page for page in (item.children if item.is_section else [item]) if page.is_page]
        lines += ["", f"## {item.title}", ""]
        lines += [f"- [{page.title}]({page.file.src_uri}): {_beginning(page.markdown)}" for page in pages]
        for page in pages:
            target = Path(config["site_dir"]) / page.file.src_uri
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(page.markdown, encoding="utf-8")
    (Path(config["site_dir"]) / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _beginning(markdown: str) -> str:
    """Return the first sentence of a page, without marks of links and code."""
    texts = [part for part in markdown.split("\n\n") if re.match(r"[A-Za-z\[*]|`(?!`)", part)]
    text = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", " ".join(texts[:1]))
    text = re.sub(r"[`*]", "", text).replace("\n", " ")
    return re.sub(r":$", ".", re.split(r"(?<=\.)\s", text.strip())[0])


def on_page_markdown(markdown: str, page: Any, config: Any, **_more: Any) -> str:
    """Give links to files outside docs their full address; one to nowhere stays, and mkdocs fails for it."""

    def full(link: re.Match[str]) -> str:
        path = (Path(page.file.abs_src_path).parent / link[1]).resolve()
        if path.is_relative_to(config["docs_dir"]) or not path.exists():
            return link[0]
        return f"]({config['extra']['repository']}/blob/main/{path.relative_to(ROOT)}{link[2] or ''})"

    # A page has the title of its first heading only where nothing stands before it.
    text = re.sub(r"\A(<!--.*?-->\s*)+", "", markdown, flags=re.DOTALL)
    text = re.sub(r"^> \[!(\w+)\]\n((?:> .*\n?)+)", _box, text, flags=re.MULTILINE)
    return re.sub(r"\]\((\.\./[^)#]+)(#[^)]*)?\)", full, text)


def _box(found: re.Match[str]) -> str:
    """Return an alert of a forge's pages as a box of the site (Markdown's admonition)."""
    lines = found[2].splitlines()
    return f"!!! {found[1].lower()}\n" + "".join(f"    {line[2:]}\n" for line in lines)
