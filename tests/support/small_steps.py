# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What goes on by one small thing after another, so that others can do something between any two of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

NOW = threading.local()
"""host: the host that the thread works on. steps: those that it is. secret: of the run that asks the host. prepared:
the commands that are ready to run there."""


class Killed(BaseException):
    """Nobody goes on with this; no program catches it."""


class Steps:
    """A function that goes on by one small thing when it is told to, in a thread of its own."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._go, self._rest = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._is_killed = self._is_over = False
        self._value: Any = None
        self._error: BaseException | None = None

    def _run(self) -> None:
        NOW.steps = self
        try:
            self._value = self._function()
        except BaseException as error:
            self._error = error
        self._is_over = True
        self._rest.release()

    def rest(self) -> None:
        """Wait, in its thread, until it is told to go on. Raises Killed where it never will be."""
        self._rest.release()
        self._go.acquire()
        if self._is_killed:
            raise Killed

    def step(self) -> bool:
        """Go on by one thing and tell whether there is more. Raises what the function raises."""
        if self._thread.ident is None:
            self._thread.start()
        else:
            self._go.release()
        self._rest.acquire()
        if self._error is not None:
            raise self._error
        return not self._is_over

    def kill(self) -> None:
        """End it where it is."""
        if self._thread.ident is not None and not self._is_over:
            self._is_killed = True
            self._go.release()
            self._thread.join()

    def finish(self) -> Any:
        """Go to the end, and return what the function returns."""
        while self.step():
            pass
        return self._value

    @property
    def result(self) -> Any:
        """What the function has returned."""
        assert self._is_over
        return self._value


def rest(_seconds: float = 0) -> None:
    """Let others do something, where this goes on by small things."""
    steps = getattr(NOW, "steps", None)
    if steps is not None:
        steps.rest()
