"""One call of Converse or ConverseStream, as the events of its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from escalera_bedrock.library import TIMED_OUT
from orchestrator.errors import Cancelled, TimedOut
from orchestrator.exchange import Exchange, Reading, Watch
from orchestrator.providers import Cancel, Stop, Stopped, Timeouts

StreamEvent = Mapping[str, Any]

Call = Callable[[Watch, ExitStack], Iterator[StreamEvent]]
"""Makes the call, and gives the events of its answer, whose reading keeps to the watch; what is open for them it puts on the stack."""


class ConverseExchange(Exchange[tuple[Watch, Iterator[StreamEvent]]]):
    """Makes a call in a thread of its own, since what botocore does for credentials cannot be interrupted, and reads its answer in the turn's."""

    def __init__(self, call: Call, timeouts: Timeouts, cancel: Cancel, *, where: str) -> None:
        def opened(stop: Stop) -> Iterator[tuple[Watch, Iterator[StreamEvent]]]:
            watch = Watch(stop)
            events = call(watch, self._open)
            try:
                stop.raise_if_stopped()
            except Stopped:  # nobody waits for it any more
                self._open.close()
                raise
            yield watch, events

        super().__init__(opened, timeouts, cancel, where=where, name="escalera-bedrock", begins=lambda _: False)
        self._open = ExitStack()
        self.opened = False
        """Whether the call was accepted: what fails from then on is the answer."""
        self.failed: Exception | None = None
        """What ended the call, if not its own end."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        super().__exit__(kind, error, trace)
        self._open.close()

    def events(self) -> Iterator[StreamEvent]:
        """The events as they come, until they end or break, or until the grace is over. Raises `TimedOut`, `Cancelled`."""
        answer = self.next()
        if answer is None or isinstance(answer, Exception):
            self.failed = answer
            return
        self.opened = True
        watch, events = answer
        reading = Reading(events, self.timers, watch, self._cancel, begins=lambda _: True, timed_out=TIMED_OUT)
        try:
            while (event := reading.next()) is not None:
                yield event
        except (TimedOut, Cancelled):
            raise
        except Exception as error:  # the caller explains it
            self.failed = error
