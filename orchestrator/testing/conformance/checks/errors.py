"""The error tree: each failure that the harness can play comes as its own class."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from orchestrator.errors import (
    AuthFailed,
    Blocked,
    ContextOverflow,
    EmptyAnswer,
    InvalidRequest,
    ModelNotFound,
    OutOfFunds,
    Overloaded,
    PermissionDenied,
    ProtocolError,
    ProviderError,
    RateLimited,
    Unavailable,
)
from orchestrator.testing.conformance.checks.check import Check
from orchestrator.testing.conformance.harness import CannotPlay
from orchestrator.testing.conformance.stage import Stage
from orchestrator.testing.conformance.turns import Fault

PLAYED: tuple[type[ProviderError], ...] = (
    AuthFailed,
    OutOfFunds,
    RateLimited,
    Overloaded,
    Unavailable,
    ContextOverflow,
    InvalidRequest,
    ModelNotFound,
    PermissionDenied,
    Blocked,
    ProtocolError,
)
"""The classes that a single call can fail with; the others have checks of their own."""
WAIT = 17.0


def fails_as(error: type[ProviderError], stage: Stage) -> None:
    stage.harness.fails(error)
    raised = stage.run().failed_as(error)
    if not raised.message.strip():
        raise Fault(f"its {error.__name__} says nothing")


def names_the_wait(stage: Stage) -> None:
    stage.harness.fails(RateLimited, retry_after=WAIT)
    raised = stage.run().failed_as(RateLimited)
    wait = getattr(raised, "retry_after", None)
    if wait is None or abs(wait - WAIT) > 2:
        raise Fault(f"the backend named a wait of {WAIT:g} s, and `retry_after` is {wait}")


def may_be_sent_again(stage: Stage) -> None:
    """Where nothing of an answer had come, the core may send again."""
    played = 0
    for error in (Overloaded, Unavailable, RateLimited):
        try:
            stage.harness.fails(error)
        except CannotPlay:
            continue
        played += 1
        turn = stage.run()
        if isinstance(turn.error, ProviderError) and turn.error.emitted and not turn.has_begun:
            raise Fault(f"nothing of an answer had come, and its {type(turn.error).__name__} says `emitted`: it would never be sent again")
    if not played:
        raise CannotPlay("the harness plays no failure that may pass by itself")


def empty(stage: Stage) -> None:
    """Where nothing was said at all, the core raises it instead of the provider."""
    stage.harness.fails(EmptyAnswer)
    turn = stage.run()
    if turn.error is not None or turn.parts:
        turn.failed_as(EmptyAnswer)


def _of(error: type[ProviderError]) -> Callable[[Stage], None]:
    return partial(fails_as, error)


CHECKS = (
    *(Check(f"errors.{error.__name__}", f"a failure of that class is `{error.__name__}`", _of(error)) for error in PLAYED),
    Check("errors.EmptyAnswer", "an answer that holds nothing is `EmptyAnswer`; or it ends without one, and the core says so", empty),
    Check("errors.emitted", "a failure before anything came does not say `emitted`", may_be_sent_again),
    Check("errors.retry_after", "a named wait stands in `retry_after`", names_the_wait, needs=("errors.RateLimited",)),
)
