"""Questions that an agent leaves open, and where the reply goes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from orchestrator.errors import (
    Cancelled,
    RateLimited,
)
from orchestrator.modes import Mode
from orchestrator.planning.case import Expiry
from orchestrator.providers import Capabilities
from orchestrator.session import Need, Outcome, State
from orchestrator.testing.fake_provider import FakeProvider, says

from ..conftest import OWN, START, Scene, local, rules, strong, system


def waiting(scene: Scene, *more: list[object], capabilities: Capabilities | None = None) -> FakeProvider:
    """A session in which `strong` waits for a reply."""
    agent = strong(says("I can do both.\n**Which colour?**"), *more, capabilities=capabilities)  # type: ignore[arg-type]  # scripts
    scene.cast(local=local(says("fine"), says("fine")), strong=agent, other=strong(says("done"), says("done")))
    scene.ask("paint it", escalate=True)
    assert scene.session.state is State.WAITING
    return agent


@pytest.mark.parametrize("capabilities", [None, OWN], ids=["http", "own conversation"])
def test_a_reply_goes_to_the_agent_that_asked(scene: Scene, capabilities: Capabilities | None) -> None:
    waiting(scene, says("Blue it is."), capabilities=capabilities)
    scene.restart()

    report = scene.ask("blue")

    assert (report.turn.agent, report.turn.mode, rules(report.turn.reasons)) == ("strong", "resume", ["waiting"])
    assert (report.session.state, rules(report.plan.route.reasons)) == (State.ROUTING, ["waiting"])


def test_a_second_question_goes_on_waiting(scene: Scene) -> None:
    waiting(scene, says("Light or dark?"), says("Dark blue it is."))

    assert scene.ask("blue").session.state is State.WAITING
    assert scene.ask("dark").session.state is State.ROUTING


def test_a_reply_is_never_stale(scene: Scene) -> None:
    waiting(scene, says("Blue it is."))
    scene.save(need=Need("something else", 1, False, START, "user"))

    assert scene.ask("blue").turn.mode == "resume"


def test_an_open_question_lapses(scene: Scene) -> None:
    waiting(scene)
    scene.clock.advance(hours=24, seconds=1)

    report = scene.ask("blue")

    assert (report.turn.agent, report.session.state) == ("local", State.ROUTING)
    assert any("lapsed" in notice for notice in report.notices)


@pytest.mark.parametrize(
    ("passed", "expiry"), [(timedelta(hours=24), Expiry()), (timedelta(hours=-5), Expiry()), (timedelta(days=99), Expiry(waiting_hours=0))]
)
def test_an_open_question_stands(scene: Scene, passed: timedelta, expiry: Expiry) -> None:
    scene.expiry = expiry
    waiting(scene, says("Blue it is."))
    scene.clock.at += passed

    assert scene.ask("blue").turn.mode == "resume"


def test_forcing_a_fresh_start_goes_before_the_open_question(scene: Scene) -> None:
    waiting(scene, says("Blue it is."))

    report = scene.ask("blue", fresh=True)

    assert (report.turn.agent, report.turn.mode, rules(report.turn.reasons)) == ("strong", "fresh_start", ["forced"])


def test_another_agent_starts_afresh_with_the_open_question_before_it(scene: Scene) -> None:
    waiting(scene)

    report = scene.ask("blue", agent="other")

    assert (report.turn.mode, rules(report.turn.reasons)) == ("fresh_start", ["waiting", "other_agent"])
    told = system(scene.agents["other"].requests[0])
    assert "asked this by strong" in told
    assert "**Which colour?**" in told
    assert scene.session.state is State.ROUTING


def test_going_back_to_the_primary_leaves_waiting(scene: Scene) -> None:
    waiting(scene)

    scene.ask("never mind", primary=True)

    assert scene.session.state is State.ROUTING
    assert scene.ask("what now?").turn.agent == "local"


@pytest.mark.parametrize("primary", [True, False], ids=["primary", "asker"])
@pytest.mark.parametrize("error", [RateLimited("slow", retry_after=9999), Cancelled("enough")], ids=["failed", "cancelled"])
def test_a_turn_that_does_not_complete_keeps_the_question(scene: Scene, primary: bool, error: Exception) -> None:
    waiting(scene, [error], says("Blue it is."))
    scene.agents["local"] = local([error])
    scene.restart()

    report = scene.ask("blue", primary=primary)

    assert report.turn.outcome in (Outcome.FAILED, Outcome.CANCELLED)
    assert report.session.state is scene.session.state is State.WAITING
    assert scene.plan("blue").mode is Mode.RESUME


def test_the_brief_of_a_prompt_is_no_reason_that_was_given(scene: Scene) -> None:
    """It stays with the question, but an agent that remembers is not told its own first prompt again."""
    agent = waiting(scene, says("Well then."), capabilities=OWN)
    scene.clock.advance(hours=30)

    scene.ask("go on", escalate=True)

    assert agent.requests[1].conversation is not None
    assert "Why you have this turn" not in agent.requests[1].conversation.context_block


@pytest.mark.parametrize("fresh", [False, True])
def test_a_long_answer_that_asks_keeps_no_other_agent_out(scene: Scene, *, fresh: bool) -> None:
    other = FakeProvider(says("fine"))
    scene.cast(local=local(), strong=strong(says("A long report. " * 1300 + "\nWhich one?")))
    scene.agents["other"] = other
    scene.config = "[agents.other.limits]\nmessage_budget_chars = 8000\n"
    scene.ask("report", escalate=True)

    report = scene.ask("the first", agent="other", fresh=fresh)

    assert report.error is None
    assert "Which one?" in system(other.requests[0])
