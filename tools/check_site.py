# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the built documentation: check_site.py FOLDER

Every link leads to a page, an anchor or a file of the site; addresses outside are judged by their form alone; and no
page, style sheet or picture has a browser fetch anything from outside.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LINKS = {"a": "href", "link": "href", "script": "src", "img": "src", "iframe": "src", "image": "href", "source": "src"}
"""Element: the attribute that names what it leads to or fetches."""
NOT_FETCHED = {"canonical", "edit", "next", "prev"}
"""Kinds of the element link that a browser does not follow by itself."""
STYLE_URL = re.compile(r"""url\(\s*["']?([^"')]+)|@import\s+["']([^"']+)""")


class Page(HTMLParser):
    """The anchors of a page, its links, and what a browser fetches to show it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Read an element."""
        values = {name: value or "" for name, value in attrs}
        self.anchors.update(values[name] for name in ("id", "name") if name in values)
        target = values.get(LINKS.get(tag, ""), "")
        if target:
            self.links.append(target)
            if tag != "a" and values.get("rel") not in NOT_FETCHED:
                self.fetched.append(target)


def is_outside(target: str) -> bool:
    """Tell whether an address is another machine's."""
    return bool(urlsplit(target).scheme not in ("", "data") or urlsplit(target).netloc)


def faults(site: Path) -> list[str]:
    """Return what is wrong, a line each."""
    pages = {path: Page(path) for path in sorted(site.rglob("*.html"))}
    found = [] if pages else [f"{site} holds no page."]
    for path, page in pages.items():
        name = path.relative_to(site)
        found += [f"{name} fetches {target} from outside." for target in page.fetched if is_outside(target)]
        for target in page.links:
            parts = urlsplit(target)
            if is_outside(target):
                if parts.scheme != "https" or "." not in parts.netloc or re.search(r"\s", target):
                    found.append(f"{name} links to {target}, which is no full address with https.")
            elif not parts.scheme:
                # The page for what is not found is shown for any address, so its links begin at the root.
                begin = site if parts.path.startswith("/") else path.parent
                other = (begin / unquote(parts.path).lstrip("/")).resolve() if parts.path else path
                if other.is_dir():
                    other /= "index.html"
                anchors = pages[other].anchors if other in pages else set()
                if not other.exists() or (parts.fragment and unquote(parts.fragment) not in anchors):
                    found.append(f"{name} links to {target}, which is not there.")
    pages_for_programs = site / "llms.txt"
    text = pages_for_programs.read_text(encoding="utf-8") if pages_for_programs.is_file() else ""
    listed = re.findall(r"\]\(([^)]+)\)", text)
    found += [f"llms.txt links to {target}, which is not there." for target in listed if not (site / target).is_file()]
    found += [] if listed else ["llms.txt lists no page."]
    for path in [*site.rglob("*.css"), *site.rglob("*.svg")]:
        for match in STYLE_URL.finditer(path.read_text(encoding="utf-8")):
            if is_outside(match[1] or match[2]):
                found.append(f"{path.relative_to(site)} fetches {match[1] or match[2]} from outside.")
    return found


def main() -> int:
    """Print what is wrong with the site named on the command line; return 1 if anything is."""
    found = faults(Path(sys.argv[1]).resolve())
    for line in found:
        print(line)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
