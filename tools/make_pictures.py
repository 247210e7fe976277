# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the pictures of the documentation from a real run: make_pictures.py

Launches a session on the lab, which has to be up, in a terminal whose output is recorded; draws the end of that as an
SVG, takes a picture of the status page in Chromium, and removes the session.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parent.parent
ASSETS = ROOT / "docs" / "assets"
PLAY = ["ansible-playbook", "-i", "inventories/lab"]
COMMAND = """ansible-playbook -i inventories/lab playbooks/launch_cluster.yml \\
    -e session_name=first -e session_size=3 -e session_image=cluster-compute/demo:latest \\
    -e session_cpus=1 -e session_memory=256m"""
COLUMNS = 116
WIDTH, HEIGHT, SIZE = 8.4, 19, 14
"""Of a character, a line, and the letters in it."""
COLOURS = {"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "34": "#79c0ff", "35": "#d2a8ff", "36": "#76e3ea"}
NO_BREAK = "\u00a0"
"""A space that no program takes away."""
PLAIN, GROUND, BAR = "#e6edf3", "#0d1117", "#161b22"

Cells = list[tuple[str, str]]
"""A line of the terminal: characters with their colours."""


def screen(recorded: str) -> list[Cells]:
    """Return the lines that a terminal has in the end: what was erased or written over is gone."""
    lines: list[Cells] = [[]]
    column, colour = 0, PLAIN
    for control, letter in re.findall(r"\x1b\[([0-9;]*[A-Za-z])|([^\x1b])", recorded):
        if control.endswith("m"):
            colour = next((COLOURS[code] for code in control[:-1].split(";") if code in COLOURS), PLAIN)
        elif control == "K":
            del lines[-1][column:]
        elif letter == "\n":
            lines.append([])
            column = 0
        elif letter == "\r":
            column = 0
        elif letter:
            lines[-1][column : column + 1] = [(letter, colour)]
            column += 1
    return lines


def svg(lines: list[Cells], title: str) -> str:
    """Return a picture of a terminal with these lines."""
    width, height = COLUMNS * WIDTH + 40, len(lines) * HEIGHT + 72
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" role="img">',
        "<!-- SPDX-FileCopyrightText: 2026 The cluster_compute.session authors -->",
        "<!-- SPDX-License-Identifier: GPL-3.0-or-later -->",
        "<!-- Made by tools/make_pictures.py of what the command printed. -->",
        f"<title>{escape(title)}</title>",
        f'<rect width="{width:g}" height="{height}" rx="10" fill="{GROUND}"/>',
        f'<path d="M0 36V10A10 10 0 0 1 10 0H{width - 10:g}A10 10 0 0 1 {width:g} 10V36Z" fill="{BAR}"/>',
        *(
            f'<circle cx="{20 + 20 * place}" cy="18" r="6" fill="{fill}"/>'
            for place, fill in enumerate(("#ff5f56", "#ffbd2e", "#27c93f"))
        ),
        f"<g font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" "
        f'font-size="{SIZE}">',
    ]
    for number, cells in enumerate(lines):
        begin = 0
        while begin < len(cells):
            end = begin
            while end < len(cells) and cells[end][1] == cells[begin][1]:
                end += 1
            text = "".join(letter for letter, _colour in cells[begin:end])
            left = begin + len(text) - len(text.lstrip())
            if text.strip():
                shown = escape(text.strip()).replace(" ", NO_BREAK)
                # The length is said, so that columns stand below each other in whatever font the reader has.
                drawn.append(
                    f'<text x="{20 + left * WIDTH:g}" y="{62 + number * HEIGHT}" fill="{cells[begin][1]}" '
                    f'textLength="{len(text.strip()) * WIDTH:g}" lengthAdjust="spacingAndGlyphs">{shown}</text>'
                )
            begin = end
    return "\n".join([*drawn, "</g>", "</svg>", ""])


def typed(command: str) -> list[Cells]:
    """Return the lines of a command as somebody has typed it."""
    first, *more = command.splitlines()
    lines = [[("$", COLOURS["32"]), *((letter, PLAIN) for letter in f" {first}")]]
    return [*lines, *([(letter, PLAIN) for letter in line] for line in more)]


def launched() -> str:
    """Launch the session in a terminal, and return what that got."""
    with tempfile.NamedTemporaryFile("r", encoding="utf-8", newline="") as record:
        inside = f"stty cols {COLUMNS}; exec {COMMAND}"
        command = [
            "script",
            "--quiet",
            "--return",
            "--flush",
            "--command",
            f"bash -c {shlex.quote(inside)}",
            record.name,
        ]
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        recorded = record.read()
    _begin, _line, rest = recorded.partition("\n")
    return rest.rpartition("\nScript done")[0].rstrip()


def main() -> int:
    """Make the pictures."""
    lines = screen(launched())
    picture = svg([*typed(COMMAND), *lines], "A launch of three replicas on two hosts, in a terminal")
    (ASSETS / "launch.svg").write_text(picture, encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        page = f"{folder}/page.html"
        subprocess.run([*PLAY, "playbooks/status.yml", "-e", f"status_page={page}"], cwd=ROOT, check=True)
        flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--user-data-dir={folder}/user",
        ]
        flags += ["--window-size=1280,860", f"--screenshot={ASSETS / 'status.png'}"]
        subprocess.run(["chromium", *flags, f"file://{page}"], check=True, stderr=subprocess.DEVNULL)
    subprocess.run([*PLAY, "playbooks/teardown_cluster.yml", "-e", "session_name=first"], cwd=ROOT, check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
