"""What is mended before a call is sent again: the window and the output limit that the provider named, each once a turn."""

from __future__ import annotations

import pytest

from orchestrator.errors import ContextOverflow, InvalidRequest, OutOfFunds, ProviderError
from orchestrator.history.budget import measure_request
from orchestrator.messages import ToolCall, Usage
from orchestrator.session import Outcome
from orchestrator.testing.fake_provider import FakeProvider, calls, says

from ..conftest import OWN, TOOLS, Scene, local, strong, system


def overflow(limit: int | None = 1000, needed: int | None = 2000) -> ContextOverflow:
    return ContextOverflow("too long", limit=limit, needed=needed)


def asks_less(tokens: int, error: ProviderError | None = None) -> ProviderError:
    error = InvalidRequest("too many output tokens") if error is None else error
    error.affordable_tokens = tokens
    return error


def after_history(scene: Scene, provider: FakeProvider, *, limits: str = "") -> FakeProvider:
    """A session of six turns of 1,500 characters each, then this provider as the primary."""
    scene.cast(local=local(*[says("z" * 1500) for _ in range(6)]), strong=strong())
    for number in range(6):
        scene.ask(f"turn {number}")
    scene.config = f"[agents.local.limits]\n{limits}\n" if limits else ""
    scene.cast(local=provider, strong=strong())
    return provider


def test_an_overflow_with_both_numbers_is_fitted_once_to_the_window_that_was_named(scene: Scene) -> None:
    agent = after_history(scene, local([overflow()], says("done")))

    report = scene.ask("and now?")

    assert (report.turn.outcome, report.turn.answer) == (Outcome.COMPLETED, "done")
    first, second = map(measure_request, agent.requests)
    assert second <= first / 2000 * (1000 - 250), "half of the tokens, and the reserve for the answer"
    assert "and now?" in str(agent.requests[1].messages[-1])
    assert "earlier turns are not shown" in system(agent.requests[1])
    assert "agents.local.limits.context_window_tokens = 1000" in " ".join(report.notices)


@pytest.mark.parametrize("numbers", [(None, 2000), (1000, None), (2000, 2000), (2000, 1000), (0, 10)])
def test_an_overflow_without_two_sensible_numbers_is_never_sent_again(scene: Scene, numbers: tuple[int | None, int | None]) -> None:
    agent = after_history(scene, local([overflow(*numbers)], says("never")))

    assert isinstance(scene.ask("and now?").error, ContextOverflow)
    assert len(agent.requests) == 1


@pytest.mark.parametrize("error", [overflow(), asks_less(100)])
def test_nothing_is_mended_where_something_of_the_answer_had_come(scene: Scene, error: ProviderError) -> None:
    error.emitted = True
    agent = after_history(scene, local([error], says("never")))

    assert scene.ask("and now?").error is error
    assert len(agent.requests) == 1


def test_a_second_overflow_ends_the_turn(scene: Scene) -> None:
    agent = after_history(scene, local([overflow()], [overflow(500, 900)], says("never")))

    assert isinstance(scene.ask("and now?").error, ContextOverflow)
    assert len(agent.requests) == 2


def test_a_window_too_small_for_what_is_never_dropped_leaves_the_providers_error(scene: Scene) -> None:
    agent = after_history(scene, local([overflow(10, 2000)], says("never")))

    report = scene.ask("and now?")

    assert isinstance(report.error, ContextOverflow)
    assert len(agent.requests) == 1
    assert report.notices == ()


def test_repairs_never_go_beyond_the_sends_of_a_turn(scene: Scene) -> None:
    agent = after_history(scene, local([overflow()], says("never")), limits="retry_attempts = 0")

    assert isinstance(scene.ask("and now?").error, ContextOverflow)
    assert len(agent.requests) == 1


def test_an_overflow_in_a_tool_loop_keeps_what_the_turn_has_done(scene: Scene) -> None:
    agent = after_history(scene, local(calls(ToolCall("c1", "current_need", {"text": "ship"})), [overflow()], says("done"), capabilities=TOOLS))

    report = scene.ask("and now?")

    assert report.turn.outcome is Outcome.COMPLETED
    assert measure_request(agent.requests[2]) < measure_request(agent.requests[1]) / 2
    assert "c1" in str(agent.requests[2].messages)
    assert "and now?" in str(agent.requests[2].messages)


def test_the_window_that_was_named_holds_for_the_rest_of_the_turn(scene: Scene) -> None:
    agent = after_history(scene, local([overflow()], calls(ToolCall("c1", "current_need", {"text": "y" * 500})), says("done"), capabilities=TOOLS))

    assert scene.ask("and now?").error is None
    limit = measure_request(agent.requests[0]) / 2000 * 750
    assert all(measure_request(request) <= limit for request in agent.requests[1:])


def test_an_own_conversation_has_no_history_of_ours_to_fit(scene: Scene) -> None:
    agent = after_history(scene, local([overflow()], says("never"), capabilities=OWN))

    assert isinstance(scene.ask("and now?").error, ContextOverflow)
    assert len(agent.requests) == 1


@pytest.mark.parametrize("error", [None, OutOfFunds("you can only afford 300")])
def test_output_is_asked_for_once_as_much_as_is_given(scene: Scene, error: ProviderError | None) -> None:
    agent = local([asks_less(300, error)], calls(ToolCall("c1", "current_need", {"text": "ship"})), says("done"), capabilities=TOOLS)
    scene.cast(local=agent, strong=strong())

    report = scene.ask("and now?")

    assert report.turn.outcome is Outcome.COMPLETED
    assert [request.max_output_tokens for request in agent.requests] == [None, 300, 300]
    assert "300 tokens of output" in report.notices[0]


def test_output_is_not_haggled_over(scene: Scene) -> None:
    agent = local([asks_less(300)], [asks_less(200)], says("never"))
    scene.cast(local=agent, strong=strong())

    assert isinstance(scene.ask("and now?").error, InvalidRequest)
    assert len(agent.requests) == 2


def test_each_repair_has_its_own_turn_to_come(scene: Scene) -> None:
    agent = after_history(scene, local([overflow()], [asks_less(300)], says("done", usage=Usage(5, 1))))

    assert scene.ask("and now?").error is None
    assert agent.requests[2].max_output_tokens == 300
    assert measure_request(agent.requests[2]) == measure_request(agent.requests[1])


def refuses_tools() -> ProviderError:
    error = InvalidRequest("does not support tools")
    error.tools_refused = True
    return error


def test_a_model_that_takes_no_tools_is_asked_once_without(scene: Scene) -> None:
    agent = local([refuses_tools()], [refuses_tools()], says("never"), capabilities=TOOLS)
    scene.cast(local=agent, strong=strong())
    assert isinstance(scene.ask("and now?").error, InvalidRequest)
    assert [bool(request.tools) for request in agent.requests] == [True, False]

    agent = local([refuses_tools()], says("done"), capabilities=TOOLS)
    scene.cast(local=agent, strong=strong())
    report = scene.ask("and now?")
    assert report.turn.answer == "done"
    assert "agents.local.tools = false" in " ".join(report.notices)
