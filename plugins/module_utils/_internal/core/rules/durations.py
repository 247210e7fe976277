# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""How long a session may run, and how long without use: what a host remembers of its part, and what follows from it.

A host checks its part periodically, and measures the time between two checks by its own clock since boot. Time during
which it was down does not count, and the calendar clock does not matter. So a reboot ends no session early, and
repeated reboots prolong a session by no more than the time the host was down. In a session on several hosts each host
measures the time of its own part.

Annotations are types here, not text, as the decoder reads them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Optional

from ..model.times import Counters, Limits, PartTimes, Sample, Times
from ..values.parse import format_span

IDLE_CPU = 0.05
"""CPUs that a replica may use and still count as idle: interpreters that wait, and the keep-alives of frameworks."""
IDLE_TRAFFIC = 128.0
"""Bytes a second, in and out, that a replica may transfer on its network and still count as idle."""
SHORTEST_LOOK = 10.0
"""Seconds between two checks below which a rate means nothing."""
LONGEST_LOOK = 900.0
"""Seconds after which a check proves nothing about the time before it: the mean would hide a short use."""
BETWEEN_LOOKS = 60.0
"""Seconds between two checks at most while the host's timer runs, which it does each minute with cron."""

NOT_ASKED = PartTimes()
"""A part whose times were not requested."""


def limits_of(request: Optional[Mapping[str, Any]]) -> Limits:
    """Return the limits in the stored form of a request; a record of an earlier release has none."""
    keys = ("max_duration", "max_idle", "end_warning")
    return Limits(*(request.get(key) for key in keys)) if request is not None else Limits()


def after_look(before: Optional[Times], sample: Sample) -> Times:
    """Return the times that a host stores after a check; whatever is not known counts as use."""
    if before is None:
        return Times(sample.boot, sample.clock, sample.started, 0.0, sample.replicas or {})
    if before.boot != sample.boot:
        # Its programs have started again with the boot.
        ran = before.ran + min(sample.clock, sample.started)
        return replace(_seen(before, sample), ran=ran, idle=0.0)
    elapsed = max(0.0, sample.clock - before.clock)
    if sample.in_use or elapsed > LONGEST_LOOK:
        return replace(_seen(before, sample), ran=before.ran + elapsed, idle=0.0)
    if elapsed < SHORTEST_LOOK:
        return before
    idle = before.idle + elapsed if _is_idle(before.replicas, sample.replicas, elapsed) else 0.0
    return replace(_seen(before, sample), ran=before.ran + elapsed, idle=idle)


def _seen(before: Times, sample: Sample) -> Times:
    return replace(before, boot=sample.boot, clock=sample.clock, replicas=sample.replicas or {})


def _is_idle(before: Mapping[str, Counters], now: Optional[Mapping[str, Counters]], elapsed: float) -> bool:
    """Tell whether no replica did anything worth mentioning; one that was started or restarted since then did."""
    if now is None:
        return False
    return all(
        name in before
        and 0 <= counters.cpu - before[name].cpu <= IDLE_CPU * elapsed
        and 0 <= counters.traffic - before[name].traffic <= IDLE_TRAFFIC * elapsed
        for name, counters in now.items()
    )


def over(limits: Limits, times: Times) -> str:
    """Return why the time of a part is over, a sentence; empty before that, and before its programs were warned."""
    if limits.max_duration is None or times.ran < limits.max_duration or not _was_warned(limits, times):
        return ""
    return f"Its session_max_duration of {format_span(limits.max_duration)} is over."


def is_idle(limits: Limits, times: Times) -> bool:
    """Tell whether a part has been unused for so long that it may end, after the warning."""
    return limits.max_idle is not None and times.idle >= limits.max_idle and _was_warned(limits, times)


def why_idle(limits: Limits) -> str:
    """Return why an unused session ends, a sentence."""
    return f"Nobody has used it for {format_span(limits.max_idle or 0)}, its session_max_idle."


def _was_warned(limits: Limits, times: Times) -> bool:
    return limits.end_warning is None or (times.warned is not None and times.ran - times.warned >= limits.end_warning)


def warning(limits: Limits, times: Times) -> Optional[tuple[int, str]]:
    """Return in how many seconds a part may end, and why, if its programs are to be warned; None if it is too early.

    The warning comes early enough for its whole time to pass whenever the next check is. If the warning is late, the
    programs still get its whole time.
    """
    if limits.end_warning is None:
        return None
    ends = []
    if limits.max_duration is not None:
        ends.append((limits.max_duration - times.ran, f"session_max_duration is {format_span(limits.max_duration)}"))
    if limits.max_idle is not None:
        ends.append((limits.max_idle - times.idle, f"session_max_idle is {format_span(limits.max_idle)}"))
    left, why = min(ends, default=(0.0, ""))
    if not ends or left > limits.end_warning + BETWEEN_LOOKS:
        return None
    since = 0.0 if times.warned is None else times.ran - times.warned
    return max(0, round(max(left, limits.end_warning - since))), why


def why_over(request: Mapping[str, Any], parts: Iterable[Optional[PartTimes]]) -> str:
    """Return why a running session is to end now, a sentence; empty if it is not.

    parts: the report of each of its hosts; None for a host that reports nothing. Its run time is over if any host
    reports that. It is idle only if all hosts report that: an unreachable host may be at work.
    """
    known = list(parts)
    reasons = [part.over for part in known if part is not None and part.over]
    if reasons:
        return reasons[0]
    return why_idle(limits_of(request)) if known and all(part is not None and part.is_idle for part in known) else ""


def describe(limits: Limits, part: PartTimes = NOT_ASKED) -> str:
    """Return in words the limits of a session, and how much of them has passed; empty if it has no limits.

    part: of the whole session.
    """
    parts = []
    if limits.max_duration is not None:
        parts.append(f"{format_span(limits.max_duration)} after its start")
    if limits.max_idle is not None:
        parts.append(f"after {format_span(limits.max_idle)} without use")
    if not parts:
        return ""
    hint = "" if limits.end_warning is None else f", its programs being warned {format_span(limits.end_warning)} before"
    so_far = "" if part.ran is None else f"; it has run for {format_span(part.ran)}"
    if part.idle is not None and limits.max_idle is not None:
        so_far += f"; not used for {format_span(part.idle)}"
    return f"{' or '.join(parts)}{hint}{so_far}"


def together(parts: Iterable[Optional[PartTimes]]) -> PartTimes:
    """Combine the reports of a session's hosts; the session is not idle if any part is in use."""
    known = list(parts)
    ran = [part.ran for part in known if part is not None and part.ran is not None]
    idle = [part.idle if part is not None else None for part in known]
    spans = [seconds for seconds in idle if seconds is not None]
    return PartTimes(ran=max(ran, default=None), idle=min(spans) if spans and len(spans) == len(idle) else None)
