# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A session that grows as far as there is room keeps what it has."""

from __future__ import annotations

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.planning import change
from ansible_collections.cluster_compute.session.tests.support.core.verbs.group import request
from ansible_collections.cluster_compute.session.tests.support.plans import typed_plan


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_the_last_of_the_new_replicas_are_left_out(size: int) -> None:
    plan = typed_plan({"replicas": [{"name": "main1"}, {"name": "sub1"}]})
    names = [name for name, _role, _index in request(size=5).replicas()]
    shortened = change._shortened(request(size=5), plan, size)
    assert [name for name, _role, _index in shortened.replicas()] == names[:size]
