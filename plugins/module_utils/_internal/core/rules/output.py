# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The output of replicas and jobs: read from the engine's stream, selected, merged by time, shown.

A line is (time, stream, text). Times are those of the engine that received the line, in UTC with nanoseconds and always
of the same length, so that they sort as text.
"""

from __future__ import annotations

import datetime
import re
import struct
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..model.output import LogsRequest, Since, Source
from ..model.record import is_session_id
from ..values.errors import InvalidInput
from ..values.parse import SPAN, Reader, Readers, is_plain, parse_bool, parse_integer, seconds_of
from ..values.resources import parse_memory

OUT, ERR = "out", "err"
_STREAMS = {1: OUT, 2: ERR}
_HEADER = struct.Struct(">BxxxL")
"""Stream and length before each message (Docker Engine API, ContainerAttach, "Stream format")."""

LONGEST_LINE = 64 * 1024
"""Bytes of a line that are kept; the number of further bytes is shown."""

Line = tuple[str, str, str]

JOB_ID = re.compile(r"[0-9a-f]{12}")
_REPLICA = re.compile(r"[a-z][a-z0-9-]{0,20}")
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")

NO_JOB = "none"
"""Used in place of the id of a job for output that no job wrote."""
BATCH = "batch"
"""Used in place of the id of a job for the batch command of a session."""
MERGED = "merged"
"""Name of the file with the lines of all replicas; it cannot be a replica's name, as it has no number."""
LARGEST_SIZE = 64 * 1024**2
LONGEST_FOLLOW = 24 * 3600
MOST_LINES = 10**9


def time_of(nanoseconds: int) -> str:
    """Return nanoseconds since 1970 as the time of a line."""
    seconds, rest = divmod(nanoseconds, 10**9)
    moment = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


def nanoseconds_of(time: str) -> int:
    """Return the time of a line as nanoseconds since 1970. Raises ValueError for a malformed time."""
    whole, _dot, fraction = time.rstrip("Z").partition(".")
    moment = datetime.datetime.strptime(whole, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=datetime.timezone.utc)
    return int(moment.timestamp()) * 10**9 + int(f"{fraction:0<9}"[:9])


def decode(raw: bytes, beyond: int = 0) -> str:
    """Return a line's bytes as text, those that are not UTF-8 as ``\\xff``; beyond: number of bytes cut off."""
    text = raw.decode("utf-8", "backslashreplace")
    return text if not beyond else f"{text} ... (cut, {beyond} more bytes)"


class LineReader:
    """Turns an engine's log with time stamps into lines, from where an earlier reader stopped.

    The engine cuts what it stores at 16 KiB; such pieces are put together again, per stream.
    """

    def __init__(self, position: Mapping[str, Any] | None = None) -> None:
        """Continue at *position*, which `position` of an earlier reader returned."""
        self._buffer = bytearray()
        self._time = str((position or {}).get("time", ""))
        self._count = int((position or {}).get("count", 0))
        self._skip = (self._time, self._count)
        self._open: dict[str, tuple[str, bytearray, int]] = {
            stream: (time, bytearray(text.encode("utf-8", "surrogateescape")), beyond)
            for stream, (time, text, beyond) in (position or {}).get("open", {}).items()
        }

    @property
    def since(self) -> str:
        """The time from which on the engine has to be asked; empty for all."""
        return self._skip[0]

    def position(self) -> dict[str, Any]:
        """Return where this reader stands, as plain data."""
        return {
            "time": self._time,
            "count": self._count,
            "open": {
                stream: [time, raw.decode("utf-8", "surrogateescape"), beyond]
                for stream, (time, raw, beyond) in self._open.items()
            },
        }

    def feed(self, chunk: bytes) -> Iterator[Line]:
        """Take the next bytes of the engine's stream and yield the lines that they complete."""
        self._buffer += chunk
        place = 0
        while len(self._buffer) - place >= _HEADER.size:
            stream, length = _HEADER.unpack_from(self._buffer, place)
            end = place + _HEADER.size + length
            if len(self._buffer) < end:
                break
            line = self._message(_STREAMS.get(stream, OUT), bytes(self._buffer[place + _HEADER.size : end]))
            place = end
            if line is not None:
                yield line
        del self._buffer[:place]

    def _message(self, stream: str, message: bytes) -> Line | None:
        stamp, _blank, raw = message.partition(b" ")
        time = stamp.decode("ascii", "replace")
        if self._is_known(time):
            return None
        begin, text, beyond = self._open.pop(stream, (time, bytearray(), 0))
        ended = raw.endswith(b"\n")
        piece = raw[:-1] if ended else raw
        remaining = LONGEST_LINE - len(text)
        text += piece[:remaining]
        beyond += max(0, len(piece) - remaining)
        if not ended:
            self._open[stream] = (begin, text, beyond)
            return None
        return begin, stream, decode(bytes(text), beyond)

    def _is_known(self, time: str) -> bool:
        """Count the message, and tell whether an earlier reader has read it."""
        known_time, known = self._skip
        if known and time == known_time:
            self._skip = (known_time, known - 1)
            return True
        if time < known_time:
            return True
        if time > self._time:  # the streams get their time stamps independently, so an older one may come later
            self._time, self._count = time, 0
        self._count += time == self._time
        return False


class LineCutter:
    """Turns what a program writes to one stream into lines, each with the time at which it began to arrive."""

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._time = ""
        self._text = bytearray()
        self._beyond = 0

    def feed(self, chunk: bytes, time: str) -> list[Line]:
        """Take the next bytes, which arrived at *time*, and return the lines that they complete."""
        *whole, rest = chunk.split(b"\n")
        lines = []
        for piece in whole:
            self._take(piece, time)
            lines += self._cut()
        if rest:
            self._take(rest, time)
        return lines

    def end(self) -> list[Line]:
        """Return the text after the last end of a line, if there is any."""
        return self._cut() if self._time else []

    def _take(self, piece: bytes, time: str) -> None:
        self._time = self._time or time
        remaining = LONGEST_LINE - len(self._text)
        self._text += piece[:remaining]
        self._beyond += max(0, len(piece) - remaining)

    def _cut(self) -> list[Line]:
        line = (self._time, self._stream, decode(bytes(self._text), self._beyond))
        self._time, self._text, self._beyond = "", bytearray(), 0
        return [line]


def stored(line: Line) -> str:
    """Return a line in the form in which files of the hosts store it."""
    time, stream, text = line
    return f"{time} {stream} {text}\n"


def read_stored(text: str) -> Line | None:
    """Read a line of such a file; None for a malformed line, such as one that was written only in part."""
    time, _blank, rest = text.rstrip("\n").partition(" ")
    stream, _blank, line = rest.partition(" ")
    return (time, stream, line) if stream in (OUT, ERR) else None


class Selection:
    """The requested lines of one replica, the newest ones if there are too many.

    since: time of the earliest line; empty for all. tail: how many of them; None for all. size: most bytes.
    """

    def __init__(self, since: str = "", tail: int | None = None, size: int = LARGEST_SIZE) -> None:
        self.since = since
        self._tail = tail
        self._size = size
        self._held = 0
        self.lines: deque[Line] = deque()
        self.left_out = 0

    def add(self, line: Line) -> None:
        """Add a line if it is requested."""
        if line[0] < self.since:
            return
        self.lines.append(line)
        self._held += len(line[2]) + 1
        if self._tail is not None and len(self.lines) > self._tail:
            self._drop()
        while self._held > self._size and self.lines:
            self._drop()
            self.left_out += 1

    def _drop(self) -> None:
        self._held -= len(self.lines.popleft()[2]) + 1


def rank_order(replica: str) -> tuple[bool, str, int, str]:
    """Return the sort key of replicas: main1 first, then by role and number."""
    match = re.fullmatch(r"(.*?)(\d+)", replica)
    role, number = (match.group(1), int(match.group(2))) if match else (replica, 0)
    return role != "main", role, number, replica


def merge(sources: Iterable[Source]) -> list[tuple[str, str, str, str]]:
    """Return the lines of all sources as (time, speaker, stream, text), by time, then replica, then as written."""
    ordered = sorted(sources, key=lambda source: (rank_order(source.replica), source.job))
    lines = [(line[0], speaker(source), line[1], line[2]) for source in ordered for line in source.lines]
    return sorted(lines, key=lambda line: line[0])


def files_of(sources: Iterable[Source], lines: Iterable[tuple[str, str, str, str]]) -> dict[str, str]:
    """Return the files for sources, name to text: one of each replica and job, and one of all, merged *lines*."""
    found = {MERGED: [f"{time} {name} {stream} {text}" for time, name, stream, text in lines]}
    for source in sources:
        name = f"{source.replica}.{source.job}" if source.job else source.replica
        found.setdefault(name, []).extend(f"{time} {stream} {text}" for time, stream, text in source.lines)
    return {f"{name}.log": "".join(f"{line}\n" for line in lines) for name, lines in found.items()}


def speaker(source: Source) -> str:
    """Return the writer of the lines of a source: the replica, or a job in it."""
    return f"{source.replica}/{source.job}" if source.job else source.replica


def shown(source: str, width: int, stream: str, text: str, time: str = "") -> str:
    """Return a line in the form for terminals: ``who | text``, ``who ! text`` for standard error.

    Programs must not control the terminal: colours are left out, other control characters are escaped.
    """
    mark = "!" if stream == ERR else "|"
    plain = _COLOUR.sub("", text).rstrip("\r")
    plain = "".join(c if c.isprintable() or c == "\t" else c.encode("unicode_escape").decode("ascii") for c in plain)
    return f"{time + ' ' if time else ''}{source:<{width}} {mark} {plain}".rstrip()


def parse_logs_request(variables: Mapping[str, Any]) -> LogsRequest:
    """Return the request in the ``logs_`` variables. Raises InvalidInput with all problems."""
    readers: Readers = {
        "session_id": _session_id,
        "replicas": parse_replicas,
        "job": _job,
        "since": parse_since,
        "tail": lambda name, value: parse_integer(name, value, 0, MOST_LINES),
        "grep": _grep,
        "size": _size,
        "follow_seconds": lambda name, value: parse_integer(name, value, 0, LONGEST_FOLLOW),
        "timestamps": parse_bool,
        "directory": _directory,
    }
    reader = Reader()
    refuse_misspelt(reader, variables, "logs_", readers)
    return reader.finish(LogsRequest(**reader.each("logs_", readers, variables)))


def refuse_misspelt(reader: Reader, variables: Iterable[str], prefix: str, known: Iterable[str]) -> None:
    """Record a problem for each variable that is nearly one of *known*: nothing else uses such a name."""
    names = [prefix + key for key in known]
    for name in sorted(variables):
        if name.startswith(prefix) and name not in names:
            import difflib  # not needed where nothing is wrong

            near = difflib.get_close_matches(name, names, 1, 0.8)
            if near:
                reader.add(name, "given", f"There is no such variable. Did you mean {near[0]}?")


def batch_job(session_id: str) -> str:
    """Return the id of the job that is a session's batch command."""
    return session_id.replace("-", "")[:12]


def _session_id(variable: str, value: object) -> str:
    if not is_session_id(value):
        raise InvalidInput.single(variable, value, "It must be the id of a session, a UUID.")
    return str(value)


def parse_replicas(variable: str, value: object) -> tuple[str, ...]:
    """Return names of replicas: a list, or text with commas or blanks between them. Raises InvalidInput."""
    words = re.split(r"[\s,]+", value.strip()) if isinstance(value, str) else value
    if not isinstance(words, (list, tuple)) or not all(
        isinstance(word, str) and _REPLICA.fullmatch(word) for word in words
    ):
        raise InvalidInput.single(variable, value, "It must be a list of names of replicas, such as main1,sub2.")
    return tuple(sorted(set(words), key=rank_order))


def _job(variable: str, value: object) -> str:
    if value not in (NO_JOB, BATCH) and (not isinstance(value, str) or JOB_ID.fullmatch(value) is None):
        allowed = f"It must be the id of a job, as run_job tells it, {BATCH} for a batch command, or {NO_JOB}."
        raise InvalidInput.single(variable, value, allowed)
    return str(value)


def parse_since(variable: str, value: object) -> Since:
    """Return a moment: a span before now such as ``90s``, ``1h30m``, ``2d``, or a date with or without time, in UTC.

    Raises InvalidInput.
    """
    allowed = "Give a span such as 90s, 15m, 1h30m or 2d, or a time such as 2026-01-31T12:00:00Z (UTC without a zone)."
    text = str(value).strip() if not isinstance(value, bool) else ""
    match = SPAN.fullmatch(text)
    if text and match is not None:
        return Since(seconds_of(match))
    try:
        moment = datetime.datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", text))
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=datetime.timezone.utc)
        return Since(time=time_of(int(moment.timestamp() * 10**6) * 1000))
    except (ValueError, OverflowError, OSError) as error:
        raise InvalidInput.single(variable, value, allowed) from error


def _grep(variable: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput.single(variable, value, "It must be a regular expression, as text.")
    try:
        re.compile(value)
    except (re.error, RecursionError, OverflowError) as error:
        raise InvalidInput.single(variable, value, f"It is not a valid Python regular expression: {error}.") from error
    return value


def _size(variable: str, value: object) -> int:
    try:
        size = parse_memory(value, 1)
    except ValueError as error:
        raise InvalidInput.single(variable, value, str(error)) from error
    if size > LARGEST_SIZE:
        raise InvalidInput.single(variable, value, "It must be at most 64m: it passes through the controller's memory.")
    return size


def parse_keep_size(value: object) -> int:
    """Return ``cluster_compute_output_size`` in bytes, 0 to keep nothing. Raises InvalidInput."""
    try:
        return 0 if str(value).strip() == "0" else parse_memory(value, 1)
    except ValueError as error:
        raise InvalidInput.single("cluster_compute_output_size", value, f"{error} 0 keeps nothing.") from error


def _directory(variable: str, value: object) -> str:
    if not isinstance(value, str) or not is_plain(value):
        raise InvalidInput.single(variable, value, "It must be the path of a folder on the controller.")
    return value.strip()
