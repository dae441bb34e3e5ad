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
    Check("errors.EmptyAnswer", "an answer that holds nothing is `EmptyAnswer`, or an end without a message's text", empty),
    Check("errors.retry_after", "a named wait stands in `retry_after`", names_the_wait, needs=("errors.RateLimited",)),
)
