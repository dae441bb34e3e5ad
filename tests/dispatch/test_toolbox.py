"""Tools side by side, tools that hang, and an agent that goes round in circles."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from orchestrator.dispatch.repeats import ENDED_AT, TOLD_AT
from orchestrator.errors import Cancelled, TimedOut
from orchestrator.messages import Text, ToolCall, ToolResult
from orchestrator.providers import Answer, Question, ToolSchema
from orchestrator.settings.limits import Limits
from orchestrator.testing.fake_provider import FakeProvider, calls, says
from orchestrator.tools import Tool, ToolContext, ToolFailed

from ..conftest import TOOLS
from .conftest import Turn

WAIT = 10.0
"""Seconds after which a test has failed."""


def tool(name: str, run: Callable[[Mapping[str, Any], ToolContext], str], *, parallel: bool = False) -> Tool:
    return Tool(ToolSchema(name, f"does {name}", {"type": "object"}), run, parallel=parallel)


def results(turn: Turn) -> list[ToolResult]:
    return [step for step in turn.answered.steps if isinstance(step, ToolResult)]


def test_tools_that_say_so_run_side_by_side_and_their_results_stand_in_the_order_of_the_calls(turn: Turn) -> None:
    both = threading.Barrier(2)
    second = threading.Event()

    def look(arguments: Mapping[str, Any], context: ToolContext) -> str:
        both.wait(WAIT)  # each needs the other to be running
        if arguments["n"] == 1:
            assert second.wait(WAIT)
        else:
            second.set()
        return f"saw {arguments['n']}"

    provider = FakeProvider(calls(ToolCall("a", "look", {"n": 1}), ToolCall("b", "look", {"n": 2})), says("done"), capabilities=TOOLS)
    turn.run(provider, tools=[tool("look", look, parallel=True)])

    assert [(result.id, result.content) for result in results(turn)] == [("a", "saw 1"), ("b", "saw 2")]
    assert turn.recorded == turn.answered.steps
    assert [part.id for part in provider.requests[1].messages[-1].parts if isinstance(part, ToolResult)] == ["a", "b"]


def test_other_tools_run_one_after_the_other_also_between_those(turn: Turn) -> None:
    running, most = [0], [0]
    guard = threading.Lock()

    def count(arguments: Mapping[str, Any], context: ToolContext) -> str:
        with guard:
            running[0] += 1
            most[0] = max(most[0], running[0])
        with guard:
            running[0] -= 1
        return "ok"

    tools = [tool("write", count), tool("look", count, parallel=True)]
    made = [ToolCall(f"c{number}", name, {"n": number}) for number, name in enumerate(["write", "write", "look", "write"])]
    turn.run(FakeProvider(calls(*made), says("done"), capabilities=TOOLS), tools=tools)

    assert most == [1]
    assert [result.id for result in results(turn)] == ["c0", "c1", "c2", "c3"]


def test_a_cancelled_turn_stops_a_tool_that_heeds_it(turn: Turn) -> None:
    def wait(arguments: Mapping[str, Any], context: ToolContext) -> str:
        turn.cancel.set()
        assert context.cancel.event.wait(WAIT)
        raise ToolFailed("stopped")

    turn.run(FakeProvider(calls(ToolCall("a", "wait"), ToolCall("b", "wait")), capabilities=TOOLS), tools=[tool("wait", wait)])

    assert isinstance(turn.error, Cancelled)
    assert results(turn) == []


def test_a_cancelled_turn_leaves_a_tool_that_hangs_and_keeps_what_had_ended(turn: Turn, monkeypatch: pytest.MonkeyPatch) -> None:
    released, hung, quick_done = threading.Event(), threading.Event(), threading.Event()
    turn.clock.monotonic = _ticking()  # type: ignore[method-assign]  # the two seconds of grace pass at once

    def hang(arguments: Mapping[str, Any], context: ToolContext) -> str:
        assert quick_done.wait(WAIT)
        hung.set()
        turn.cancel.set()
        released.wait(WAIT)
        return "too late"

    def quick(arguments: Mapping[str, Any], context: ToolContext) -> str:
        quick_done.set()
        return "quick"

    tools = [tool("hang", hang, parallel=True), tool("quick", quick, parallel=True)]
    turn.run(FakeProvider(calls(ToolCall("a", "hang"), ToolCall("b", "quick")), capabilities=TOOLS), tools=tools, limits=Limits(turn_timeout=None))
    released.set()

    assert hung.is_set()
    assert isinstance(turn.error, Cancelled)
    assert [(result.id, result.content) for result in results(turn)] == [("b", "quick")]


def test_the_time_of_the_turn_ends_a_tool_too(turn: Turn) -> None:
    def wait(arguments: Mapping[str, Any], context: ToolContext) -> str:
        turn.clock.seconds += 601
        assert context.cancel.event.wait(WAIT)
        raise ToolFailed("stopped")

    turn.run(FakeProvider(calls(ToolCall("a", "wait")), capabilities=TOOLS), tools=[tool("wait", wait)], limits=Limits(turn_timeout=0.05))

    assert isinstance(turn.error, TimedOut)
    assert turn.error.which == "turn"


def test_the_time_of_a_question_is_none_of_the_turn(turn: Turn) -> None:
    def ask(question: Question) -> Answer:
        turn.clock.seconds += 3600
        return Answer("accept")

    def asks(arguments: Mapping[str, Any], context: ToolContext) -> str:
        return context.ask(Question("May I?")).action

    turn.ask = ask
    turn.run(FakeProvider(calls(ToolCall("a", "asks")), says("done"), capabilities=TOOLS), tools=[tool("asks", asks)], limits=Limits(turn_timeout=60))

    assert turn.error is None
    assert turn.answered.steps[-1] == Text("done")


def test_an_agent_that_repeats_itself_is_told_so_and_then_stopped(turn: Turn) -> None:
    ran: list[int] = []
    provider = FakeProvider(*[calls(ToolCall(f"c{number}", "look", {"b": 2, "a": 1})) for number in range(9)], capabilities=TOOLS)

    turn.run(provider, tools=[tool("look", lambda *_: ran.append(1) or "the same")])

    kept = [result.content for result in results(turn)]
    assert turn.error is None
    assert len(ran) == len(provider.requests) == ENDED_AT
    assert kept[: TOLD_AT - 1] == ["the same"] * (TOLD_AT - 1)
    assert all("times in a row" in text for text in kept[TOLD_AT - 1 :])
    assert turn.answered.notices == ["stopped: look was called 5 times in a row with the same arguments and gave the same result each time"]
    assert turn.seen("notice") == turn.answered.notices[0]


@pytest.mark.parametrize("varies", ["result", "arguments", "between", "beside"])
def test_what_gets_on_is_no_circle(turn: Turn, varies: str) -> None:
    rounds = 3 * ENDED_AT
    numbers = iter(range(1000))

    def look(arguments: Mapping[str, Any], context: ToolContext) -> str:
        return f"result {next(numbers)}" if varies == "result" or arguments.get("other") else "the same"

    def batch(number: int) -> list[ToolCall]:
        other = ToolCall(f"o{number}", "look", {"other": number})
        same = ToolCall(f"c{number}", "look", {"n": number if varies == "arguments" else 0})
        if varies == "between" and number % ENDED_AT == ENDED_AT - 1:
            return [other]
        return [same, other] if varies == "beside" else [same]

    provider = FakeProvider(*[calls(*batch(number)) for number in range(rounds)], says("done"), capabilities=TOOLS)
    turn.run(provider, tools=[tool("look", look)])

    assert turn.answered.steps[-1] == Text("done")
    assert turn.answered.notices == []


def test_what_is_told_beside_a_result_is_within_its_limit(turn: Turn) -> None:
    provider = FakeProvider(*[calls(ToolCall(f"c{number}", "look")) for number in range(ENDED_AT)], capabilities=TOOLS)

    turn.run(provider, tools=[tool("look", lambda *_: "x" * 5000)], limits=Limits(tool_result_max_chars=400))

    assert all(len(result.content) <= 400 for result in results(turn))
    assert "times in a row" in results(turn)[-1].content


def _ticking() -> Callable[[], float]:
    """A clock by which every look takes three seconds."""
    now = [0.0]

    def monotonic() -> float:
        now[0] += 3
        return now[0]

    return monotonic
