"""When a server that nobody uses ends (page 5: idle, without a ceiling)."""

from __future__ import annotations

from collections.abc import Callable


class Idleness:
    """Since when there was no request. `monotonic` gives seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._last = monotonic()
        self.open = 0
        """Requests whose answer is not at its end: open streams are among them."""

    def begins(self) -> None:
        """A request has come."""
        self.open += 1
        self._last = self._monotonic()

    def ends(self) -> None:
        """Its answer is at its end."""
        self.open -= 1
        self._last = self._monotonic()

    def is_over(self, limit: float, *, is_needed: Callable[[], bool]) -> bool:
        """Whether the server may end: for `limit` seconds (0 = never) there was no request, none is open, and nothing needs it.

        `is_needed` is asked last: it may look into the store.
        """
        return limit > 0 and not self.open and self._monotonic() - self._last >= limit and not is_needed()
