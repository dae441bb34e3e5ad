"""Whole turns: hand-overs, open questions, needs, briefs, facts, conversations that agents keep, and everything that can go wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from orchestrator.documents.plan import plan_document
from orchestrator.documents.turn import turn_document
from orchestrator.errors import (
    BudgetExceeded,
    Cancelled,
    ConfigError,
    EmptyAnswer,
    Incomplete,
    LeaseLost,
    ProtocolError,
    RateLimited,
    SessionInUse,
    SessionLost,
    StoreError,
    StoreFull,
    StoreReadOnly,
    UsageError,
)
from orchestrator.messages import Text, ToolCall, ToolResult, Usage
from orchestrator.modes import Mode
from orchestrator.percepts import MAX_CONTENT
from orchestrator.planning import Expiry
from orchestrator.providers import Answer, Cancel, Capabilities, ExternalSessionStarted, Finished, MessageDone, Question, TextDelta, ToolResultSeen
from orchestrator.recording import addressed
from orchestrator.session import Brief, LastNeed, Need, Outcome, State, TurnError
from orchestrator.store import Claim
from orchestrator.store.sqlite import SqliteStore, open_store
from orchestrator.tags import TagKind
from orchestrator.testing.fake_provider import UNTIL_CANCELLED, FakeProvider, calls, says

from .conftest import OWN, START, TOOLS, Scene, local, rules, strong, system, tag, texts

HAND_OVER = f"I looked. {tag('escalate', 'too hard for me')}"
BY_TOOL = ToolCall("c1", "escalate", {"reason": "too hard for me"})


# -- the primary hands over -----------------------------------------------------------------------


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


# -- waiting --------------------------------------------------------------------------------------


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


# -- the brief ------------------------------------------------------------------------------------


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


# -- facts ----------------------------------------------------------------------------------------


def test_facts_become_percepts_of_the_session(scene: Scene) -> None:
    scene.cast(local=local(says("ok" + tag("percept", "likes tabs") + tag("percept", "@strong: be brief"))), strong=strong())

    scene.ask()

    stored = {percept.content: percept for percept in scene.store.percepts(session="s1")}
    assert sorted(stored) == ["be brief", "likes tabs"]
    assert (stored["likes tabs"].consumer, stored["be brief"].consumer) == ("all", "strong")
    assert (stored["likes tabs"].producer, stored["likes tabs"].session, stored["likes tabs"].trust) == ("primary", "s1", "agent")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@strong: be brief", ("strong", "be brief")),
        ("@my-agent.2: x\ny", ("my-agent.2", "x\ny")),
        ("@strong:be brief", ("all", "@strong:be brief")),
        ("@strong: ", ("all", "@strong:")),
        ("mail me @home: tonight", ("all", "mail me @home: tonight")),
        (" plain ", ("all", "plain")),
    ],
)
def test_a_fact_can_be_addressed_to_one_agent(text: str, expected: tuple[str, str]) -> None:
    assert addressed(text) == expected


def test_a_fact_that_is_too_long_is_not_remembered_and_the_user_is_told(scene: Scene) -> None:
    scene.cast(local=local(says("ok" + tag("percept", "x" * (MAX_CONTENT + 1)) + tag("percept", "x" * MAX_CONTENT))), strong=strong())

    report = scene.ask()

    assert [len(percept.content) for percept in scene.store.percepts(session="s1")] == [MAX_CONTENT]
    assert any("was not remembered" in notice for notice in report.notices)


@pytest.mark.parametrize("kind", ["need", "percept"])
def test_an_answer_of_tags_alone_is_acted_on_like_one_by_tool(scene: Scene, kind: TagKind) -> None:
    scene.cast(local=local(says(tag(kind, "ship it")), says("later")), strong=strong())

    report = scene.ask("my goal is to ship")

    assert (report.error, report.turn.outcome, report.turn.answer) == (None, Outcome.COMPLETED, "")
    learned = [percept.content for percept in scene.store.percepts(session="s1")]
    assert ("ship it" in learned) == (kind == "percept")
    assert (scene.session.need is not None) == (kind == "need")
    assert scene.ask("go on").turn.answer == "later"


def test_an_agent_without_a_conversation_is_told_facts_in_every_turn(scene: Scene) -> None:
    agent = strong(says("a"), says("b"))
    scene.cast(local=local(says("c")), strong=agent)
    scene.remember("likes tabs")
    scene.remember("be brief", consumer="strong")
    scene.remember("be long", consumer="local")

    for choice in ({"escalate": True}, {"escalate": True}, {"primary": True}):
        scene.ask(**choice)

    for request in agent.requests:
        (block,) = [block.text for block in request.system if block.name == "percepts"]
        assert ("likes tabs" in block, "be brief" in block, "be long" in block) == (True, True, False)
    told = system(scene.agents["local"].requests[0])
    assert ("likes tabs" in told, "be brief" in told, "be long" in told) == (True, False, True)


def test_an_own_conversation_is_told_a_fact_once_and_again_on_returning(scene: Scene) -> None:
    agent = strong(*[says("a")] * 5, capabilities=OWN)
    scene.cast(local=local(says("x")), strong=agent)
    scene.remember("likes tabs")
    scene.ask(escalate=True)
    scene.restart()
    scene.ask(escalate=True)
    scene.remember("hates spaces")
    scene.ask(escalate=True)
    scene.ask(escalate=True)
    scene.ask("hello", primary=True)
    scene.ask(escalate=True)

    blocks = [request.conversation.context_block for request in agent.requests if request.conversation]
    assert [("likes tabs" in block, "hates spaces" in block) for block in blocks] == [
        (False, False),
        (False, False),
        (False, True),
        (False, False),
        (True, True),
    ]
    assert "likes tabs" in agent.requests[0].conversation.system_text  # type: ignore[union-attr]


def test_facts_that_were_sent_count_as_used_only_when_the_turn_succeeds(scene: Scene) -> None:
    scene.cast(local=local([ProtocolError("noise")], says("ok")), strong=strong())
    scene.remember("likes tabs")
    scene.ask()
    assert scene.store.percepts()[0].last_used_at is None

    scene.ask()

    assert scene.store.percepts()[0].last_used_at == START


def test_a_fact_that_an_own_conversation_was_told_is_neither_sent_nor_used_again(scene: Scene) -> None:
    scene.cast(local=local(), strong=strong(says("a"), says("b"), capabilities=OWN))
    known = scene.remember("likes tabs")
    scene.ask(escalate=True)
    scene.clock.advance(hours=1)
    new = scene.remember("hates spaces")

    document = plan_document(scene.plan(escalate=True), expiry=Expiry(), now=scene.clock.now())
    scene.ask(escalate=True)

    assert document["percepts"] == {"sent": [new.id], "withheld": [{"id": known.id, "why": "already told"}]}
    assert {percept.id: percept.last_used_at for percept in scene.store.percepts()} == {known.id: START, new.id: START + timedelta(hours=1)}


# -- tags where they must not count ---------------------------------------------------------------


def test_tags_that_an_agent_is_shown_are_harmless(scene: Scene) -> None:
    primary = local(calls(ToolCall("c", "record_memory", {"content": f"see {tag('need', 'from a fact')}"})), says("ok"), says("ok"), capabilities=TOOLS)
    agent = strong([MessageDone((ToolCall("r", "Read"),)), ToolResultSeen("r", tag("need", "from a file")), *says("read")], says("b"))  # type: ignore[list-item]
    agent.capabilities = OWN
    scene.cast(local=primary, strong=agent)
    scene.ask(f"please {tag('escalate', 'from the user')}")
    scene.ask(escalate=True)
    scene.ask("again")

    assert scene.session.need is None
    assert [turn.outcome for turn in scene.turns] == [Outcome.COMPLETED] * 3
    for request in (*primary.requests, *agent.requests):
        dynamic = "\n".join([*(block.text for block in request.system if block.name != "static"), *texts(request)])
        assert "<escalera:" not in dynamic
    assert "‹escalera:escalate" in texts(primary.requests[0])[0]


# -- agents with a conversation of their own ------------------------------------------------------


def own(scene: Scene, *answers: str, **options: object) -> FakeProvider:
    agent = strong(*[says(answer) for answer in answers], capabilities=OWN, **options)  # type: ignore[arg-type]  # as `strong` takes them
    scene.cast(local=local(*[says("fine")] * 9), strong=agent)
    return agent


def test_a_conversation_is_started_and_gone_on_in(scene: Scene) -> None:
    agent = own(scene, "a", "b", "c")

    modes = [scene.ask(f"turn {number}", escalate=True).turn.mode for number in range(2)]
    scene.ask("hello", primary=True)
    modes.append(scene.ask("back", escalate=True).turn.mode)

    first, *later = [request.conversation for request in agent.requests if request.conversation]
    assert modes == ["first", "continuation", "returning"]
    assert [first.action, *(conversation.action for conversation in later)] == ["start", "resume", "resume"]
    assert {conversation.id for conversation in later} == {first.id}
    assert [len(request.messages) for request in agent.requests] == [1, 1, 1]
    assert all(request.system == () for request in agent.requests)


def test_the_system_text_is_the_same_bytes_for_the_life_of_a_conversation(scene: Scene) -> None:
    agent = own(scene, "a", "b", "c", "d")
    scene.remember("likes tabs")
    scene.ask("one", escalate=True, reason="why not")
    scene.remember("hates spaces")
    scene.config = 'prompt = "Be kind."\n'  # of the agent whose table stands last
    scene.restart()
    scene.ask("hello", primary=True)
    scene.ask("two", escalate=True)
    scene.ask("three", escalate=True)
    scene.ask("four", escalate=True, fresh=True)

    frozen = [request.conversation.system_text for request in agent.requests if request.conversation]
    assert frozen[0] == frozen[1] == frozen[2] != frozen[3]
    assert "likes tabs" in frozen[0]
    assert "hates spaces" not in frozen[0]
    assert "hates spaces" in frozen[3]
    assert "Be kind." in frozen[3]


def test_every_later_turn_begins_with_the_context_block(scene: Scene) -> None:
    agent = own(scene, "a", "b")
    scene.ask(escalate=True)
    scene.ask(escalate=True)

    blocks = [request.conversation.context_block for request in agent.requests if request.conversation]
    assert len({block.splitlines()[0] for block in blocks}) == 1
    assert "nothing new to tell" in blocks[1]


def test_activity_is_told_once_and_marks_survive_a_restart(scene: Scene) -> None:
    agent = own(scene, "a", "Which one?", "b")
    scene.ask(escalate=True)
    scene.ask("hello there", primary=True)
    scene.ask(escalate=True)
    scene.restart()
    scene.ask("this one")

    blocks = [request.conversation.context_block for request in agent.requests if request.conversation]
    assert ["hello there" in block for block in blocks] == [False, True, False]


def test_marks_move_only_when_a_turn_succeeds(scene: Scene) -> None:
    agent = own(scene, "a")
    agent.will([ProtocolError("noise")], says("b"))
    scene.ask(escalate=True)
    scene.remember("likes tabs")
    before = scene.session.external_sessions

    scene.ask(escalate=True)
    assert scene.session.external_sessions == before
    scene.ask(escalate=True)

    assert ["likes tabs" in system(request) for request in agent.requests] == [False, True, True]


def test_the_agents_own_id_is_adopted_from_a_turn_that_completed(scene: Scene) -> None:
    agent = strong(
        [ExternalSessionStarted("e-1"), ProtocolError("noise")], [ExternalSessionStarted("e-2"), *says("a", model="opus")], says("b"), capabilities=OWN
    )
    scene.cast(local=local(), strong=agent)

    scene.ask(escalate=True)
    assert scene.session.external_sessions == ()
    scene.ask(escalate=True)
    scene.ask(escalate=True)

    assert [known.id for known in scene.session.external_sessions] == ["e-2"]
    assert agent.requests[2].conversation is not None
    assert (agent.requests[2].conversation.id, agent.requests[2].conversation.model) == ("e-2", "opus")
    first, second = (request.conversation for request in agent.requests[:2])
    assert first is not None
    assert second is not None
    assert first.id != second.id


def test_after_a_downgrade_the_old_id_is_replaced_only_when_the_new_one_completed(scene: Scene) -> None:
    agent = own(scene, "a")
    agent.will([ProtocolError("noise")], says("b"), says("c"))
    scene.ask(escalate=True)
    (old,) = scene.session.external_sessions

    scene.ask(escalate=True, fresh=True)
    assert scene.session.external_sessions == (old,)
    scene.ask(escalate=True, fresh=True)
    (new,) = scene.session.external_sessions
    scene.ask(escalate=True)

    assert new.id != old.id
    assert [request.conversation.id for request in agent.requests if request.conversation][1:] != [old.id] * 3
    assert agent.requests[3].conversation is not None
    assert (agent.requests[3].conversation.action, agent.requests[3].conversation.id) == ("resume", new.id)


def test_a_conversation_of_another_directory_is_not_gone_on_in(scene: Scene) -> None:
    own(scene, "a", "b")
    scene.ask(escalate=True)
    (old,) = scene.session.external_sessions
    scene.save(external_sessions=(replace(old, workspace="/work/b"),))

    report = scene.ask(escalate=True)

    assert (report.turn.mode, rules(report.turn.reasons)) == ("fresh_start", ["no_primary_turns", "other_workspace"])
    assert {known.workspace for known in scene.session.external_sessions} == {"/work/a", "/work/b"}


@pytest.mark.trial("T76")
def test_t76_a_conversation_goes_on_in_the_same_directory_spelt_otherwise(scene: Scene) -> None:
    agent = strong(says("a"), says("b"), capabilities=OWN)
    scene.cast(local=local(), strong=agent)
    scene.ask(escalate=True)
    begun = scene.session.external_sessions[0].id
    scene.workspace = "/work/b/../a/"
    scene.restart()

    report = scene.ask(escalate=True)

    assert report.turn.mode == Mode.CONTINUATION
    assert [(known.id, known.turn_index) for known in report.session.external_sessions] == [(begun, 1)]
    assert turn_document(report)["external_session"] == begun


def test_a_conversation_of_another_configuration_folder_is_not_gone_on_in(scene: Scene) -> None:
    own(scene, "a", config_dir="/home/u/.claude")
    scene.ask(escalate=True)
    own(scene, "b", config_dir="/home/u/.other")

    assert rules(scene.ask(escalate=True).turn.reasons) == ["no_primary_turns", "other_workspace"]


def test_a_conversation_that_the_agent_lost_is_told_to_the_user(scene: Scene) -> None:
    agent = own(scene, "a")
    agent.will([SessionLost("no such conversation", sent=False)], says("b"))
    scene.ask(escalate=True)

    report = scene.ask(escalate=True)

    assert (report.turn.outcome, report.turn.mode, rules(report.turn.reasons)) == (
        Outcome.COMPLETED,
        "fresh_start",
        ["no_primary_turns", "external_session_lost"],
    )
    assert len(scene.turns) == 2
    assert any("lost its own memory" in notice for notice in report.notices)


def test_a_swap_of_the_escalation_agent_keeps_the_old_ones_conversation(scene: Scene) -> None:
    cli = strong(says("a"), says("c"), capabilities=OWN)
    http = strong(says("b"))
    scene.cast(local=local(says("fine")), cli=cli, http=http)
    scene.roles = {"primary": "local", "escalation": "cli"}
    scene.restart()
    scene.ask("one", escalate=True)
    kept = scene.session.external_sessions

    scene.roles = {"primary": "local", "escalation": "http"}
    scene.restart()
    second = scene.ask("two", escalate=True)
    assert (second.turn.agent, second.turn.mode) == ("http", "continuation")
    assert scene.session.external_sessions == kept
    assert "[answer of cli, the escalation agent]" in str(texts(http.requests[0]))

    scene.roles = {"primary": "local", "escalation": "cli"}
    scene.restart()
    third = scene.ask("three", escalate=True)

    assert (third.turn.mode, rules(third.turn.reasons)) == ("fresh_start", ["no_primary_turns", "other_agent"])
    assert cli.requests[1].conversation is not None
    assert cli.requests[1].conversation.action == "start"
    assert "two" in system(cli.requests[1])


def test_a_provider_that_begins_to_keep_its_conversation_starts_one(scene: Scene) -> None:
    scene.cast(local=local(), strong=strong(says("a")))
    scene.ask(escalate=True)
    scene.cast(local=local(), strong=strong(says("b"), capabilities=OWN))

    report = scene.ask(escalate=True)

    assert rules(report.turn.reasons) == ["no_primary_turns", "external_session_missing"]
    assert any("lost its own memory" in notice for notice in report.notices)


def test_a_primary_with_its_own_conversation_has_one_and_is_told_what_it_missed(scene: Scene) -> None:
    primary = local(says("one"), says("two"), says("three"), capabilities=OWN)
    scene.cast(local=primary, strong=strong(says("solved by care")))
    scene.ask("first")
    scene.ask("do it", escalate=True)
    scene.ask("second")
    scene.restart()
    scene.ask("third")

    conversations = [request.conversation for request in primary.requests if request.conversation]
    assert [conversation.action for conversation in conversations] == ["start", "resume", "resume"]
    assert ["solved by care" in conversation.context_block for conversation in conversations] == [False, True, False]
    assert [turn.mode for turn in scene.turns] == [None, "first", None, None]
    assert len({conversation.system_text for conversation in conversations}) == 1


@pytest.mark.parametrize("role", ["primary", "escalation"])
def test_an_agent_that_may_remember_an_attempt_is_told_that_it_was_cut_off(scene: Scene, role: str) -> None:
    choice = {"primary": True} if role == "primary" else {"escalate": True}
    agent = FakeProvider(says("a"), [TextDelta("hal"), Cancelled("enough")], says("b"), says("c"), capabilities=OWN)
    scene.cast(**({"local": agent, "strong": strong()} if role == "primary" else {"local": local(), "strong": agent}))
    for prompt in ("one", "two", "three", "four"):
        scene.ask(prompt, **choice)

    blocks = [request.conversation.context_block for request in agent.requests if request.conversation]
    assert ['attempted "two", cancelled' in block for block in blocks] == [False, False, True, False]


def test_a_primary_that_remembers_is_told_what_another_primary_did(scene: Scene) -> None:
    primary = local(says("a"), says("b"), capabilities=OWN)
    scene.cast(local=primary, strong=strong(says("solved")), other=local(says("the other work")))
    scene.ask("one")
    scene.ask("two", primary=True, agent="other")
    scene.ask("three", escalate=True)

    scene.ask("four")

    assert primary.requests[1].conversation is not None
    block = primary.requests[1].conversation.context_block
    assert "the other work" in block
    assert block.count("solved") == 1


def test_a_primary_that_remembers_is_told_every_escalation_turn_since_its_own_last(scene: Scene) -> None:
    primary = local(says("p0"), says("p4"), says("p6"), capabilities=OWN)
    agent = strong(says("first run " * 30), says("second run " * 30), says("third"))
    scene.cast(local=primary, strong=agent, helper=local(says("h")))
    scene.ask("a")
    scene.ask("b", escalate=True)
    scene.ask("c", agent="helper", primary=True)
    scene.ask("d", escalate=True)
    scene.ask("e")
    scene.ask("f", escalate=True)
    scene.ask("g")

    blocks = [request.conversation.context_block for request in primary.requests if request.conversation]
    assert [[text in block for text in ("first run", "second run", "third")] for block in blocks] == [
        [False, False, False],
        [True, True, False],
        [False, False, True],
    ]


def test_the_model_of_a_conversation_is_the_one_it_began_with(scene: Scene) -> None:
    agent = strong(
        [MessageDone((Text("a"),)), Finished("stop", model_served="m-1")], [MessageDone((Text("b"),)), Finished("stop", model_served="m-2")], capabilities=OWN
    )
    scene.cast(local=local(), strong=agent)

    scene.ask(escalate=True)
    scene.ask(escalate=True)

    assert [turn.model_served for turn in scene.turns] == ["m-1", "m-2"]
    assert scene.session.external_sessions[0].model == "m-1"


def test_primary_and_escalation_agent_keep_a_conversation_each(scene: Scene) -> None:
    scene.cast(local=local(says("one"), says("two"), capabilities=OWN), strong=strong(says("a"), says("b"), capabilities=OWN))
    for _ in range(2):
        scene.ask("x", primary=True)
        scene.ask("y", escalate=True)

    assert sorted(known.agent for known in scene.session.external_sessions) == ["local", "strong"]
    assert {request.conversation.id for request in scene.agents["local"].requests if request.conversation}.isdisjoint(
        {request.conversation.id for request in scene.agents["strong"].requests if request.conversation}
    )


# -- size -----------------------------------------------------------------------------------------


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


# -- turns that do not complete -------------------------------------------------------------------


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
    assert (turn.usage, turn.model_requested, turn.model_served) == (Usage(10, 2), "local-1", "local-1b")


def test_questions_go_to_the_broker(scene: Scene) -> None:
    primary = local([Question("May I?"), *says("ok")])
    scene.cast(local=primary, strong=strong())

    scene.ask(ask=lambda question: Answer("accept", {"to": question.message}))

    assert primary.answers == [Answer("accept", {"to": "May I?"})]


# -- what is stored when --------------------------------------------------------------------------


def test_the_turn_and_its_steps_can_be_read_while_it_runs(scene: Scene) -> None:
    seen: list[tuple[Outcome, int, str | None]] = []

    def look() -> None:
        other = open_store(scene.folder / "data", clock=scene.clock, read_only=True)
        (turn,) = other.log("s1").newest_first(outcomes=None)
        seen.append((turn.outcome, len(turn.steps), turn.prompt))
        other.close()

    scene.cast(local=local([look, *calls(ToolCall("c", "current_need", {"text": "x"})), look], [look, *says("done")], capabilities=TOOLS), strong=strong())

    scene.ask("hello")

    assert seen == [(Outcome.OPEN, 0, "hello"), (Outcome.OPEN, 1, "hello"), (Outcome.OPEN, 2, "hello")]


def fill(store: SqliteStore, pages: int = 0) -> None:
    connection = store._database._writing.connection  # type: ignore[union-attr]  # no disk of a test's own can be filled
    used = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {used + pages}")


@pytest.mark.trial("T75")
def test_t75_an_answer_that_cannot_be_saved_is_still_given(scene: Scene) -> None:
    scene.cast(local=local(says("ok"), [lambda: fill(scene.store), *says("x" * 200_000)], says("later")), strong=strong())
    scene.ask("first")
    before = scene.session

    report = scene.ask("second")

    assert isinstance(report.error, StoreFull)
    assert report.turn.answer == "x" * 200_000
    assert "".join(scene.seen("text")) == "x" * 200_000
    assert any("could not be saved" in notice for notice in report.notices)
    fill(scene.store, 100_000)
    scene.restart()
    assert replace(scene.session, updated_at=None) == replace(before, updated_at=None)
    assert scene.ask("third").turn.outcome is Outcome.COMPLETED
    assert [(turn.prompt, turn.outcome) for turn in scene.turns] == [
        ("first", Outcome.COMPLETED),
        ("second", Outcome.INTERRUPTED),
        ("third", Outcome.COMPLETED),
    ]


@pytest.mark.trial("T75")
def test_t75_steps_that_did_not_fit_are_stored_when_there_is_room_again(scene: Scene) -> None:
    script = [lambda: fill(scene.store), MessageDone((Text("x" * 200_000),)), lambda: fill(scene.store, 100_000), MessageDone((Text("y"),)), Finished("stop")]
    scene.cast(local=local(script), strong=strong())  # type: ignore[arg-type]  # a script

    report = scene.ask()

    assert report.error is None
    assert [len(step.text) for step in scene.turns[0].steps if isinstance(step, Text)] == [200_000, 1]


@pytest.mark.trial("T75")
def test_t75_a_hand_over_that_cannot_be_saved_goes_no_further(scene: Scene) -> None:
    agent = strong()
    scene.cast(local=local([lambda: fill(scene.store), *says("x" * 200_000 + HAND_OVER)]), strong=agent)

    report = scene.ask()

    assert isinstance(report.error, StoreFull)
    assert report.turn.answer.startswith("xxx")
    assert agent.requests == []


def test_a_store_that_is_full_from_the_start_refuses_before_anything_is_sent(scene: Scene) -> None:
    scene.cast(local=local(says("never")), strong=strong())
    fill(scene.store)

    with pytest.raises(StoreFull):
        scene.ask("x" * 90_000)

    assert scene.agents["local"].requests == []
    assert scene.turns == []


def test_a_session_in_use_by_another_process_takes_no_turn(scene: Scene) -> None:
    scene.session_wait = 2
    scene.cast(local=local(says("never")), strong=strong())
    scene.store.claim("s1", "somebody else", timedelta(hours=1))

    with pytest.raises(SessionInUse):
        scene.ask()

    assert (scene.turns, scene.agents["local"].requests) == ([], [])


def test_a_lease_lost_in_the_middle_ends_the_call_and_writes_nothing_more(scene: Scene) -> None:
    def taken_over() -> None:
        scene.clock.advance(seconds=61)
        assert isinstance(scene.store.claim("s1", "somebody else", timedelta(seconds=60)), Claim)

    script = [*calls(ToolCall("c", "Read"))[:-1], taken_over, MessageDone((Text("never stored"),)), UNTIL_CANCELLED, *says("never asked for")]
    scene.cast(local=local(script, capabilities=OWN), strong=strong())

    report = scene.ask()

    assert isinstance(report.error, LeaseLost)
    assert (report.turn.outcome, report.turn.answer) == (Outcome.CANCELLED, "never stored")
    (turn,) = scene.turns
    assert (turn.outcome, turn.steps) == (Outcome.INTERRUPTED, (ToolCall("c", "Read"),))
    assert scene.session.external_sessions == ()
    assert "never asked for" not in "".join(scene.seen("text"))


def test_a_turn_that_is_cancelled_since_its_lease_is_gone_writes_nothing(scene: Scene) -> None:
    def taken_over() -> None:
        scene.clock.advance(seconds=61)
        scene.store.claim("s1", "somebody else", timedelta(seconds=60))

    scene.cast(local=local([TextDelta("so f"), taken_over, Cancelled("the lease could not be renewed")]), strong=strong())

    report = scene.ask()

    assert isinstance(report.error, LeaseLost)
    assert (report.turn.answer, report.turn.outcome) == ("so f", Outcome.CANCELLED)
    assert scene.turns[0].steps == ()


def test_an_answer_whose_lease_lapsed_meanwhile_is_still_given(scene: Scene) -> None:
    scene.cast(local=local([TextDelta("precious "), lambda: scene.clock.advance(minutes=10), *says("precious answer", streamed=False)]), strong=strong())

    report = scene.ask()

    assert isinstance(report.error, LeaseLost)
    assert (report.turn.answer, report.turn.outcome) == ("precious answer", Outcome.COMPLETED)
    assert any("could not be saved" in notice for notice in report.notices)
    scene.restart()
    assert [(turn.outcome, turn.steps) for turn in scene.turns] == [(Outcome.INTERRUPTED, ())]


@dataclass
class Refusing:
    """A store of which one call of a kind, and from there on all of that kind, is refused."""

    store: SqliteStore
    call: str
    error: StoreError
    number: int = 1

    def __getattr__(self, name: str) -> object:
        return self._refused if name == self.call else getattr(self.store, name)

    def _refused(self, *arguments: object) -> object:
        self.number -= 1
        if self.number <= 0:
            raise self.error
        return getattr(self.store, self.call)(*arguments)


def refuse(scene: Scene, call: str, error: StoreError, number: int = 1) -> None:
    scene._place = replace(scene.place, store=Refusing(scene.place.store, call, error, number))  # type: ignore[arg-type]  # a store


@pytest.mark.parametrize("call", ["append_step", "close_turn"])
@pytest.mark.parametrize("error", [StoreError("busy: another process is writing"), StoreReadOnly("cannot be written"), StoreFull("full")], ids=lambda e: e.type)
def test_an_answer_that_the_store_refuses_is_still_given(scene: Scene, call: str, error: StoreError) -> None:
    scene.cast(local=local(says("precious " + tag("need", "ship it"))), strong=strong())
    refuse(scene, call, error)

    report = scene.ask()

    assert report.error is error
    assert (report.turn.answer.strip(), report.turn.outcome) == ("precious", Outcome.COMPLETED)
    assert report.notices == (f"this turn could not be saved: {error.message}",)
    assert report.session.need is None
    assert scene.turns[0].outcome is Outcome.INTERRUPTED


def test_a_store_that_cannot_note_what_was_used_takes_nothing_from_the_turn(scene: Scene) -> None:
    scene.cast(local=local(says("fine")), strong=strong())
    scene.remember("likes tea", core=True, weight=100)
    refuse(scene, "mark_used", StoreError("busy"))

    assert scene.ask().error is None
    assert scene.turns[0].outcome is Outcome.COMPLETED


@pytest.mark.parametrize("call", ["open_turn", "log"])
def test_a_hand_over_that_the_store_keeps_from_being_taken_leaves_the_primarys_answer(scene: Scene, call: str) -> None:
    agent = strong(says("never"))
    scene.cast(local=local(says(HAND_OVER)), strong=agent)
    error = StoreFull("full")
    refuse(scene, call, error, number=2)

    report = scene.ask()

    assert report.error is error
    assert (report.turn.answer.strip(), report.turn.outcome, report.turn.index) == ("I looked.", Outcome.ESCALATED, 0)
    assert report.notices == ("'local' handed this turn over, and it cannot be gone on with, since the store failed",)
    assert agent.requests == []
    assert [turn.outcome for turn in scene.turns] == [Outcome.ESCALATED]
    assert scene.session.brief == Brief("too hard for me", "primary")


def test_the_session_is_free_again_after_every_kind_of_end(scene: Scene) -> None:
    scene.session_wait = 0
    cancel = Cancel()
    scene.cast(local=local([ProtocolError("noise")], [cancel.set, UNTIL_CANCELLED], says("ok")), strong=strong())
    ends = [scene.ask().turn.outcome, scene.ask(cancel=cancel).turn.outcome]
    with pytest.raises(UsageError, match="empty"):
        scene.ask(" \n")
    scene.restart()

    ends.append(scene.ask().turn.outcome)

    assert ends == [Outcome.FAILED, Outcome.CANCELLED, Outcome.COMPLETED]
    assert not scene.store.list(None)[0].in_use


# -- tools ----------------------------------------------------------------------------------------


def test_tool_steps_are_stored_and_sent_again_as_such_to_the_one_who_made_them(scene: Scene) -> None:
    primary = local(calls(ToolCall("c", "current_need", {"text": "ship"}), text="noting"), says("done"), says("ok"), capabilities=TOOLS)
    agent = strong(says("seen"))
    scene.cast(local=primary, strong=agent)
    scene.ask("first")

    scene.ask("second")
    scene.ask("third", escalate=True)

    assert scene.turns[0].steps == (Text("noting"), ToolCall("c", "current_need", {"text": "ship"}), ToolResult("c", "recorded"), Text("done"))
    assert texts(primary.requests[2]) == ["user: first", "assistant: noting|current_need()", "user: recorded", "assistant: done", "user: second"]
    assert not any(isinstance(part, ToolCall | ToolResult) for message in agent.requests[0].messages for part in message.parts)
