"""Time as an argument: the one place that reads the machine's clock or sleeps."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Wall time for what is stored, monotonic seconds for what is waited for."""

    def now(self) -> datetime:
        """The current time, aware, in UTC."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never steps back."""

    def sleep(self, seconds: float, wake: threading.Event | None = None) -> None:
        """Wait that long, or until `wake` is set."""


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float, wake: threading.Event | None = None) -> None:
        if wake is None:
            time.sleep(max(0.0, seconds))
        else:
            wake.wait(max(0.0, seconds))


class FixedClock:
    """A clock that stands still, for rules that are asked about another time."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._now.timestamp()

    def sleep(self, seconds: float, wake: threading.Event | None = None) -> None:
        raise RuntimeError("a fixed clock never sleeps: nothing that waits may be planned with it")


def parse_time(value: str | float) -> datetime:
    """An ISO 8601 time, or seconds since 1970, as aware UTC; without a zone it is taken as UTC (page 6).

    Raises `ValueError` for anything else.
    """
    if isinstance(value, int | float):
        return _from_seconds(value)
    parsed = datetime.fromisoformat(value)
    try:
        return (parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed).astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"a time outside the calendar: {value!r}") from error


def _from_seconds(seconds: float) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError) as error:
        raise ValueError(f"a time outside the calendar: {seconds!r}") from error


def format_time(moment: datetime) -> str:
    """RFC 3339 in UTC with a `Z`, with microseconds only where there are some."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def duration(seconds: float) -> str:
    """So long, in the two largest units that say something."""
    minutes = int(seconds // 60)
    days, hours = divmod(minutes // 60, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes % 60} min" if hours else f"{minutes} min"
