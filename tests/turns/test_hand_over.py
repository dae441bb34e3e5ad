"""A primary that gives its turn away, and the escalation turn that follows at once."""

from __future__ import annotations

import pytest

from orchestrator.errors import (
    BudgetExceeded,
    Cancelled,
    ConfigError,
    Incomplete,
    ProtocolError,
    Unavailable,
)
from orchestrator.messages import ToolCall
from orchestrator.modes import Mode
from orchestrator.providers import TextDelta
from orchestrator.session import Brief, Need, Outcome, State
from orchestrator.testing.fake_provider import FakeProvider, calls, says

from ..conftest import START, TOOLS, Scene, local, rules, strong, system, tag, texts

HAND_OVER = f"I looked. {tag('escalate', 'too hard for me')}"
BY_TOOL = ToolCall("c1", "escalate", {"reason": "too hard for me"})


@pytest.mark.parametrize("primary", [local(says(HAND_OVER)), local(calls(BY_TOOL, text="I looked. "), capabilities=TOOLS)], ids=["by tag", "by tool"])
def test_a_hand_over_is_followed_at_once_by_the_escalation_turn(scene: Scene, primary: FakeProvider) -> None:
    agent = strong(says("solved"))
    scene.cast(local=primary, strong=agent)

    report = scene.ask("fix the build")

    first, second = scene.turns
    assert (first.outcome, first.prompt, first.answer.strip(), first.error) == (Outcome.ESCALATED, "fix the build", "I looked.", None)
    assert (second.outcome, second.prompt, second.continues, second.mode) == (Outcome.COMPLETED, None, 0, "first")
    assert (report.turn, report.escalated_from, report.session.state) == (second, 0, State.ROUTING)
    assert rules(report.plan.route.reasons) == ["self_escalation"]
    assert scene.seen("notice") == ["'local' hands over: too hard for me"]
    assert [shown.data["agent"] for shown in scene.shown if shown.type == "turn_started"] == ["local", "strong"]
    assert "too hard for me" in system(agent.requests[0])
    assert texts(agent.requests[0])[-1] == "user: fix the build"
    assert str(texts(agent.requests[0])).count("fix the build") == 1


def test_what_the_primary_did_before_comes_before_the_prompt_as_its_work(scene: Scene) -> None:
    agent = strong(says("solved"))
    scene.cast(local=local(says(HAND_OVER)), strong=agent)

    scene.ask("fix the build")

    work, prompt = texts(agent.requests[0])
    assert work.startswith("user: [work of local, the primary agent, before it handed over]\nI looked.")
    assert prompt == "user: fix the build"


def test_a_hand_over_sets_its_prompt_as_the_need_of_the_escalation_turn(scene: Scene) -> None:
    scene.cast(local=local(says(HAND_OVER), says("fine")), strong=strong(says("solved")))

    scene.ask("\n " * 200 + "fix " * 200)
    scene.ask("thanks")

    need = scene.session.need
    assert need == Need(("fix " * 70).strip(), 1, True, START, "self-escalation")
    assert scene.plan("again", escalate=True).mode is Mode.RETURNING


def test_a_hand_over_makes_nothing_stale(scene: Scene) -> None:
    scene.cast(local=local(says("fine"), says(HAND_OVER)), strong=strong(says("solved"), says("solved again")))
    scene.ask(escalate=True)
    scene.ask("hello")

    report = scene.ask("now this")

    assert (report.turn.mode, rules(report.turn.reasons)) == ("returning", ["primary_worked"])


def test_a_hand_over_leaves_a_need_that_is_set(scene: Scene) -> None:
    scene.cast(local=local(says("fine " + tag("need", "ship it")), says(HAND_OVER)), strong=strong(says("solved")))
    scene.ask("hello")

    scene.ask("now this")

    assert scene.session.need is not None
    assert (scene.session.need.text, scene.session.need.turn_index) == ("ship it", 0)


def test_a_need_stated_with_the_hand_over_is_a_changed_need(scene: Scene) -> None:
    agent = strong(says("solved"), says("solved again"))
    scene.cast(local=local(says(HAND_OVER + tag("need", "something else"))), strong=agent)
    scene.ask(escalate=True)

    report = scene.ask("now this")

    assert rules(report.turn.reasons) == ["need_changed"]
    assert "something else" in system(agent.requests[1])
    assert scene.session.need is not None
    assert scene.session.need.source == "tag"


def test_a_fresh_start_that_the_user_asked_for_goes_with_the_turn(scene: Scene) -> None:
    scene.cast(local=local(says(HAND_OVER)), strong=strong(says("solved"), says("solved again")))
    scene.ask(escalate=True)

    report = scene.ask("now this", fresh=True)

    assert (report.turn.mode, rules(report.turn.reasons)) == ("fresh_start", ["forced"])


def test_a_need_that_was_set_stands_when_a_reply_is_handed_over(scene: Scene) -> None:
    agent = strong(says("first"), says("which db?"), says("done"))
    scene.cast(local=local(says(HAND_OVER)), strong=agent)
    scene.ask("q0", escalate=True)
    scene.save(need=Need("GOAL-X", 1, False, START, "user"))
    scene.ask("q1", escalate=True)

    scene.ask("postgres", primary=True)

    assert "GOAL-X" in system(agent.requests[2])
    assert scene.session.need is not None
    assert scene.session.need.text == "GOAL-X"


def test_a_turn_that_was_handed_over_is_not_counted_in_the_gap(scene: Scene) -> None:
    scene.config = "[limits]\nreturning_fresh_start_local_turns = 2\n"
    scene.cast(local=local(says("fine"), says(HAND_OVER), says("fine")), strong=strong(says("a"), [TextDelta("half"), Incomplete("cut")]))
    scene.ask(escalate=True)
    scene.ask("one")
    failed = scene.ask("two, handed over, and the other fails")

    assert failed.turn.outcome is Outcome.FAILED
    assert scene.plan(escalate=True).mode is Mode.RETURNING
    scene.ask("three")
    assert rules(scene.plan(escalate=True).reasons) == ["turn_gap"]


def test_a_handed_over_pair_is_sent_and_told_as_one(scene: Scene) -> None:
    primary = local(says(HAND_OVER), says("fine"))
    scene.cast(local=primary, strong=strong(says("solved"), says("more")))
    scene.ask("fix the build")

    scene.ask("thanks")

    assert texts(primary.requests[1]) == [
        "user: fix the build",
        "assistant: I looked. ",
        "user: [answer of strong, the escalation agent]\nsolved\n[end of strong's answer]",
        "user: thanks",
    ]
    assert scene.plan().fitted.sent == (0, 1, 2)


def test_a_handed_over_pair_is_dropped_as_one(scene: Scene) -> None:
    scene.cast(local=local(says("x" * 3000 + HAND_OVER), says("fine")), strong=strong(says("solved")))
    scene.ask("fix the build")
    scene.ask("thanks")
    scene.config = "[agents.local.limits]\nmessage_budget_chars = 4000\n"
    scene.restart()

    plan = scene.plan()

    assert plan.fitted.sent == (2,)
    assert [(left.turn, left.why) for left in plan.fitted.dropped] == [(0, "budget"), (1, "budget")]
    assert plan.fitted.dropped.count_not_shown == 2


def test_the_digest_tells_a_handed_over_turn_with_its_continuation(scene: Scene) -> None:
    scene.cast(local=local(says(HAND_OVER)), strong=strong(says("solved by care")))
    scene.ask("fix the build")

    told = system(scene.plan("again", escalate=True, fresh=True).request)

    assert "Before it, local (primary) had this turn and handed it over:" in told
    assert "solved by care" in told


@pytest.mark.parametrize("outcome", ["fails", "is cancelled"])
def test_an_escalation_turn_that_fails_after_a_hand_over_leaves_its_reason(scene: Scene, outcome: str) -> None:
    error = ProtocolError("noise") if outcome == "fails" else Cancelled("enough")
    agent = strong([TextDelta("hal"), error], says("solved"))
    scene.cast(local=local(says(HAND_OVER)), strong=agent)

    report = scene.ask("fix the build")

    assert [turn.outcome for turn in scene.turns] == [Outcome.ESCALATED, Outcome.FAILED if outcome == "fails" else Outcome.CANCELLED]
    assert (report.error, report.turn.index, report.escalated_from) == (error, 1, 0)
    assert (scene.session.brief, scene.session.need, scene.session.state) == (Brief("too hard for me", "primary"), None, State.ROUTING)

    scene.ask("try again", escalate=True)

    assert "too hard for me" in system(agent.requests[1])
    assert texts(agent.requests[1])[1].startswith("user: [work of local, the primary agent, before it handed over]\nI looked.")
    assert scene.session.brief is None


def test_a_hand_over_that_nobody_can_take_is_reported_with_what_the_primary_said(scene: Scene) -> None:
    scene.roles = {"primary": "local"}
    scene.cast(local=local(says(HAND_OVER)))

    report = scene.ask("fix the build")

    assert isinstance(report.error, ConfigError)
    assert (report.turn.outcome, report.turn.answer) == (Outcome.ESCALATED, "I looked. ")
    assert any("nobody can take it" in notice for notice in report.notices)
    assert scene.session.brief == Brief("too hard for me", "primary")


def test_a_hand_over_to_an_agent_that_has_no_room_is_reported(scene: Scene) -> None:
    scene.config = "[agents.strong.limits]\nmessage_budget_chars = 100\n"
    scene.cast(local=local(says(HAND_OVER)), strong=strong())

    report = scene.ask("fix the build")

    assert isinstance(report.error, BudgetExceeded)
    assert [turn.outcome for turn in scene.turns] == [Outcome.ESCALATED]


def test_a_failed_primary_turn_hands_nothing_over(scene: Scene) -> None:
    scene.cast(local=local([*says(HAND_OVER)[:-1], Incomplete("cut")]), strong=strong())

    report = scene.ask("fix the build")

    assert (report.turn.outcome, report.handed_over) == (Outcome.FAILED, None)
    assert scene.session.brief is None


def test_reasons_stay_however_often_the_escalation_fails(scene: Scene) -> None:
    agent = strong([Unavailable("down")], [Unavailable("down")], says("solved"))
    scene.config = "[limits]\nretry_attempts = 0\n"
    scene.cast(local=local(says(HAND_OVER), says(f"Again. {tag('escalate', 'still too hard')}"), says(HAND_OVER)), strong=agent)

    scene.ask("one", primary=True, reason="keep the API stable")
    scene.ask("two", primary=True)
    assert scene.session.brief == Brief("keep the API stable\n\ntoo hard for me\n\nstill too hard", "primary")

    scene.ask("three", escalate=True)
    assert "keep the API stable" in system(agent.requests[2])
    assert scene.session.brief is None


def test_a_reason_of_the_user_that_nobody_was_told_goes_along(scene: Scene) -> None:
    agent = strong(says("solved"))
    scene.cast(local=local(says("fine"), says(HAND_OVER)), strong=agent)
    scene.ask("one", primary=True, reason="the client hates green")

    scene.ask("two")

    assert "the client hates green\n\ntoo hard for me" in system(agent.requests[0])
    assert scene.session.brief is None
