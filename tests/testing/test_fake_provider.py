"""The scripted provider keeps the promises of the seam, and breaks those it is told to break."""

from __future__ import annotations

import threading

import pytest

from orchestrator.errors import Cancelled, RateLimited
from orchestrator.messages import Message, Text, ToolCall, Usage
from orchestrator.providers import AgentContext, Answer, Cancel, Finished, MessageDone, Question, Request, TextDelta, UsageReport
from orchestrator.testing.fake_provider import UNTIL_CANCELLED, FakeOptions, FakeProvider, ScriptEnded, calls, fake_kind, says

REQUEST = Request(agent="a", system=(), messages=(Message("user", (Text("hello"),)),))


def yes(question: Question) -> Answer:
    return Answer("accept", {"said": question.message})


def run(provider: FakeProvider, cancel: Cancel | None = None) -> list[object]:
    return list(provider.run(REQUEST, cancel=cancel or Cancel(), ask=yes))


def test_each_call_is_answered_by_the_next_script_and_kept() -> None:
    provider = FakeProvider(says("one two", usage=Usage(3, 2), model="m-2"), calls(ToolCall("c1", "look"), text="wait"))

    first = run(provider)

    assert first == [TextDelta("one"), TextDelta(" two"), MessageDone((Text("one two"),)), UsageReport(Usage(3, 2)), Finished("stop", "m-2")]
    assert provider.left == 1
    assert run(provider)[-2:] == [MessageDone((Text("wait"), ToolCall("c1", "look"))), Finished("tool_calls")]
    assert (provider.requests, provider.left, provider.running) == ([REQUEST, REQUEST], 0, 0)


def test_a_call_without_a_script_is_a_fault_of_the_test() -> None:
    with pytest.raises(ScriptEnded, match="call 1 of 'a'"):
        run(FakeProvider())


def test_steps_raise_ask_act_and_wait() -> None:
    happened: list[str] = []
    cancel = Cancel()
    provider = FakeProvider([Question("May I?"), lambda: happened.append("here"), TextDelta("x"), RateLimited("slow down")], [UNTIL_CANCELLED])

    with pytest.raises(RateLimited):
        run(provider)
    threading.Timer(0.01, cancel.set).start()
    with pytest.raises(Cancelled):
        run(provider, cancel)

    assert happened == ["here"]
    assert provider.answers == [Answer("accept", {"said": "May I?"})]


def test_a_closed_call_is_released() -> None:
    provider = FakeProvider(says("a b c"))
    events = provider.run(REQUEST, cancel=Cancel(), ask=yes)
    next(events)
    assert provider.running == 1

    events.close()  # type: ignore[attr-defined]  # a generator

    assert provider.running == 0


def test_the_kind_gives_each_agent_its_own_provider() -> None:
    one, two = FakeProvider(), FakeProvider()
    kind = fake_kind({"one": one, "two": two})

    made = kind.factory(FakeOptions(model="other"), AgentContext("two", "/w", {}))

    assert made is two
    assert (one.model, two.model) == ("fake-1", "other")
