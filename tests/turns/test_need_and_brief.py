"""What a turn does to the need and to the reason for a hand-over."""

from __future__ import annotations

from datetime import timedelta

import pytest

from orchestrator.errors import (
    Incomplete,
    ProtocolError,
    RateLimited,
)
from orchestrator.messages import ToolCall
from orchestrator.session import Brief, LastNeed, Need
from orchestrator.testing.fake_provider import FakeProvider, calls, says

from ..conftest import OWN, START, TOOLS, Scene, local, rules, strong, system, tag


def test_a_reason_that_was_given_stays_while_the_agent_asks(scene: Scene) -> None:
    agent = strong(says("Which colour?"), says("Blue it is."), says("x"))
    scene.cast(strong=agent, local=local())

    scene.ask("paint it", escalate=True, reason="it must be pretty")
    assert scene.session.brief == Brief("it must be pretty", "user", carried=True)
    scene.ask("blue")
    assert scene.session.brief is None

    assert "it must be pretty" in system(agent.requests[0])
    assert "it must be pretty" in system(agent.requests[1])


def test_the_first_prompt_is_the_brief_where_no_reason_was_given(scene: Scene) -> None:
    agent = strong(says("Which colour?"))
    scene.cast(strong=agent, local=local())

    scene.ask("paint it " * 100, escalate=True)

    assert scene.session.brief == Brief(("paint it " * 100)[:280], "prompt", carried=True)


def test_a_reason_outlives_failed_turns_and_modes(scene: Scene) -> None:
    agent = strong(says("a"), [ProtocolError("noise")], says("b"), says("c"))
    scene.cast(strong=agent, local=local(says("fine")))
    scene.ask(escalate=True)
    scene.ask(escalate=True, reason="mind the gap")
    scene.ask("hello", primary=True)

    scene.ask(escalate=True, fresh=True)
    scene.ask(escalate=True)

    assert ["mind the gap" in system(request) for request in agent.requests] == [False, True, True, False]


def test_a_reason_given_with_a_reply_that_failed_is_told_with_the_next(scene: Scene) -> None:
    agent = strong(says("Which colour?"), [ProtocolError("noise")], says("Which shade?"), says("And the door?"), says("Done."), capabilities=OWN)
    scene.cast(strong=agent, local=local())
    scene.ask("paint it", escalate=True)
    scene.ask("blue", reason="the client hates green")
    assert scene.session.brief == Brief("the client hates green", "user")
    scene.restart()

    scene.ask("blue")
    assert scene.session.brief == Brief("the client hates green", "user", carried=True)
    scene.ask("dark")
    scene.ask("white")

    blocks = [request.conversation.context_block for request in agent.requests if request.conversation]
    assert ["hates green" in block for block in blocks] == [False, True, True, False, False]
    assert scene.session.brief is None


@pytest.mark.parametrize("script", [says("fine"), [RateLimited("slow", retry_after=9999)]], ids=["completed", "failed"])
def test_a_reason_given_with_a_primary_turn_waits_for_the_next_escalation(scene: Scene, script: list[object]) -> None:
    agent = strong(says("a"))
    scene.cast(strong=agent, local=local(script, says("fine")))  # type: ignore[arg-type]  # a script

    scene.ask("hello", primary=True, reason="mind the gap")
    assert scene.session.brief == Brief("mind the gap", "user")
    scene.ask("hello again", primary=True, reason="  ")
    scene.ask(escalate=True)

    assert "mind the gap" in system(agent.requests[0])
    assert scene.session.brief is None


def test_a_blank_reason_is_none_also_when_the_turn_fails(scene: Scene) -> None:
    scene.cast(strong=strong([ProtocolError("noise")]), local=local())

    scene.ask("paint it", escalate=True, reason="  ")

    assert scene.session.brief is None


# -- the need -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("primary", "source"),
    [
        (local(says("ok" + tag("need", "ship it")), says("fine")), "tag"),
        (local(calls(ToolCall("c", "current_need", {"text": "ship it"})), says("ok"), says("fine"), capabilities=TOOLS), "tool"),
    ],
    ids=["tag", "tool"],
)
def test_the_primary_states_the_need(scene: Scene, primary: FakeProvider, source: str) -> None:
    agent = strong(says("a"), says("b"))
    scene.cast(local=primary, strong=agent)
    scene.ask(escalate=True)

    scene.ask("hello")

    assert scene.session.need == Need("ship it", 1, True, START, source)  # type: ignore[arg-type]  # a source
    report = scene.ask("do it", escalate=True)
    assert (report.turn.mode, rules(report.turn.reasons)) == ("fresh_start", ["need_changed"])
    assert "Current goal of the user" in system(agent.requests[1])


def test_a_need_that_an_escalation_turn_states_is_its_own(scene: Scene) -> None:
    scene.cast(local=local(), strong=strong(says("a" + tag("need", "ship it")), says("b"), says("c")))

    scene.ask(escalate=True)

    assert scene.session.need == Need("ship it", 0, True, START, "tag")
    assert scene.ask(escalate=True).turn.mode == "continuation"
    assert scene.plan(escalate=True).standing.need_status == "fulfilled"


def test_the_last_of_several_needs_stands(scene: Scene) -> None:
    scene.cast(local=local(says(tag("need", "one") + "x" + tag("need", "two"))), strong=strong())

    scene.ask()

    assert scene.session.need is not None
    assert scene.session.need.text == "two"


def test_the_same_need_again_is_only_renewed(scene: Scene) -> None:
    scene.cast(local=local(says("x" + tag("need", "ship it")), says("y" + tag("need", " SHIP IT "))), strong=strong())
    scene.ask()
    scene.clock.advance(hours=5)

    scene.ask()

    assert scene.session.need == Need("ship it", 0, True, START + timedelta(hours=5), "tag")


def test_a_need_expires_before_the_decision(scene: Scene) -> None:
    agent = strong(says("a"), says("b"))
    scene.cast(local=local(says("x" + tag("need", "ship it"))), strong=agent)
    scene.ask(escalate=True)
    scene.ask()
    scene.clock.advance(hours=24, seconds=1)

    report = scene.ask(escalate=True)

    assert (report.turn.mode, report.plan.standing.need_status) == ("returning", "expired")
    assert "ship it" not in system(agent.requests[1]).split("## What was done without you")[0]
    last = scene.session.last_need
    assert last is not None
    assert (last.need.text, last.reason, last.cleared_at) == ("ship it", "expired", scene.clock.now())


def test_a_served_need_is_told_as_the_previous_goal_on_returning(scene: Scene) -> None:
    agent = strong(says("a"), says("b"))
    scene.cast(local=local(says("x" + tag("need", "ship it")), says("y")), strong=agent)
    scene.ask()
    scene.ask(escalate=True)
    scene.restart()
    scene.ask("and then?")
    scene.restart()

    report = scene.ask(escalate=True)

    assert report.turn.mode == "returning"
    told = system(agent.requests[1])
    assert "Previous goal of the user" in told
    assert "Current goal" not in told
    assert scene.session.last_need == LastNeed(Need("ship it", 0, True, START, "tag"), "fulfilled", START)


def test_an_old_need_is_told_as_one_to_verify(scene: Scene) -> None:
    agent = strong(says("a"))
    scene.cast(local=local(says("x" + tag("need", "ship it")), says("y")), strong=agent)
    scene.ask()
    scene.ask()

    scene.ask(escalate=True)

    assert "Last known goal of the user" in system(agent.requests[0])


def test_a_need_stated_in_a_turn_that_failed_is_not_taken_up(scene: Scene) -> None:
    scene.cast(local=local([*says("x" + tag("need", "ship it") + tag("percept", "a fact"))[:-1], Incomplete("cut")]), strong=strong())

    scene.ask()

    assert scene.session.need is None
    assert scene.store.percepts(session="s1") == []


def test_a_need_by_tool_with_broken_characters_can_be_stored_and_told(scene: Scene) -> None:
    primary = local(calls(ToolCall("c", "current_need", {"text": "ship \ud800\x00it"})), says("ok"), says("ok"), capabilities=TOOLS)
    scene.cast(local=primary, strong=strong())
    scene.ask()

    scene.ask()

    assert "ship \ufffd\ufffdit" in system(primary.requests[2])
