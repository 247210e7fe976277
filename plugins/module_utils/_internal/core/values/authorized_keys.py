# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The public keys with which a session's owner logs in, checked as far as that is possible without any key library.

A key is a line of authorized_keys without options (sshd(8)): its type, its content in base64, a comment. The content
begins with the type again, and consists of as many fields as the type has (RFC 4253 section 6.6, RFC 5656 section 3.1,
RFC 8709 section 4; for keys on a security token OpenSSH's PROTOCOL.u2f).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterator

from .deferred import dataclass
from .errors import HIDDEN, InvalidInput, Problem, show

ED25519_BYTES = 32
LEAST_RSA_BITS = 2048
"""The least number of bits that OpenSSH's manual calls sufficient; shorter keys can be broken."""
MOST_RSA_BITS = 16384
"""The longest that OpenSSH accepts."""
CURVES = {"nistp256": 32, "nistp384": 48, "nistp521": 66}
"""Bytes of a coordinate on each curve."""
TYPES = (
    "ssh-ed25519",
    *(f"ecdsa-sha2-{curve}" for curve in CURVES),
    "ssh-rsa",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
)
MAXIMUM_KEYS = 64
MAXIMUM_COMMENT = 256

_PRIVATE = ("PRIVATE KEY", "PuTTY-User-Key-File", "b3BlbnNzaC1rZXktdjE", "SSH PRIVATE KEY FILE")
"""Text that only private keys contain: their first lines, and the first bytes of OpenSSH's form in base64."""
_FORM = "It must be a public key as a file ending in .pub holds it: its type, its content, and if you like a comment."


@dataclass(frozen=True)
class PublicKey:
    """One public key. blob: its content in base64."""

    kind: str
    blob: str
    comment: str

    @property
    def text(self) -> str:
        """The key as one line."""
        return " ".join(part for part in (self.kind, self.blob, self.comment) if part)

    @property
    def fingerprint(self) -> str:
        """The fingerprint that ``ssh-keygen -l`` shows."""
        digest = hashlib.sha256(base64.b64decode(self.blob)).digest()
        return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def parse_authorized_keys(variable: str, value: object) -> tuple[PublicKey, ...]:
    """Return the different keys of *value*, a list or text with one a line, sorted.

    Raises InvalidInput with every problem. None of them repeats a value that may be a private key, or a line of one.
    """
    entries = _entries(variable, value)
    if any(isinstance(entry, str) and mark in entry for entry in entries for mark in _PRIVATE):
        raise InvalidInput.single(
            variable,
            HIDDEN,
            "This is a PRIVATE key, which nobody but its owner may have. Give the public key, which the file ending "
            "in .pub holds. It was given to no host; if it may stand in a log or a history now, make a new pair.",
        )
    problems: list[Problem] = []
    found: dict[str, PublicKey] = {}
    given = [entry for entry in entries if not _is_blank(entry)]
    for number, entry in enumerate(given):
        try:
            key = _parse_key(entry)
        except ValueError as error:
            problems.append(Problem(f"{variable}[{number}]", HIDDEN, str(error)))
        else:
            found.setdefault(key.blob, key)
    if not given:
        problems.append(Problem(variable, HIDDEN, "It holds no key. Give one, or leave the variable out."))
    if len(found) > MAXIMUM_KEYS:
        problems.append(Problem(variable, f"{len(found)} keys", f"There may be at most {MAXIMUM_KEYS}."))
    if problems:
        raise InvalidInput(problems)
    return tuple(sorted(found.values(), key=lambda key: (key.kind, key.blob)))


def _entries(variable: str, value: object) -> list[object]:
    """Return the lines of text, or the entries of a list and the lines of those that are text. Raises InvalidInput."""
    if isinstance(value, str):
        return list(value.splitlines())
    if isinstance(value, (list, tuple)):
        return [line for entry in value for line in (entry.splitlines() if isinstance(entry, str) else [entry])]
    raise InvalidInput.single(variable, HIDDEN, "It must be a list of public keys, or text with one a line.")


def _is_blank(entry: object) -> bool:
    """Tell whether an entry is a line without a key, or a comment."""
    return isinstance(entry, str) and (not entry.strip() or entry.strip().startswith("#"))


def _parse_key(entry: object) -> PublicKey:
    """Return the key of one line. Raises ValueError with a message that contains no more of it than its type."""
    if not isinstance(entry, str):
        raise ValueError(_FORM)
    kind, _space, rest = entry.strip().partition(" ")
    blob, _space, comment = rest.strip().partition(" ")
    comment = comment.strip()
    if kind not in TYPES:
        if any(known in rest for known in TYPES):
            raise ValueError("Options before the key are not taken. Begin with the key's type, such as ssh-ed25519.")
        hint = f"Keys of type {show(kind)} are not taken. " if kind.startswith(("ssh-", "ecdsa-", "sk-")) else ""
        raise ValueError(f"{hint or _FORM + ' '}Types are {', '.join(TYPES)}.")
    try:
        content = base64.b64decode(blob.encode("ascii"), validate=True)
        fields = list(_fields(content))
    except (ValueError, UnicodeEncodeError, binascii.Error):
        raise ValueError(f"The content of this {kind} key is cut off or damaged. {_FORM}") from None
    if not fields or fields[0] != kind.encode():
        raise ValueError(f"Its content is not that of a key of type {kind}. {_FORM}")
    _check_fields(kind, fields[1:])
    if len(comment) > MAXIMUM_COMMENT or not comment.isprintable():
        raise ValueError(f"The comment of a key has at most {MAXIMUM_COMMENT} characters, all of which can be printed.")
    return PublicKey(kind, base64.b64encode(content).decode(), comment)


def _fields(content: bytes) -> Iterator[bytes]:
    """Yield the strings that a key consists of (RFC 4251 section 5). Raises ValueError if one is cut off."""
    place = 0
    while place < len(content):
        length = int.from_bytes(content[place : place + 4], "big")
        field = content[place + 4 : place + 4 + length]
        if place + 4 > len(content) or len(field) < length:
            raise ValueError("cut off")
        yield field
        place += 4 + length


def _check_fields(kind: str, fields: list[bytes]) -> None:
    """Raise ValueError unless the fields after the type are those that a key of this type has."""
    if kind.startswith("sk-"):
        good = len(fields) > 1 and fields[-1].startswith(b"ssh:")  # the application of the key (PROTOCOL.u2f)
        fields = fields[:-1]
    else:
        good = True
    if "ed25519" in kind:
        good = good and [len(field) for field in fields] == [ED25519_BYTES]
    elif "ecdsa" in kind:
        curve = kind.partition("@")[0].rpartition("-")[2]
        # An uncompressed point: 4 and the two coordinates (SEC 1, 2.3.3).
        good = good and len(fields) == 2 and fields[0] == curve.encode()
        good = good and len(fields[1]) == 1 + 2 * CURVES[curve] and fields[1][0] == 4
    else:
        good = len(fields) == 2
        bits = int.from_bytes(fields[1], "big").bit_length() if good else LEAST_RSA_BITS
        if not LEAST_RSA_BITS <= bits <= MOST_RSA_BITS:
            raise ValueError(f"This RSA key has {bits} bits; {LEAST_RSA_BITS} to {MOST_RSA_BITS} are taken.")
    if not good:
        raise ValueError(f"Its content is not that of a key of type {kind}. {_FORM}")
