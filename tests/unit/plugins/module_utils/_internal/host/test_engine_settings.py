# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.host import engine_settings


@pytest.mark.parametrize(
    ("words", "text", "why"),
    [
        ([], "{}", ""),
        ([], '{"iptables": true}', ""),
        ([], '{"iptables": false}', '"iptables": false in {file}'),
        ([], "{", ""),
        ([], None, ""),
        (["--iptables=false"], "{}", "--iptables=false on its command line"),
        (["--iptables=F"], "{}", "--iptables=F on its command line"),
        (["--iptables=true", "--ip6tables=false"], "{}", ""),
        (["--config-file", "{other}"], '{"iptables": false}', ""),
        (["--config-file={other}"], '{"iptables": false}', ""),
    ],
)
def test_an_engine_that_writes_no_rules_is_known_by_what_it_was_told(
    words: list[str], text: str | None, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, other = tmp_path / "daemon.json", tmp_path / "other.json"
    other.write_text("{}", encoding="utf-8")
    if text is not None:
        file.write_text(text, encoding="utf-8")
    monkeypatch.setattr(engine_settings, "FILE", file)
    told = ["dockerd", *(word.replace("{other}", str(other)) for word in words), ""]
    monkeypatch.setattr(engine_settings, "words_of", lambda _process: told)
    assert engine_settings.why_no_rules(7) == why.replace("{file}", str(file))
    monkeypatch.undo()
    monkeypatch.setattr(engine_settings, "FILE", file)
    assert bool(engine_settings.why_no_rules(0)) is (text == '{"iptables": false}')
