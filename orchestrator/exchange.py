"""One call under timers of ours, that can be stopped at any point within two seconds (page 7).

For providers: `Timers` are those of a call. `Reading` takes its items in the turn's own thread, where whatever blocks asks a `Watch` how long it may.
An `Exchange` is for a client library that cannot be told: it blocks in a thread of its own, and the turn's thread only waits for the next item.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Generic, Literal, Self, TypeVar

from orchestrator.errors import ProviderError, TimedOut
from orchestrator.providers import Cancel, Event, Stop, TextDelta, Timeouts

GRACE = 2.0
"""Seconds for usage and end marker once the answer is complete."""
_JOIN = 2.0
_LEAST = 0.001
"""Seconds for taking what is there already."""

Which = Literal["first_byte", "idle", "turn"]
_ENDLESS: tuple[Which | None, ...] = ("turn", None)
"""The timer and the grace that end a stream which never pauses as well."""
Item = TypeVar("Item")


class Timers:
    """How long a call may still be waited for: the first byte from its start on, each further item from the last one on, the whole turn."""

    def __init__(self, timeouts: Timeouts, where: str) -> None:
        self._timeouts, self._where = timeouts, where
        self._started = self._heard = time.monotonic()
        self._first = True
        self._grace: float | None = None

    def start(self) -> None:
        """The call begins now."""
        self._started = self._heard = time.monotonic()

    def heard(self, *, begins: bool = True) -> None:
        """Something came, with which the answer has begun or not: from then on silence is `idle`, until then `first_byte`."""
        self._heard = time.monotonic()
        self._first = self._first and not begins

    def listen(self) -> None:
        """Silence counts from now on: until now nobody listened."""
        self._heard = time.monotonic()

    def complete(self) -> None:
        """Say that all that matters has come: from now on only a short grace is waited for the rest."""
        if self._grace is None:
            self._grace = time.monotonic() + GRACE

    def go_on(self) -> None:
        """Take `complete` back, since more came: from now on the usual limits hold again."""
        self._grace = None

    def limit(self) -> tuple[float | None, Which | None]:
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

    def error(self, which: Which | None = None, happened: str = "") -> TimedOut:
        """The error of a timer; without its name, of the one that watches over silence now. `happened` says what took so long, if not the server."""
        which = which or ("first_byte" if self._first else "idle")
        seconds = {"first_byte": self._timeouts.first_byte, "idle": self._timeouts.idle, "turn": self._timeouts.turn}[which]
        what = {"first_byte": "sent nothing", "idle": "fell silent in the middle of its answer", "turn": "did not finish its answer"}[which]
        span = "" if seconds is None else f" for {seconds:g} seconds"
        return TimedOut(f"{happened or f'{self._where} {what}'}{span}.", which=which, hint=f"Raise the agent's {which}_timeout if it needs longer.")


class Watch:
    """How long what blocks in a call may take, and what ends it before."""

    def __init__(self, stop: Stop) -> None:
        self.stop = stop
        self._until: float | None = None
        self._asked = False

    def wait_until(self, moment: float | None) -> None:
        """For the next item."""
        self._until, self._asked = moment, False

    def is_over(self) -> bool:
        """Whether no more may be waited for."""
        return self._until is not None and time.monotonic() >= self._until - _LEAST

    def left(self) -> float | None:
        """Seconds for what blocks now; what is there already is taken in any case.

        Raises `TimeoutError` where a part that came has used them up, `Stopped`.
        """
        self.stop.raise_if_stopped()
        if self._until is None:
            return None
        left = self._until - time.monotonic()
        if left <= 0 and self._asked:
            raise TimeoutError
        self._asked = True
        return max(left, _LEAST)


class Reading(Generic[Item]):
    """Takes items whose coming blocks, by the `watch` that they keep to. `timed_out` are the errors with which a wait ends that took too long."""

    def __init__(
        self,
        items: Iterator[Item],
        timers: Timers,
        watch: Watch,
        cancel: Cancel,
        *,
        begins: Callable[[Item], bool],
        timed_out: tuple[type[Exception], ...],
    ) -> None:
        self._items, self._timers, self._watch, self._cancel = items, timers, watch, cancel
        self._begins, self._timed_out = begins, timed_out

    def next(self) -> Item | None:
        """The next item; `None` behind the last one, and once the grace is over. Raises `TimedOut`, `Cancelled`, and what the items raise."""
        self._timers.listen()
        until, which = self._timers.limit()
        self._watch.wait_until(until)
        try:
            if which in _ENDLESS and self._watch.is_over():
                raise TimeoutError
            item = next(self._items, None)
        except Exception as error:
            self._cancel.raise_if_set()
            if not isinstance(error, self._timed_out) or not self._watch.is_over():
                raise
            if which is not None:
                raise self._timers.error(which, str(error) if type(error) is TimeoutError else "") from None
            return None
        self._cancel.raise_if_set()
        if item is not None:
            self._timers.heard(begins=self._begins(item))
        return item


class Exchange(Generic[Item]):
    """Runs `work` and gives its items. A context manager: leaving it lets go of everything that `work` told its `Stop`.

    `begins` says of an item whether the answer has begun with it.
    """

    def __init__(
        self, work: Callable[[Stop], Iterator[Item]], timeouts: Timeouts, cancel: Cancel, *, where: str, name: str, begins: Callable[[Item], bool]
    ) -> None:
        self._work, self._cancel, self._begins = work, cancel, begins
        self.timers = Timers(timeouts, where)
        self._stop = Stop()
        self._items: queue.SimpleQueue[Item | Exception | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._read, name=name, daemon=True)
        self._forget: Callable[[], None] = lambda: None
        self._over = False
        self._end: Exception | None = None

    def __enter__(self) -> Self:
        self._cancel.raise_if_set()
        self._forget = self._cancel.on_cancel(self._wake)
        self.timers.start()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._forget()
        self._forget = lambda: None  # it has us, too
        self._stop.now()
        self._thread.join(_JOIN)

    def next(self) -> Item | Exception | None:
        """The next item; behind the last one, however often, the error that ended the work, or `None` for its own end. `None` also once the grace is over.

        Raises `TimedOut`, `Cancelled`.
        """
        if self._over:
            return self._end
        limit, which = self.timers.limit()
        left = None if limit is None else limit - time.monotonic()
        try:
            if left is not None and left <= 0 and which in _ENDLESS:
                raise queue.Empty
            item = self._items.get(timeout=None if left is None else max(0.0, left))
        except queue.Empty:
            self._cancel.raise_if_set()
            if which is None:
                return None
            raise self.timers.error(which) from None
        self._cancel.raise_if_set()
        if item is None or isinstance(item, Exception):
            self._over, self._end = True, item
        else:
            self.timers.heard(begins=self._begins(item))
        return item

    def _wake(self) -> None:
        self._stop.now()
        self._items.put(None)

    def _read(self) -> None:
        try:
            for item in self._work(self._stop):
                self._items.put(item)
        except Exception as error:  # carried over to the waiting side, which raises or explains it
            self._items.put(error)
        else:
            self._items.put(None)


def joined_texts(events: Iterable[Event]) -> Iterator[Event]:
    """The same events, with neighbouring texts as one: for what came together. Before an error comes what was said until there."""
    texts: list[str] = []
    try:
        for event in events:
            if isinstance(event, TextDelta):
                texts.append(event.text)
                continue
            yield from _one(texts)
            yield event
    except ProviderError:
        yield from _one(texts)
        raise
    yield from _one(texts)


def _one(texts: list[str]) -> Iterator[Event]:
    if texts:
        text = "".join(texts)
        texts.clear()
        yield TextDelta(text)
