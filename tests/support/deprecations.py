# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Ansible says will cease to work, in the output of a playbook."""

from __future__ import annotations

SHOWN = {"ANSIBLE_DEPRECATION_WARNINGS": "true"}
"""What makes Ansible say so, whatever the settings of who runs the tests."""
OTHERS = ("awx.awx",)
"""Collections of others that tests use."""


def deprecations(output: str) -> list[str]:
    """Return the warnings that are for us to mend."""
    lines = [line for line in output.splitlines() if "[DEPRECATION WARNING]" in line]
    return [line for line in lines if not any(other in line for other in OTHERS)]
