# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Lay out rows of text as a table."""

from __future__ import annotations

from collections.abc import Sequence

from .errors import printable


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return *rows* as printable lines with aligned columns, two spaces apart."""
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
