"""Signals that cancel a turn."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from orchestrator.cli.interrupts import cancelled_by_signals
from orchestrator.providers import Cancel


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_presses_at_once_are_one_and_a_later_one_ends_the_program() -> None:
    cancel, now = Cancel(), [0.0]

    with cancelled_by_signals(cancel, lambda: now[0]):
        interrupt()
        now[0] = 0.9
        interrupt()
        assert cancel.event.wait(10)
        now[0] = 1.1
        with pytest.raises(KeyboardInterrupt):
            interrupt()

    assert cancel.reason == "cancelled by the user"


def test_a_main_thread_that_holds_the_cancels_own_lock_is_no_hindrance() -> None:
    cancel = Cancel()

    with cancelled_by_signals(cancel, lambda: 0.0):
        with cancel._lock:
            interrupt()
            os.kill(os.getpid(), signal.SIGTERM)
        assert cancel.event.wait(10)


def test_everything_is_as_it_was_afterwards() -> None:
    handlers, threads = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)], threading.active_count()

    with cancelled_by_signals(Cancel(), lambda: 0.0):
        pass

    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert threading.active_count() == threads
    assert signal.set_wakeup_fd(-1) == -1
