"""A clock that is set by hand, and ids that count up: for tests in which neither time nor chance decides anything."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
"""The time at which such a clock begins, unless it is told another."""


class HandClock:
    """Wall time moves when it is set; sleeping takes only monotonic seconds, which are kept in `slept`."""

    def __init__(self, at: datetime = START) -> None:
        self.at = at
        self.seconds = 0.0
        self.slept: list[float] = []
        self.on_sleep: Callable[[], object] = lambda: None
        """Called in each sleep: what happens meanwhile."""

    def now(self) -> datetime:
        """The time that was set."""
        return self.at

    def monotonic(self) -> float:
        """The seconds that were slept."""
        return self.seconds

    def sleep(self, seconds: float, wake: threading.Event | None = None) -> None:
        """Be there at once."""
        self.slept.append(seconds)
        self.seconds += seconds
        self.on_sleep()

    def advance(self, **of: float) -> None:
        """Move wall time on, by what `timedelta` takes: `advance(hours=2)`."""
        self.at += timedelta(**of)


def counted_ids(prefix: str = "id") -> Callable[[], str]:
    """A function that gives `id-1`, `id-2` and so on."""
    numbers = itertools.count(1)
    return lambda: f"{prefix}-{next(numbers)}"


__all__ = ["START", "HandClock", "counted_ids"]
