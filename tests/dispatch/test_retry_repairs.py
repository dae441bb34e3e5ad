"""The retry policy, where a provider says that it mended what was wrong."""

from __future__ import annotations

import gc
import random
import weakref
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import pytest

from orchestrator.clock import FixedClock
from orchestrator.dispatch.retry import with_retries
from orchestrator.errors import AuthFailed, ProviderError, RateLimited
from orchestrator.providers import Cancel


class Waits(FixedClock):
    """A clock whose sleeps take no time and are remembered."""

    def __init__(self) -> None:
        super().__init__(datetime(2026, 1, 1, tzinfo=UTC))
        self.told: list[float] = []

    def sleep(self, seconds: float, wake: object = None) -> None:
        self.told.append(seconds)


def repaired(error: ProviderError) -> ProviderError:
    error.repaired = True
    return error


def sending(outcomes: Sequence[ProviderError | str], *, attempts: int = 3, may_retry: Callable[[], bool] = lambda: True) -> tuple[str, Waits]:
    clock, left = Waits(), list(outcomes)

    def send() -> str:
        outcome = left.pop(0)
        if isinstance(outcome, ProviderError):
            raise outcome
        return outcome

    told = with_retries(
        send,
        may_retry=may_retry,
        attempts=attempts,
        max_wait=60,
        clock=clock,
        cancel=Cancel(),
        jitter=random.Random(1),
        announce=lambda error, wait, attempt: None,
    )
    return told, clock


def test_repaired_call_is_sent_again_at_once() -> None:
    told, clock = sending([repaired(AuthFailed("expired")), "fine"])
    assert (told, clock.told) == ("fine", [0.0])


def test_same_error_without_a_repair_is_not_sent_again() -> None:
    with pytest.raises(AuthFailed):
        sending([repaired(AuthFailed("expired")), AuthFailed("expired"), "never"])


def test_repairs_and_retries_share_one_limit_of_sends() -> None:
    with pytest.raises(AuthFailed):
        sending([RateLimited("slow"), repaired(AuthFailed("expired")), "never"], attempts=1)


def test_nothing_is_repaired_once_something_came_out() -> None:
    with pytest.raises(AuthFailed):
        sending([repaired(AuthFailed("expired")), "never"], may_retry=lambda: False)


def test_nothing_of_a_call_waits_for_the_garbage_collector() -> None:
    class Text:
        """Something that a call has."""

    def sent() -> weakref.ref[Text]:
        text, clock = Text(), Waits()
        told = with_retries(
            lambda: weakref.ref(text),
            may_retry=lambda: text is not None,
            attempts=3,
            max_wait=60,
            clock=clock,
            cancel=Cancel(),
            jitter=random.Random(1),
            announce=lambda error, wait, attempt: None,
        )
        assert told() is text
        return told

    gc.disable()
    try:
        assert sent()() is None
    finally:
        gc.enable()
