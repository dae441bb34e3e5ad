"""The calls of a tool loop stay within the budget, whatever the turn does."""

from __future__ import annotations

import pytest

from orchestrator.dispatch.room import Room, next_request
from orchestrator.errors import BudgetExceeded
from orchestrator.history.budget import measure_request
from orchestrator.history.fit import stub
from orchestrator.messages import Message, Text, ToolCall, ToolResult
from orchestrator.providers import Request
from orchestrator.session import Outcome
from orchestrator.testing.fake_provider import FakeProvider, calls, says

from ..conftest import TOOLS, Scene, local, strong, system


def looping(rounds: int, size: int, name: str = "current_need") -> FakeProvider:
    return local(*[calls(ToolCall(f"c{n}", name, {"text": f"{n}" + "y" * size})) for n in range(rounds)], says("done"), capabilities=TOOLS)


@pytest.mark.parametrize(("limit", "size"), [(6000, 1500), (5000, 700), (8000, 100)])
def test_no_call_of_a_turn_is_larger_than_the_budget(scene: Scene, limit: int, size: int) -> None:
    agent = looping(8, size)
    scene.cast(local=local(says("z" * 1500), says("z" * 1500)), strong=strong())
    scene.ask("one")
    scene.ask("two")
    scene.config = f"[agents.local.limits]\nmessage_budget_chars = {limit}\n"
    scene.cast(local=agent, strong=strong())

    report = scene.ask("hi")

    assert report.turn.outcome is Outcome.COMPLETED
    assert len(agent.requests) == 9
    assert all(measure_request(request) <= limit for request in agent.requests)
    assert all("hi" in str(request.messages) for request in agent.requests)
    assert "c7" in str(agent.requests[-1].messages), "the newest round is always shown"


def test_left_out_rounds_of_the_running_turn_are_told(scene: Scene) -> None:
    scene.config = "[agents.local.limits]\nmessage_budget_chars = 6000\n"
    agent = looping(6, 1500)
    scene.cast(local=agent, strong=strong())

    scene.ask("hi")

    shown = sum(isinstance(part, ToolResult) for message in agent.requests[-1].messages for part in message.parts)
    assert 0 < shown < 6
    assert f"{6 - shown} rounds of tool calls are not shown." in system(agent.requests[-1])


def test_a_round_that_cannot_fit_ends_the_turn_and_keeps_what_was_done(scene: Scene) -> None:
    scene.config = "[agents.local.limits]\nmessage_budget_chars = 6000\n"
    agent = looping(2, 7000)
    scene.cast(local=agent, strong=strong())

    report = scene.ask("hi")

    assert isinstance(report.error, BudgetExceeded)
    assert report.turn.outcome is Outcome.FAILED
    assert len(agent.requests) == 1
    assert [type(step) for step in report.turn.steps] == [ToolCall, ToolResult]


def refused(limit: int | None, running: int, batches: int) -> Request:
    raise BudgetExceeded("no room", parts={}, limit=0)


def test_tool_results_of_the_running_turn_are_shortened_oldest_first_before_anything_goes() -> None:
    first = Request("local", (), (Message("user", (Text("hi"),)),))
    results = [ToolResult(f"c{n}", str(n) * 2000) for n in range(3)]
    batches = [(Message("assistant", (ToolCall(part.id, "read", {}),)), Message("user", (part,))) for part in results]
    whole = measure_request(next_request(first, batches, None, "openai"))

    request = next_request(first, batches, Room(whole - 100, refused), "openai")

    assert [part for message in request.messages for part in message.parts if isinstance(part, ToolResult)] == [stub(results[0]), *results[1:]]


def test_turns_of_the_history_go_before_rounds_of_the_running_turn(scene: Scene) -> None:
    scene.cast(local=local(says("z" * 1500)), strong=strong())
    scene.ask("the old one")
    agent = looping(1, 1500)
    scene.cast(local=agent, strong=strong())
    limit = scene.plan("hi").budget.total_chars + 500
    scene.config = f"[agents.local.limits]\nmessage_budget_chars = {limit}\n"
    scene.restart()

    scene.ask("hi")

    assert "the old one" in str(agent.requests[0].messages)
    assert "the old one" not in str(agent.requests[1].messages)
    assert "y" * 1500 in str(agent.requests[1].messages)
    assert "1 earlier turn is not shown." in system(agent.requests[1])
    assert agent.requests[1].messages[0] == Message("user", (Text("hi"),))
