# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Output of programs that a host runs by itself. It goes to the journal or a plain file."""

from __future__ import annotations

import os
import sys
import time


def say(text: str) -> None:
    """Write one line. The journal adds the time, for a plain file it is added here."""
    stamp = "" if "JOURNAL_STREAM" in os.environ else time.strftime("%Y-%m-%d %H:%M:%S ")
    sys.stdout.write(stamp + "; ".join(text.splitlines()) + "\n")
    sys.stdout.flush()
