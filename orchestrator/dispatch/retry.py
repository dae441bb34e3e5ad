"""The one retry policy (page 7): what may be sent again, when, and how long to wait before."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeVar

from orchestrator.clock import Clock
from orchestrator.errors import Cancelled, ProviderError, Transient
from orchestrator.providers import Cancel

FIRST_WAIT = 0.5
"""Seconds; doubled for each further attempt and drawn with full jitter."""

Result = TypeVar("Result")


def with_retries(
    send: Callable[[], Result],
    *,
    may_retry: Callable[[], bool],
    attempts: int,
    max_wait: float,
    clock: Clock,
    cancel: Cancel,
    jitter: random.Random,
    announce: Callable[[ProviderError, float, int], None],
    until: float | None = None,
) -> Result:
    """Call `send`, again after a transient error while `may_retry` and the error itself (`emitted`) say that nothing was emitted yet, and it is not `final`.

    At most `attempts` times more, those counted that the agent's own program took (`own_retries`); at once where the provider
    repaired what was wrong. A wait that the provider named is
    kept to `max_wait` seconds: a longer one fails at once. No wait goes beyond `until`, a monotonic time.
    `announce` is told the error, the wait in seconds and the number of the attempt to come.
    """
    sent = own = 0
    while True:
        try:
            return send()
        except ProviderError as error:
            sent += 1
            own += error.own_retries
            wait = _wait_after(error, sent, max_wait, jitter)
            too_late = until is not None and clock.monotonic() + wait > until
            if sent + own > attempts or too_late or not may_retry() or not _may_be_sent_again(error, max_wait):
                _explain(error, max_wait)
                raise
            announce(error, wait, sent + 1)
        clock.sleep(wait, cancel.event)
        if cancel.is_set():
            raise Cancelled(cancel.reason)


def _wait_after(error: ProviderError, sent: int, max_wait: float, jitter: random.Random) -> float:
    if error.repaired:
        return 0.0
    if isinstance(error, Transient) and error.retry_after is not None:
        return error.retry_after
    return jitter.uniform(0, min(max_wait, FIRST_WAIT * 2**sent))


def _may_be_sent_again(error: ProviderError, max_wait: float) -> bool:
    """By what the error says of itself."""
    if error.emitted or error.final:
        return False
    return error.repaired or (isinstance(error, Transient) and (error.retry_after is None or error.retry_after <= max_wait))


def _explain(error: ProviderError, max_wait: float) -> None:
    if isinstance(error, Transient) and error.retry_after is not None and error.retry_after > max_wait:
        error.hint = f"the provider asks to wait {error.retry_after:.0f} s, longer than retry_max_wait ({max_wait:g} s): try again then"
