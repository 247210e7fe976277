# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""What hosts answer, in words for a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SILENCE = "It did not answer."


def why_not(result: Mapping[str, Any]) -> str:
    """Return why a host has not done its part, from its result: one or more full sentences."""
    return sentence(str(result.get("msg") or SILENCE))


def sentence(text: str) -> str:
    """Return text with a mark at its end, so that another sentence can follow."""
    text = text.strip().rstrip(":")
    return text if text.endswith((".", "!", "?")) or "\n" in text else f"{text}."
