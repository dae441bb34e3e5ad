"""One call, made in a thread of its own under timers of ours, that can be stopped at any point within two seconds."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from orchestrator.errors import TimedOut
from orchestrator.providers import Cancel, Timeouts

if TYPE_CHECKING:
    from escalera_bedrock.wire import Stop

GRACE = 2.0
"""Seconds for the metadata once the message has ended."""
_JOIN = 2.0

Which = Literal["first_byte", "idle", "turn"]
StreamEvent = Mapping[str, Any]

OPENED: StreamEvent = {}
"""What a call gives first, when it was accepted and its answer begins; by identity."""


class Exchange:
    """Makes a call and gives its events.

    A context manager; leaving it frees the socket and the thread. `events` raises `TimedOut` and `Cancelled`; what the
    call itself raises is in `failed` once it has ended.
    """

    def __init__(self, call: Callable[[Stop], Iterator[StreamEvent]], timeouts: Timeouts, cancel: Cancel, *, where: str) -> None:
        from escalera_bedrock.wire import Stop

        self._call = call
        self._timeouts = timeouts
        self._cancel = cancel
        self._where = where
        self._stop = Stop()
        self._items: queue.SimpleQueue[StreamEvent | Exception | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._read, name="escalera-bedrock", daemon=True)
        self._forget: Callable[[], None] = lambda: None
        self._started = self._heard = time.monotonic()
        self._first = True
        self._grace: float | None = None
        self.opened = False
        """Whether the call was accepted: what fails from then on is the answer."""
        self.failed: Exception | None = None
        """What ended the call, if not its own end."""

    def __enter__(self) -> Self:
        self._cancel.raise_if_set()
        self._forget = self._cancel.on_cancel(self._wake)
        self._started = self._heard = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._forget()
        self._stop.now()
        self._thread.join(_JOIN)

    def events(self) -> Iterator[StreamEvent]:
        """The events as they come, until they end or break, or until the grace is over."""
        while True:
            item = self._next()
            if item is OPENED:
                self.opened = True
            elif item is None or isinstance(item, Exception):
                self.failed = item
                return
            else:
                self._first = False
                yield item

    def complete(self) -> None:
        """Say that all that matters has come: from now on only a short grace is waited for the rest."""
        if self._grace is None:
            self._grace = time.monotonic() + GRACE

    def timed_out(self) -> TimedOut:
        """The timer that a library's own time-out stands for."""
        return _timed_out("first_byte" if self._first else "idle", self._where, self._timeouts)

    # -- the waiting side

    def _next(self) -> StreamEvent | Exception | None:
        limit, which = self._limit()
        left = None if limit is None else limit - time.monotonic()
        try:
            if left is not None and left <= 0 and which in ("turn", None):
                raise queue.Empty  # these two end a stream that never pauses as well
            item = self._items.get(timeout=None if left is None else max(0.0, left))
        except queue.Empty:
            self._cancel.raise_if_set()
            if which is None:
                return None
            raise _timed_out(which, self._where, self._timeouts) from None
        self._cancel.raise_if_set()
        self._heard = time.monotonic()
        return item

    def _limit(self) -> tuple[float | None, Which | None]:
        """The moment at which the wait is over, and by which timer; `None` names the grace."""
        if self._grace is not None:
            return self._grace, None
        limits: list[tuple[float, Which]] = []
        if self._first and self._timeouts.first_byte is not None:
            limits.append((self._started + self._timeouts.first_byte, "first_byte"))
        elif not self._first and self._timeouts.idle is not None:
            limits.append((self._heard + self._timeouts.idle, "idle"))
        if self._timeouts.turn is not None:
            limits.append((self._started + self._timeouts.turn, "turn"))
        return min(limits, default=(None, None))

    def _wake(self) -> None:
        self._stop.now()
        self._items.put(None)

    # -- the reading thread

    def _read(self) -> None:
        try:
            for event in self._call(self._stop):
                self._items.put(event)
        except Exception as error:  # carried over to the waiting side, which explains it
            self._items.put(error)
        else:
            self._items.put(None)


def _timed_out(which: Which, where: str, timeouts: Timeouts) -> TimedOut:
    seconds = {"first_byte": timeouts.first_byte, "idle": timeouts.idle, "turn": timeouts.turn}[which]
    what = {"first_byte": "sent nothing", "idle": "fell silent in the middle of its answer", "turn": "did not finish its answer"}[which]
    span = "" if seconds is None else f" for {seconds:g} seconds"
    return TimedOut(f"{where} {what}{span}.", which=which, hint=f"Raise the agent's {which}_timeout if it needs longer.")
