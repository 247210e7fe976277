# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How a request names the user of replicas."""

from __future__ import annotations

ME = "me"
"""The user of the hosts who launches the session."""
MAXIMUM = 2**31 - 1
"""The highest number of a user or group that Docker Engine accepts."""
