"""The events of turns that have ended: kept for those who come back to them, all together up to a bound."""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.server.runs import Run

MOST_HELD = 64 * 1024 * 1024
"""Characters, of all sessions."""


class Shelf:
    """Lets go of the events that have stood for the longest where there are too many. Used by one thread at a time."""

    def __init__(self, most: int = MOST_HELD) -> None:
        self._most = most
        self._runs: dict[Run, int] = {}
        """With how much each takes; the oldest first."""
        self._held = 0

    def put(self, run: Run) -> None:
        """One that has ended."""
        self._runs[run] = run.kept
        self._held += run.kept
        while self._held > self._most:
            oldest = next(iter(self._runs))
            self.take_off([oldest])
            oldest.let_go()

    def take_off(self, runs: Iterable[Run]) -> None:
        """Those that nobody can come back to any more."""
        for run in runs:
            self._held -= self._runs.pop(run, 0)
