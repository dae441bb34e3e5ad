"""The one retry policy (page 7): what may be sent again, when, and how long to wait before."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from orchestrator.clock import Clock
from orchestrator.errors import Cancelled, ProviderError, Transient
from orchestrator.providers import Cancel

if TYPE_CHECKING:
    from tenacity import RetryCallState

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
    from tenacity import Retrying, retry_if_exception

    def wait(state: RetryCallState) -> float:
        error = _error_of(state)
        if error.repaired:
            return 0.0
        if isinstance(error, Transient) and error.retry_after is not None:
            return error.retry_after
        return jitter.uniform(0, min(max_wait, FIRST_WAIT * 2**state.attempt_number))

    def worth_it(error: BaseException) -> bool:
        if not isinstance(error, ProviderError) or error.emitted or error.final or not may_retry():
            return False
        return error.repaired or (isinstance(error, Transient) and (error.retry_after is None or error.retry_after <= max_wait))

    def tell(state: RetryCallState) -> None:
        announce(_error_of(state), state.next_action.sleep if state.next_action else 0.0, state.attempt_number + 1)

    def sleep(seconds: float) -> None:
        clock.sleep(seconds, cancel.event)
        if cancel.is_set():
            raise Cancelled(cancel.reason)

    own = 0

    def stop(state: RetryCallState) -> bool:
        nonlocal own
        own += _error_of(state).own_retries
        return state.attempt_number + own > attempts or (until is not None and clock.monotonic() + state.upcoming_sleep > until)

    retrying = Retrying(stop=stop, wait=wait, retry=retry_if_exception(worth_it), before_sleep=tell, sleep=sleep, reraise=True)
    try:
        return retrying(send)
    except Transient as error:
        if error.retry_after is not None and error.retry_after > max_wait:
            error.hint = f"the provider asks to wait {error.retry_after:.0f} s, longer than retry_max_wait ({max_wait:g} s): try again then"
        raise
    finally:
        retrying.iter_state.reset()  # what it did last holds it, and so all of the turn would stay until the garbage is collected


def _error_of(state: RetryCallState) -> ProviderError:
    error = state.outcome.exception() if state.outcome else None
    if not isinstance(error, ProviderError):
        raise TypeError(f"only a provider's error is retried, not {error!r}")
    return error
