# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Point at sentences that an English-speaking administrator would have to read twice.

Of Markdown, reStructuredText and YAML it reads the prose, of Python the comments and texts. What it finds is a place to
look at, not a verdict: so `make lint` only checks that there do not get more of them (--most).
"""

from __future__ import annotations

import argparse
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path

RULES = {
    r"\b(whoever|whosoever)\b": "name the person or thing: the operator, the user, another process",
    r"\bnobody\b": "no one, no host, no session; or say it positively",
    r"\banew\b": "again, re-create",
    r"\b(tells?|told) (of|about|whether|what|who|which|people|that)\b|\b(is|are) told\b": "report, return, receive",
    r"\b(looks?|looked) (at|after) (all )?(the )?hosts?\b|\ba look\b": "collect facts, check",
    r"\bmend(s|ed)?\b": "fix, repair",
    r"\b(bears|bore|bear with)\b": "tolerate, carry",
    r"(?<![Tt]here )\b(is|are) no [a-z]+\b": "is not a valid X, is not an X",
    r"\bto be had\b": "available",
    r"\bspeaks? against\b": "prevents, is a reason not to",
    r"\bas a rule\b": "usually, by default",
    r"\bwant of\b": "because there is no, out of",
    r"\b(lies|lie) (on|in|beside|below|with)\b": "is, is stored",
    r"^[*\->|\"' ]*(Of|Who|Whoever|What|Where|One that|That which) [a-z]": "put the subject first: a host that",
    r"\bthe one that\b|\bthose that\b.*\bthose that\b": "repeat the noun",
    r"\bonce more\b|\bagain and again\b": "repeatedly, periodically",
    r"\bcards?\b": "GPU, accelerator",
    r"\bunless\b.*\bno\b|\bno\b.*\bunless\b": "only if",
    r"\basked (for )?differently\b": "with a different specification",
    r"\b(is|are|was|were) away\b": "unreachable",
    r"\bway in\b": "login, access",
    r"\bhas no say\b|\bdoes not know of\b|\bnone of its business\b": "does not affect, ignores",
    r"\b(playbook|launch|host|engine|verb)s? says? so\b|, and says so\b": "is reported",
    r"\b(Have|Let) (the|a|an|it|hosts?|each)\b [a-z ]*\b": "an imperative: add, fix, create, skip, allow",
}
"""Expressions for habits, and what to write instead."""
_RULES = [(re.compile(rule), better) for rule, better in RULES.items()]
_READ = (".md", ".rst", ".yml", ".yaml", ".py")
_YAML = re.compile(r"name:|msg:|description:|#|^\s+- [A-Z]")


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Yield number and text of the lines of a file that people read, without code and without headings."""
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".py":
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and " " in token.string):
                for offset, line in enumerate(token.string.splitlines()):
                    yield token.start[0] + offset, line
        return
    is_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code and not line.startswith("#") and (path.suffix in (".md", ".rst") or _YAML.search(line)):
            yield number, re.sub(r"`[^`]*`", "`x`", line)


def files(paths: Sequence[str]) -> Iterator[Path]:
    """Yield the files to read, in folders as well, hidden ones left out."""
    for root in map(Path, paths):
        for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
            if path.suffix in _READ and path.is_file() and not any(part.startswith(".") for part in path.parts[1:]):
                yield path


def found(paths: Sequence[str]) -> list[str]:
    """Return a line for each place that was found: file, line, what to write instead, and the text."""
    return [
        f"{path}:{number}: {better}: {line.strip()[:110]}"
        for path in files(paths)
        for number, line in prose(path)
        for rule, better in _RULES
        if rule.search(line)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the places, or with --most only whether there are more of them than that; return 1 where there are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="+", metavar="path")
    parser.add_argument("--most", type=int, metavar="N", help="fail where more than N places are found")
    options = parser.parse_args(arguments)
    places = found(options.paths)
    if options.most is None:
        print("\n".join(places))
        return 0
    if len(places) > options.most:
        print(f"{len(places)} places in {' '.join(options.paths)} are hard to read, and {options.most} are allowed:")
        print(f"run tools/plain_english.py {' '.join(options.paths)} and write those of your change again.")
        return 1
    if len(places) < options.most:
        print(
            f"{len(places)} places in {' '.join(options.paths)} are left of {options.most}: lower it in tools/lint.sh."
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
