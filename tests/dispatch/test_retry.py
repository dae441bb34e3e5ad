"""What is sent again, how often, and after how long a wait."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orchestrator.errors import (
    AuthFailed,
    Blocked,
    Cancelled,
    ContextOverflow,
    EmptyAnswer,
    Incomplete,
    InvalidRequest,
    ModelNotFound,
    OutOfFunds,
    Overloaded,
    PermissionDenied,
    ProtocolError,
    ProviderError,
    RateLimited,
    SessionLost,
    TimedOut,
    Transient,
    Unavailable,
)
from orchestrator.messages import Text, ToolCall, Usage
from orchestrator.providers import Conversation, MessageDone, Notice, ReasoningDelta, TextDelta, ToolResultSeen, UsageReport
from orchestrator.settings.limits import Limits
from orchestrator.testing.fake_provider import FakeProvider, calls, says

from ..conftest import OWN, TOOLS
from .conftest import Turn


@pytest.mark.parametrize("error", [RateLimited("slow"), Overloaded("full"), Unavailable("down")])
def test_a_transient_error_is_sent_again(turn: Turn, error: Transient) -> None:
    provider = FakeProvider([error], [error], says("done"))

    turn.run(provider)

    assert turn.error is None
    assert turn.answered.sends == 3
    assert turn.answered.steps == [Text("done")]
    assert len(turn.clock.slept) == 2


@pytest.mark.parametrize(
    "error",
    [
        TimedOut("silent", which="first_byte"),
        TimedOut("silent", which="idle"),
        TimedOut("long", which="turn"),
        AuthFailed("401"),
        OutOfFunds("402"),
        InvalidRequest("400"),
        ContextOverflow("large"),
        ModelNotFound("404"),
        PermissionDenied("no"),
        Blocked("filter"),
        Incomplete("cut"),
        ProtocolError("noise"),
        EmptyAnswer("nothing"),
        SessionLost("gone"),
        Cancelled("stop"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_any_other_error_is_final(turn: Turn, error: ProviderError) -> None:
    provider = FakeProvider([error], says("never"))

    turn.run(provider)

    assert turn.error is error
    assert (turn.answered.sends, turn.clock.slept) == (1, [])


@pytest.mark.parametrize(
    "emitted",
    [TextDelta("a"), TextDelta(""), ReasoningDelta("hm"), MessageDone((Text("a"),)), MessageDone((ToolCall("c", "look"),)), ToolResultSeen("c", "seen")],
    ids=lambda event: type(event).__name__,
)
def test_nothing_is_sent_again_once_something_was_emitted(turn: Turn, emitted: object) -> None:
    provider = FakeProvider([emitted, Unavailable("reset")], says("never"))  # type: ignore[list-item]  # an event

    turn.run(provider)

    assert isinstance(turn.error, Unavailable)
    assert turn.answered.sends == 1


@pytest.mark.parametrize("repaired", [False, True])
def test_nothing_is_sent_again_where_something_had_come_that_no_event_told_of(turn: Turn, repaired: bool) -> None:
    error = Overloaded("full")
    error.emitted, error.repaired = True, repaired
    provider = FakeProvider([error], says("never"))

    turn.run(provider)

    assert turn.error is error
    assert (turn.answered.sends, turn.clock.slept) == (1, [])


def test_nothing_is_sent_again_where_the_provider_knows_it_to_be_in_vain(turn: Turn) -> None:
    error = RateLimited("slow")
    error.final = True
    provider = FakeProvider([error], says("never"))

    turn.run(provider)

    assert turn.error is error
    assert (turn.answered.sends, turn.clock.slept) == (1, [])


def test_notices_and_usage_are_no_answer_yet(turn: Turn) -> None:
    provider = FakeProvider([Notice("busy"), UsageReport(Usage(5, 0)), Overloaded("full")], says("done", usage=Usage(7, 1)))

    turn.run(provider)

    assert turn.error is None
    assert turn.reported == Usage(12, 1)
    assert turn.answered.notices == ["busy"]


@pytest.mark.parametrize("attempts", [0, 1, 3])
def test_sends_never_exceed_the_attempts_and_one(turn: Turn, attempts: int) -> None:
    provider = FakeProvider(*[[Unavailable("down")]] * 9)

    turn.run(provider, limits=Limits(retry_attempts=attempts))

    assert isinstance(turn.error, Unavailable)
    assert turn.answered.sends == len(provider.requests) == attempts + 1


def test_what_the_agents_program_sent_again_by_itself_counts_among_the_sends(turn: Turn) -> None:
    def tired() -> Unavailable:
        error = Unavailable("no")
        error.own_retries = 1
        return error

    provider = FakeProvider([tired()], [tired()], says("never"), capabilities=OWN)
    conversation = Conversation("start", "id-1", "You.", "[context]")

    turn.run(provider, conversation=conversation, limits=Limits(retry_attempts=3, retry_max_wait=7.0))

    assert [(request.retries_left, request.longest_wait) for request in provider.requests] == [(3, 7.0), (1, 7.0)]
    assert turn.answered.sends == 4


def test_the_time_that_the_provider_names_is_waited(turn: Turn) -> None:
    turn.run(FakeProvider([RateLimited("slow", retry_after=42.5)], says("done")))

    assert turn.clock.slept == [42.5]


def test_a_named_time_that_is_too_long_fails_at_once_and_says_it(turn: Turn) -> None:
    turn.run(FakeProvider([RateLimited("slow", retry_after=3600)], says("never")), limits=Limits(retry_max_wait=60))

    assert isinstance(turn.error, RateLimited)
    assert turn.clock.slept == []
    assert "3600" in (turn.error.hint or "")


def test_a_named_time_that_is_too_long_fails_also_where_the_turn_has_time_for_it(turn: Turn) -> None:
    turn.run(FakeProvider([RateLimited("slow", retry_after=100)], says("never")), limits=Limits(retry_max_wait=60, turn_timeout=None))

    assert isinstance(turn.error, RateLimited)
    assert (turn.answered.sends, turn.clock.slept) == (1, [])


def test_waits_grow_with_full_jitter_up_to_the_longest(turn: Turn) -> None:
    waits = []
    for _ in range(50):
        again = Turn()
        again.run(FakeProvider(*[[Unavailable("down")]] * 6), limits=Limits(retry_attempts=5, retry_max_wait=3.0))
        waits.append(again.clock.slept)
    turn.run(FakeProvider(*[[Unavailable("down")]] * 6), limits=Limits(retry_attempts=5, retry_max_wait=3.0))

    assert len(turn.clock.slept) == 5
    assert all(0 <= wait <= ceiling for run in waits for wait, ceiling in zip(run, (1.0, 2.0, 3.0, 3.0, 3.0), strict=True))


def test_every_wait_is_shown(turn: Turn) -> None:
    turn.run(FakeProvider([RateLimited("slow down", retry_after=2)], says("done")))

    (shown,) = [shown for shown in turn.shown if shown.type == "retry"]
    assert shown.data == {"error": "RateLimited", "wait": 2, "attempt": 2}
    assert "slow down" in shown.text


def test_a_cancel_ends_the_wait(turn: Turn) -> None:
    provider = FakeProvider([RateLimited("slow", retry_after=30)], says("never"))
    turn.clock.on_sleep = turn.cancel.set

    turn.run(provider)

    assert isinstance(turn.error, Cancelled)
    assert turn.answered.sends == 1


def test_each_round_of_tools_may_be_retried(turn: Turn) -> None:
    look = ToolCall("c1", "current_need", {"text": "ship"})
    provider = FakeProvider([Unavailable("down")], calls(look), [Unavailable("down")], says("done"), capabilities=TOOLS)

    turn.run(provider, limits=Limits(retry_attempts=1))

    assert turn.error is None
    assert turn.answered.sends == 4
    assert turn.heard.needs == [("ship", "tool")]


def test_no_wait_goes_beyond_the_end_of_the_turn(turn: Turn) -> None:
    provider = FakeProvider([RateLimited("slow", retry_after=50)], [RateLimited("slow", retry_after=50)], says("never"))

    turn.run(provider, limits=Limits(turn_timeout=80.0))

    assert isinstance(turn.error, RateLimited)
    assert turn.clock.slept == [50]


def test_later_calls_of_a_turn_have_what_is_left_of_its_time(turn: Turn) -> None:
    provider = FakeProvider([lambda: turn.clock.sleep(100), *calls(ToolCall("c1", "nope"))], says("done"), capabilities=TOOLS)

    turn.run(provider)

    assert [request.timeouts.turn for request in provider.requests] == [600.0, 500.0]


def test_a_turn_that_used_up_its_time_sends_nothing_more(turn: Turn) -> None:
    provider = FakeProvider([lambda: turn.clock.sleep(600), *calls(ToolCall("c1", "nope"))], says("never"), capabilities=TOOLS)

    turn.run(provider)

    assert isinstance(turn.error, TimedOut)
    assert turn.error.which == "turn"
    assert turn.answered.sends == 1


def test_time_in_which_the_user_was_asked_does_not_count(turn: Turn) -> None:
    """The limit of a turn that may ask is the provider's own to keep; a single call has all of it."""
    provider = FakeProvider([lambda: turn.clock.sleep(10_000), *says("done")], capabilities=replace(OWN, asks_permissions=True))

    turn.run(provider)

    assert turn.error is None
