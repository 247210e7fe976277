# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""For mkdocs: what the pages in docs, which are read as files as well, need to become pages of a site."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def on_page_markdown(markdown: str, page: Any, config: Any, **_more: Any) -> str:
    """Give links to files outside docs their full address; one to nowhere stays, and mkdocs fails for it."""

    def full(link: re.Match[str]) -> str:
        path = (Path(page.file.abs_src_path).parent / link[1]).resolve()
        if path.is_relative_to(config["docs_dir"]) or not path.exists():
            return link[0]
        return f"]({config['extra']['repository']}/blob/main/{path.relative_to(ROOT)}{link[2] or ''})"

    # A page has the title of its first heading only where nothing stands before it.
    text = re.sub(r"\A(<!--.*?-->\s*)+", "", markdown, flags=re.DOTALL)
    return re.sub(r"\]\((\.\./[^)#]+)(#[^)]*)?\)", full, text)
