"""Facts and tags: what is told, what is remembered, and what must not count."""

from __future__ import annotations

from datetime import timedelta

import pytest

from orchestrator.documents.plan import plan_document
from orchestrator.errors import (
    ProtocolError,
)
from orchestrator.messages import ToolCall
from orchestrator.percepts import MAX_CONTENT
from orchestrator.planning.case import Expiry
from orchestrator.providers import MessageDone, ToolResultSeen
from orchestrator.recording import addressed
from orchestrator.session import Outcome
from orchestrator.tags import TagKind
from orchestrator.testing.fake_provider import calls, says

from ..conftest import OWN, START, TOOLS, Scene, local, strong, system, tag, texts


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
