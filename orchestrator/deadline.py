"""When the time of a turn is up: the clock stands still while a human is asked (page 5)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from orchestrator.clock import Clock
from orchestrator.providers import Answer, Ask, Question


class Deadline:
    """The end of one turn, in the clock's monotonic time. May be used by several threads."""

    def __init__(self, clock: Clock, seconds: float | None) -> None:
        self._clock = clock
        self._until = None if seconds is None else clock.monotonic() + seconds
        self._asking_since: float | None = None
        self._one_at_a_time = threading.Lock()

    @property
    def at(self) -> float | None:
        """As it is by now; `None` for no limit."""
        return self._until

    def left(self) -> float | None:
        """Seconds, none or fewer when it is over; `None` for no limit."""
        if self._until is None:
            return None
        since = self._asking_since
        return self._until - (self._clock.monotonic() if since is None else since)

    def asking(self, ask: Ask) -> Ask:
        """The broker, with the clock standing still as long as it takes; one question after the other."""

        def asked(question: Question) -> Answer:
            with self._one_at_a_time, self._standing_still():
                return ask(question)

        return asked

    @contextmanager
    def _standing_still(self) -> Iterator[None]:
        self._asking_since = began = self._clock.monotonic()
        try:
            yield
        finally:
            if self._until is not None:
                self._until += self._clock.monotonic() - began
            self._asking_since = None
