"""The three limits of a turn: first byte, idle, whole turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from orchestrator.providers import Timeouts

Limit = Literal["first_byte", "idle", "turn"]


class Timers:
    """Says which limit has run out. Any line begins the waiting anew."""

    def __init__(self, limits: Timeouts, monotonic: Callable[[], float]) -> None:
        self._limits = limits
        self._monotonic = monotonic
        self._started = self._waiting_since = monotonic()

    def line_came(self, *, announced: float = 0.0) -> None:
        """A line came; the next may be `announced` seconds late, as the CLI says before it asks again."""
        self._waiting_since = self._monotonic() + announced

    def expired(self, *, answered: bool, tool_runs: bool) -> Limit | None:
        """The limit that has run out. While a tool runs, its silence is not the agent's, and only the whole turn is limited."""
        now = self._monotonic()
        which: Limit = "idle" if answered else "first_byte"
        silence = self._limits.idle if answered else self._limits.first_byte
        if self._limits.turn is not None and now - self._started > self._limits.turn:
            return "turn"
        if silence is not None and not tool_runs and now - self._waiting_since > silence:
            return which
        return None

    def seconds(self, which: Limit) -> float | None:
        """The limit itself."""
        return {"first_byte": self._limits.first_byte, "idle": self._limits.idle, "turn": self._limits.turn}[which]

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """While a question is open, no limit runs (page 5)."""
        before = self._monotonic()
        try:
            yield
        finally:
            passed = self._monotonic() - before
            self._started += passed
            self._waiting_since += passed
