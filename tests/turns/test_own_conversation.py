"""Agents that keep a conversation of their own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orchestrator.documents.turn import turn_document
from orchestrator.errors import (
    Cancelled,
    InvalidRequest,
    Overloaded,
    ProtocolError,
    ProviderError,
    SessionLost,
    Unavailable,
)
from orchestrator.messages import Text
from orchestrator.modes import Mode
from orchestrator.providers import ExternalSessionStarted, Finished, MessageDone, TextDelta
from orchestrator.session import Outcome
from orchestrator.testing.fake_provider import FakeProvider, says

from ..conftest import OWN, Scene, local, rules, strong, system, texts


def own(scene: Scene, *answers: str | list[ProviderError], **options: object) -> FakeProvider:
    agent = strong(*[says(answer) if isinstance(answer, str) else answer for answer in answers], capabilities=OWN, **options)  # type: ignore[arg-type]  # as `strong` takes them
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


def test_each_attempt_to_begin_a_conversation_takes_an_id_of_its_own(scene: Scene) -> None:
    agent = own(scene, [Unavailable("no")], [Overloaded("busy")], "a", "b")

    report = scene.ask("one", escalate=True)
    scene.ask("two", escalate=True)

    ids = [request.conversation.id for request in agent.requests if request.conversation]
    assert report.error is None
    assert len(set(ids[:3])) == 3
    assert ids[3] == ids[2]


@pytest.mark.parametrize(("errors", "sends"), [([Overloaded("busy")], 2), ([Overloaded("busy")] * 2, 2), ([InvalidRequest("no")], 1)])
def test_an_attempt_to_go_on_is_repeated_at_most_once_and_in_the_same_conversation(scene: Scene, errors: list[ProviderError], sends: int) -> None:
    agent = own(scene, "a", *([error] for error in errors), "b", "c")
    scene.ask("one", escalate=True)

    report = scene.ask("two", escalate=True)

    assert len(agent.requests) == 1 + sends
    assert len({request.conversation.id for request in agent.requests if request.conversation}) == 1
    assert (report.error is None) == (len(errors) < sends)


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


def test_the_model_of_a_conversation_goes_by_the_agents_own_name_for_it(scene: Scene) -> None:
    """What the message names is another variant where it is asked for: `m-1[1m]` has a larger window than `m-1`."""
    script = [ExternalSessionStarted("e-1", "m-1[1m]"), MessageDone((Text("a"),)), Finished("stop", model_served="m-1")]
    agent = strong(script, says("b"), capabilities=OWN)
    scene.cast(local=local(), strong=agent)

    scene.ask(escalate=True)
    scene.ask(escalate=True)

    assert agent.requests[1].conversation is not None
    assert (agent.requests[1].conversation.model, scene.turns[0].model_served) == ("m-1[1m]", "m-1")


def test_primary_and_escalation_agent_keep_a_conversation_each(scene: Scene) -> None:
    scene.cast(local=local(says("one"), says("two"), capabilities=OWN), strong=strong(says("a"), says("b"), capabilities=OWN))
    for _ in range(2):
        scene.ask("x", primary=True)
        scene.ask("y", escalate=True)

    assert sorted(known.agent for known in scene.session.external_sessions) == ["local", "strong"]
    assert {request.conversation.id for request in scene.agents["local"].requests if request.conversation}.isdisjoint(
        {request.conversation.id for request in scene.agents["strong"].requests if request.conversation}
    )


@pytest.mark.parametrize("lost", [False, True])
def test_a_primary_that_begins_its_own_conversation_is_told_all_that_came_before(scene: Scene, lost: bool) -> None:
    if lost:
        primary = local(says("noted"), [SessionLost("no conversation found")], says("Rex"), capabilities=OWN)
        scene.cast(local=primary, strong=strong(says("solved")))
    else:
        scene.cast(local=local(says("noted")), strong=strong(says("solved")))
    scene.ask("my dog is called Rex")
    scene.ask("do it", escalate=True)
    if not lost:
        primary = local(says("Rex"), capabilities=OWN)
        scene.cast(local=primary, strong=strong())

    scene.ask("what is my dog called?")

    conversation = primary.requests[-1].conversation
    assert conversation is not None
    assert conversation.action == "start"
    assert "my dog is called Rex" in conversation.system_text
    assert "solved" in conversation.system_text


def test_an_agent_that_changes_its_role_begins_another_conversation(scene: Scene) -> None:
    agent = FakeProvider(says("a"), says("b"), says("c"), says("d"), capabilities=OWN)
    scene.cast(local=local(), strong=strong(), agent=agent)
    scene.ask("one", escalate=True, agent="agent")
    scene.ask("two", primary=True, agent="agent")
    scene.ask("three", primary=True, agent="agent")
    scene.ask("four", escalate=True, agent="agent")

    conversations = [request.conversation for request in agent.requests if request.conversation]
    assert [conversation.action for conversation in conversations] == ["start", "start", "resume", "start"]
    assert ["You are agent, the escalation agent" in conversation.system_text for conversation in conversations] == [True, False, False, True]
    assert [scene.turns[-1].mode, *rules(scene.turns[-1].reasons)] == ["fresh_start", "primary_worked", "external_session_missing"]
