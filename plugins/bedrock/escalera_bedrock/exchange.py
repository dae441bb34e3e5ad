"""One call of Converse or ConverseStream, as the events of its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from orchestrator.exchange import Exchange
from orchestrator.providers import Cancel, Stop, Timeouts

StreamEvent = Mapping[str, Any]

OPENED: StreamEvent = {}
"""What a call gives first, when it was accepted and its answer begins; by identity."""


class ConverseExchange(Exchange[StreamEvent]):
    """Makes a call and gives its events; what the call itself raises is in `failed` once it has ended."""

    def __init__(self, call: Callable[[Stop], Iterator[StreamEvent]], timeouts: Timeouts, cancel: Cancel, *, where: str) -> None:
        super().__init__(call, timeouts, cancel, where=where, name="escalera-bedrock", begins=lambda event: event is not OPENED)
        self.opened = False
        """Whether the call was accepted: what fails from then on is the answer."""
        self.failed: Exception | None = None
        """What ended the call, if not its own end."""

    def events(self) -> Iterator[Sequence[StreamEvent]]:
        """The events as they come, those together that came meanwhile, until they end or break, or until the grace is over.

        Raises `TimedOut`, `Cancelled`.
        """
        while True:
            item = self.next()
            if item is None or isinstance(item, Exception):
                self.failed = item
                return
            come = [item, *self.at_hand()]
            self.opened = self.opened or come[0] is OPENED
            if events := [event for event in come if event is not OPENED]:
                yield events
