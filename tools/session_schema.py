# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The JSON schema of session files, with which editors complete and check them, from the table of the fields."""

from __future__ import annotations

import json
import re
from typing import Any

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.fields import FIELDS, Field

DRAFT = "https://json-schema.org/draft/2020-12/schema"
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def schema() -> str:
    """Return the schema as JSON text. Names with the prefix of the variables are allowed as well."""
    properties = {field.name: _property(field) for field in FIELDS}
    made = {
        "$schema": DRAFT,
        "title": "A cluster compute session",
        "type": "object",
        "properties": properties,
        "patternProperties": {"^(session|cluster_compute)_": {}},
        "additionalProperties": False,
    }
    return json.dumps(made, indent=2, ensure_ascii=False) + "\n"


def _property(field: Field) -> dict[str, Any]:
    meaning = LINK.sub(r"\1", field.meaning).replace("`", "").removesuffix(", see below.").strip()
    return {"description": f"{meaning} ({field.kind.replace('`', '')})", **_type(field)}


def _type(field: Field) -> dict[str, Any]:
    """Return what YAML has there; the launch itself checks the rest."""
    if field.choices:
        return {"enum": list(field.choices)}
    if field.bounds is not None:
        return {"type": "integer", "minimum": field.bounds[0], "maximum": field.bounds[1]}
    if field.kind == "true or false":
        return {"type": "boolean"}
    kinds = [name for word, name in (("mapping", "object"), ("list", "array")) if word in field.kind]
    return {"type": [*kinds, "string"] if kinds else ["string", "number"]}
