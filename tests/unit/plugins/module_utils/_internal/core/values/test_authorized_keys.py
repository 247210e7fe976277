# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Public keys of every kind that OpenSSH knows, and what is given in place of one."""

from __future__ import annotations

import base64
import struct
from typing import Any

import pytest
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.authorized_keys import (
    MAXIMUM_KEYS,
    TYPES,
    parse_authorized_keys,
)
from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.values.errors import InvalidInput
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from hypothesis import given, settings
from hypothesis import strategies as st

VARIABLE = "session_authorized_keys"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAID0D3s8E9JWn04xEIs9iqqoeVlWJbCLHvqIY+zMlCfIT"
FINGERPRINT = "SHA256:aRt/gk+ayybuIM5jdXzho53g4MzbW9S3L2oewKLHFUw"
"""What ``ssh-keygen -l`` says of it."""


def packed(*fields: bytes) -> str:
    """Return fields as the content of a key."""
    return base64.b64encode(b"".join(struct.pack(">I", len(field)) + field for field in fields)).decode()


def text_of(private: Any) -> str:
    public: bytes = private.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return public.decode()


def number(value: int) -> bytes:
    """Return a number as RFC 4251 writes it (mpint)."""
    return value.to_bytes(value.bit_length() // 8 + 1, "big")


def every_kind() -> dict[str, str]:
    curves = {"nistp256": ec.SECP256R1(), "nistp384": ec.SECP384R1(), "nistp521": ec.SECP521R1()}
    keys = [text_of(ed25519.Ed25519PrivateKey.generate()), text_of(rsa.generate_private_key(65537, 2048))]
    keys += [text_of(ec.generate_private_key(curve)) for curve in curves.values()]
    # A key on a token is one of the same kind with one more field: what it is good for.
    for kind in ("sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com"):
        content = base64.b64decode(keys["ecdsa" in kind and 2].split()[1])
        length = struct.unpack(">I", content[:4])[0]
        first, last = (base64.b64decode(packed(field)) for field in (kind.encode(), b"ssh:"))
        keys.append(f"{kind} {base64.b64encode(first + content[4 + length :] + last).decode()}")
    return {key.split()[0]: key for key in keys}


def refusal(value: object) -> InvalidInput:
    with pytest.raises(InvalidInput) as error:
        parse_authorized_keys(VARIABLE, value)
    return error.value


def test_every_kind_is_taken():
    keys = every_kind()
    assert set(keys) == set(TYPES)
    found = parse_authorized_keys(VARIABLE, list(keys.values()))
    assert {key.kind: key.text for key in found} == keys


def test_every_kind_that_is_cut_off_or_of_another_type_is_refused():
    keys = every_kind()
    for kind, text in keys.items():
        content = base64.b64decode(text.split()[1])
        for other in (content[:-1], content + b"\0", content + struct.pack(">I", 0), content[:8], b""):
            assert "content" in str(refusal(f"{kind} {base64.b64encode(other).decode()}"))
        for wrong in TYPES:
            if wrong != kind:
                assert f"not that of a key of type {wrong}" in str(refusal(f"{wrong} {text.split()[1]}"))


def test_a_list_and_text_are_the_same_and_no_key_counts_twice():
    (key,) = parse_authorized_keys(VARIABLE, f"\n# mine\n  {KEY}   alice@laptop \n{KEY} again\n\n")
    assert (key.text, key.fingerprint) == (f"{KEY} alice@laptop", FINGERPRINT)
    assert parse_authorized_keys(VARIABLE, [f"{KEY} alice@laptop\n", KEY]) == (key,)
    assert parse_authorized_keys(VARIABLE, KEY)[0].text == KEY


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("", "holds no key"),
        ([], "holds no key"),
        ("# nothing\n", "holds no key"),
        (5, "list of public keys"),
        ({"a": KEY}, "list of public keys"),
        ([5], "as a file ending in .pub"),
        ("~/.ssh/id_ed25519.pub", "as a file ending in .pub"),
        ("ssh-ed25519", "not that of a key of type ssh-ed25519"),
        ("ssh-ed25519 AAAA*", "cut off or damaged"),
        (f'from="10.0.0.0/8" {KEY}', "Options before the key are not taken"),
        (f"ssh-dss {packed(b'ssh-dss', b'1')}", "Keys of type 'ssh-dss' are not taken"),
        (f"ssh-ed25519-cert-v01@openssh.com {packed(b'x')}", "cert-v01@openssh.com' are not taken"),
        (f"{KEY} {'x' * 257}", "at most 256 characters"),
        (f"{KEY} a\x1b[2Jb", "can be printed"),
        (f"ssh-rsa {packed(b'ssh-rsa', number(65537), number(1 << 1023))}", "has 1024 bits; 2048 to 16384"),
        (f"ssh-rsa {packed(b'ssh-rsa', number(65537), number(1 << 16384))}", "has 16385 bits"),
        (f"ecdsa-sha2-nistp256 {packed(b'ecdsa-sha2-nistp256', b'nistp384', b'4' * 65)}", "not that of a key of type"),
        (f"ecdsa-sha2-nistp256 {packed(b'ecdsa-sha2-nistp256', b'nistp256', bytes([3]) * 65)}", "not that of a key"),
        (f"sk-ssh-ed25519@openssh.com {packed(b'sk-ssh-ed25519@openssh.com', b'1' * 32, b'web:')}", "not that of a"),
    ],
)
def test_what_is_no_key(value, message):
    assert message in str(refusal(value))
    assert VARIABLE in str(refusal(value))


def test_every_problem_is_told_with_its_place():
    found = refusal([KEY, "nonsense", "# a comment", "ssh-ed25519 AAAA"])
    assert [problem.variable for problem in found.problems] == [f"{VARIABLE}[1]", f"{VARIABLE}[2]"]


def test_very_many_keys_are_refused():
    kind = b"ssh-ed25519"
    keys = [f"ssh-ed25519 {packed(kind, number_of.to_bytes(32, 'big'))}" for number_of in range(MAXIMUM_KEYS + 1)]
    assert len(parse_authorized_keys(VARIABLE, keys[1:])) == MAXIMUM_KEYS
    assert f"at most {MAXIMUM_KEYS}" in str(refusal(keys))


@pytest.mark.parametrize("form", [PrivateFormat.OpenSSH, PrivateFormat.PKCS8])
@pytest.mark.parametrize("given_as", ["text", "lines", "after another", "without its first line"])
def test_a_private_key_is_called_one_and_not_repeated(form, given_as):
    private = ed25519.Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, form, NoEncryption()).decode()
    lines = private.splitlines()
    value = {"text": private, "lines": lines, "after another": [KEY, private], "without its first line": lines[1:-1]}
    message = str(refusal(value[given_as]))
    if given_as != "without its first line" or form is PrivateFormat.OpenSSH:
        assert "PRIVATE key" in message
    assert not any(line in message for line in lines)


@settings(max_examples=200, derandomize=True)
@given(st.binary(max_size=120), st.sampled_from(TYPES), st.text(max_size=20))
def test_garbage_ends_in_sentences(content, kind, comment):
    text = f"{kind} {base64.b64encode(content).decode()} {comment}"
    error = refusal(text)
    assert all(problem.message.endswith(".") for problem in error.problems)
