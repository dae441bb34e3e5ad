"""Signals while a turn runs: they cancel it, and the session stays whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from types import FrameType

from orchestrator.clock import Clock
from orchestrator.providers import Cancel

SAME_PRESS = 1.0
"""Seconds within which a second interrupt is the first one again: a key that bounces, or a parent that passes it on."""


@contextmanager
def cancelled_by_signals(cancel: Cancel, clock: Clock) -> Iterator[None]:
    """The first interrupt cancels the turn and keeps the session; one that comes later, while that takes long, ends the program.

    A handler runs in the midst of whatever the main thread does, and that may hold the very lock that cancelling takes.
    So it only passes the signal on, through a queue that may be entered twice, to a thread that cancels.
    """
    arrived: SimpleQueue[int] = SimpleQueue()
    passing = threading.Thread(target=_pass_on, args=(arrived, cancel), name="interrupts", daemon=True)
    first: list[float] = []

    def on_signal(number: int, _frame: FrameType | None) -> None:
        now = clock.monotonic()
        if number == signal.SIGINT and first and now - first[0] > SAME_PRESS:
            raise KeyboardInterrupt
        first.append(now)
        arrived.put(number)

    passing.start()
    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        arrived.put(0)
        passing.join()


def _pass_on(arrived: SimpleQueue[int], cancel: Cancel) -> None:
    while number := arrived.get():
        cancel.set("cancelled by the user" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}")
