# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of all unit tests."""

from __future__ import annotations

from hypothesis import settings

# How long an example takes depends on what else the machine does: no test judges it.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
