"""Turns that are refused for their size, that fail, or that end in the middle."""

from __future__ import annotations

from datetime import timedelta

import pytest

from orchestrator.errors import (
    BudgetExceeded,
    Cancelled,
    ConfigError,
    EmptyAnswer,
    Incomplete,
    ProtocolError,
)
from orchestrator.messages import Text, Usage
from orchestrator.providers import Answer, Finished, Question, TextDelta
from orchestrator.session import Brief, Need, Outcome, TurnError
from orchestrator.testing.fake_provider import says

from ..conftest import START, Scene, local, rules, strong, system, texts


def test_a_turn_without_room_sends_and_stores_nothing(scene: Scene) -> None:
    scene.config = "[limits]\nmessage_budget_chars = 5000\n"
    scene.cast(local=local(), strong=strong())
    scene.save(need=Need("ship it", 0, False, START - timedelta(hours=30), "user"))
    before = scene.session

    with pytest.raises(BudgetExceeded):
        scene.ask("x" * 5000)

    assert (scene.turns, scene.session, scene.agents["local"].requests, scene.shown) == ([], before, [], [])


def test_planning_writes_nothing(scene: Scene) -> None:
    scene.cast(local=local(), strong=strong())
    scene.remember("likes tabs")
    scene.save(need=Need("ship it", 0, False, START - timedelta(hours=30), "user"), brief=Brief("because", "user"))
    before, facts = scene.session, scene.store.percepts()

    scene.plan(escalate=True, reason="another")

    assert (scene.session, scene.turns, scene.store.percepts()) == (before, [], facts)
    assert not scene.store.list(None)[0].in_use


def test_an_answer_that_broke_off_is_kept_as_what_it_is(scene: Scene) -> None:
    primary = local([TextDelta("half an ans"), Incomplete("cut", partial="half an ans")], says("ok"))
    scene.cast(local=primary, strong=strong())

    report = scene.ask("first")

    (turn,) = scene.turns
    assert (turn.outcome, turn.error) == (Outcome.FAILED, TurnError("Incomplete", "cut"))
    assert turn.steps == (Text("half an ans", extra={"partial": True}),)
    assert isinstance(report.error, Incomplete)
    scene.ask("second")
    assert texts(primary.requests[1]) == ["user: second"]


def test_a_failed_turn_is_told_in_one_line_only(scene: Scene) -> None:
    agent = strong(says("ok"))
    scene.cast(local=local(says("fine"), [ProtocolError("noise on the line")]), strong=agent)
    scene.ask("first")
    scene.ask("second")

    scene.ask("third", escalate=True)

    assert 'attempted "second", failed: ProtocolError: noise on the line' in system(agent.requests[0])
    assert not any("second" in text for text in texts(agent.requests[0]))


def test_a_cancelled_turn_is_kept_and_counts_for_nothing(scene: Scene) -> None:
    scene.cast(local=local([TextDelta("so f"), Cancelled("enough")]), strong=strong())

    report = scene.ask()

    assert (report.turn.outcome, report.error.exit_code if report.error else 0) == (Outcome.CANCELLED, 130)
    assert report.turn.steps == (Text("so f", extra={"partial": True}),)


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ([KeyError("choices")], ProtocolError),
        ([None], ProtocolError),
        ([Finished("stop")], EmptyAnswer),
        ([], Incomplete),
        ([ConfigError("tls_ca")], ConfigError),
    ],
    ids=["foreign error", "garbage", "nothing", "no end", "configuration"],
)
def test_whatever_a_provider_does_the_turn_is_recorded_as_failed(scene: Scene, script: list[object], error: type[Exception]) -> None:
    scene.cast(local=local(script, says("ok")), strong=strong())  # type: ignore[arg-type]  # that is the point

    report = scene.ask()

    assert isinstance(report.error, error)
    assert scene.turns[0].outcome is Outcome.FAILED
    assert scene.turns[0].error is not None
    assert scene.turns[0].error.type == error.__name__
    assert scene.ask().turn.outcome is Outcome.COMPLETED


def test_why_an_agent_got_the_turn_is_stored_beside_the_mode(scene: Scene) -> None:
    scene.cast(local=local(says("hi")), strong=strong(says("Which?"), says("ok")))
    scene.ask()
    scene.ask(escalate=True)
    scene.ask("that")
    scene.restart()

    stored = [(rules(turn.reasons), rules(turn.routing)) for turn in scene.turns]
    assert stored == [(["default"], ["default"]), (["never_escalated"], ["flag"]), (["waiting"], ["waiting"])]


def test_usage_and_models_are_kept(scene: Scene) -> None:
    scene.cast(local=local(says("ok", usage=Usage(10, 2), model="local-1b")), strong=strong())

    scene.ask()

    (turn,) = scene.turns
    assert turn.usage is not None
    assert (turn.usage.input_tokens, turn.usage.output_tokens, turn.model_requested, turn.model_served) == (10, 2, "local-1", "local-1b")


@pytest.mark.parametrize(
    ("served", "told"),
    [
        ("local-1", False),
        ("local-1-20260101", False),
        ("vendor/LOCAL-1", False),
        ("LOCAL-1.gguf", False),
        ("local-1@2026-01-01", False),
        ("local-1-v2:0", False),
        ("other", True),
        ("local-1-mini", True),
        ("local-1o-mini", True),
        ("local-1:free", True),
        ("my-local-1", True),
        (None, False),
    ],
)
def test_another_model_than_the_one_that_was_asked_for_is_told_once(scene: Scene, served: str | None, told: bool) -> None:
    scene.cast(local=local(says("ok", model=served), says("ok", model=served)), strong=strong())

    first, second = scene.ask(), scene.ask()

    assert first.notices == ((f"'local' was asked for the model local-1, and {served} answered",) if told else ())
    assert second.notices == ()


def test_questions_go_to_the_broker(scene: Scene) -> None:
    primary = local([Question("May I?"), *says("ok")])
    scene.cast(local=primary, strong=strong())

    scene.ask(ask=lambda question: Answer("accept", {"to": question.message}))

    assert primary.answers == [Answer("accept", {"to": "May I?"})]
