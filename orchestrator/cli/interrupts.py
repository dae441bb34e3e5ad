"""Signals while a turn runs: they cancel it, and the session stays whole."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from orchestrator.providers import Cancel

SAME_PRESS = 1.0
"""Seconds within which a second interrupt is the first one again: a key that bounces, or a parent that passes it on."""

ENDING = tuple(number for name in ("SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)) is not None)
"""What asks the program to go: also a terminal that was closed."""


@contextmanager
def cancelled_by_signals(cancel: Cancel, monotonic: Callable[[], float]) -> Iterator[None]:
    """The first interrupt cancels the turn and keeps the session; one that comes later, while that takes long, ends the program.

    A handler runs in the midst of whatever the main thread does, which may hold the very lock that cancelling takes; and it does not run
    at all while the main thread waits for a lock and the signal came just before that. So a thread reads the signals from the wake-up
    descriptor, which the system's own handler writes to at once, and cancels.
    """
    first: list[float] = []

    def on_signal(number: int, _frame: FrameType | None) -> None:
        now = monotonic()
        if number == signal.SIGINT and first and now - first[0] > SAME_PRESS:
            raise KeyboardInterrupt
        first.append(now)

    arriving, wakeup = socket.socketpair()
    wakeup.setblocking(False)
    passing = threading.Thread(target=_pass_on, args=(arriving, cancel), name="interrupts", daemon=True)
    passing.start()
    descriptor = signal.set_wakeup_fd(wakeup.fileno(), warn_on_full_buffer=False)
    # What was started in the background has SIGINT ignored, and heeds it nevertheless: a turn must be cancellable. nohup is left its own.
    heeded = [number for number in (signal.SIGINT, *ENDING) if number == signal.SIGINT or signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, on_signal) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(descriptor)
        wakeup.close()
        passing.join()
        arriving.close()


def _pass_on(arriving: socket.socket, cancel: Cancel) -> None:
    """Until the other end is closed; signals that others handle come by here too."""
    while numbers := arriving.recv(1):
        if numbers[0] == signal.SIGINT:
            cancel.set("cancelled by the user")
        elif numbers[0] in ENDING:
            cancel.set(f"ended by {signal.Signals(numbers[0]).name}")
