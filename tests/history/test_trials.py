"""What went wrong in public elsewhere with trimming and repairing histories."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from orchestrator.errors import BudgetExceeded
from orchestrator.history.budget import CHARS_PER_TOKEN, measure, require_room
from orchestrator.history.fit import Fitted, fit
from orchestrator.history.normalise import INTERRUPTED, normalise
from orchestrator.history.render import Viewer
from orchestrator.history.scope import Scope
from orchestrator.messages import Message, Text, ToolCall, ToolResult
from orchestrator.providers import WireProfile
from orchestrator.session import Outcome, Turn, TurnList

Violations = Callable[[Sequence[Message], WireProfile], list[str]]
SENDING: tuple[WireProfile, ...] = ("openai", "openai-strict", "anthropic", "bedrock")
every_profile = pytest.mark.parametrize("profile", SENDING)


def fitted(turns: Sequence[Turn], available: int | None, profile: WireProfile) -> Fitted:
    return fit(TurnList(turns), Scope("all"), Viewer("local"), profile=profile, available=available)


def request(result: Fitted, prompt: str, profile: WireProfile) -> tuple[Message, ...]:
    return normalise((*result.messages, Message("user", (Text(prompt),))), profile)


def results(messages: Sequence[Message]) -> list[str]:
    return [part.content for message in messages for part in message.parts if isinstance(part, ToolResult)]


@every_profile
@pytest.mark.trial("T60")
def test_t60_a_cut_never_falls_between_call_and_result(trial: Callable[[str], Any], as_turns: Any, violations: Violations, profile: WireProfile) -> None:
    data = trial("T60")
    *turns, pending = as_turns(data["history"])

    for budget in (int(data["budget_tokens"] * CHARS_PER_TOKEN), 60, 5100, 20_000):
        result = fitted(turns, budget, profile)
        sent = request(result, pending.prompt, profile)

        assert result.chars <= budget
        assert violations(sent, profile) == []
        assert sent[-1].parts[-1] == Text("next")


@every_profile
@pytest.mark.trial("T61")
def test_t61_an_interrupted_call_gets_an_error_result(trial: Callable[[str], Any], as_messages: Any, violations: Violations, profile: WireProfile) -> None:
    data = trial("T61")

    sent = normalise((*as_messages(data["history"]), Message("user", (Text(data["then_user"]),))), profile)

    assert violations(sent, profile) == []
    assert results(sent) == ["one", INTERRUPTED, INTERRUPTED]
    assert normalise(sent, profile) is sent
    assert sent[-1].parts[-1] == Text("again")


@every_profile
@pytest.mark.trial("T61")
def test_t61_a_turn_that_was_cut_off_is_not_sent(trial: Callable[[str], Any], as_turns: Any, violations: Violations, profile: WireProfile) -> None:
    first, second = as_turns(trial("T61")["history"])
    cut = Turn(second.index, second.role, second.agent, second.prompt, second.steps, Outcome.INTERRUPTED)

    result = fitted([first, cut], None, profile)

    assert result.sent == (0,)
    assert violations(request(result, "again", profile), profile) == []


@every_profile
@pytest.mark.trial("T63")
def test_t63_a_prompt_larger_than_the_budget_is_refused_in_bounded_time(
    trial: Callable[[str], Any], as_turns: Any, as_messages: Any, violations: Violations, profile: WireProfile
) -> None:
    data = trial("T63")
    system, *_, prompt = as_messages(data["history"])
    turns = as_turns(data["history"])[:-1]
    start = time.thread_time()

    for tokens in data["budgets_tokens"]:
        with pytest.raises(BudgetExceeded, match="prompt 50,012"):
            require_room({"system": measure([system]), "prompt": measure([prompt])}, int(tokens * CHARS_PER_TOKEN), "local")

    for available in (-50_000, 0, 4, 50, 500):
        sent = request(fitted(turns, available, profile), "y" * 50_000, profile)
        assert violations(sent, profile) == []
        assert sent[-1].parts[-1] == Text("y" * 50_000)
    assert time.thread_time() - start < 2


@every_profile
@pytest.mark.trial("T64")
def test_t64_a_history_that_fits_comes_back_unchanged(trial: Callable[[str], Any], as_turns: Any, as_messages: Any, profile: WireProfile) -> None:
    data = trial("T64")
    _, question, call, answer = as_messages(data["history"])

    result = fitted(as_turns(data["history"]), int(data["budget_tokens"] * CHARS_PER_TOKEN), profile)

    assert result.messages[:3] == (question, Message("assistant", call.parts[1:]), answer)
    assert (result.sent, result.shortened, list(result.dropped)) == ((0,), (), [])
    assert normalise(result.messages[:3], profile) == result.messages[:3]


@every_profile
@pytest.mark.trial("T65")
def test_t65_what_is_kept_begins_with_a_user_message(
    trial: Callable[[str], Any], as_turns: Any, as_messages: Any, violations: Violations, profile: WireProfile
) -> None:
    data = trial("T65")
    turns = as_turns(data["history"])

    for budget in range(0, 400, 7):
        assert violations(request(fitted(turns, budget, profile), "next", profile), profile) == []
    assert violations(normalise(as_messages(data["history"][-data["keep_last_messages"] :]), profile), profile) == []
    for history in data["also"]:
        sent = normalise((*as_messages(history), Message("user", (Text("next"),))), profile)
        assert violations(sent, profile) == []
        assert sent[-1] == Message("user", (Text("next"),))


@every_profile
@pytest.mark.trial("T66")
def test_t66_ids_become_unique_and_results_follow_by_position(
    trial: Callable[[str], Any], as_messages: Any, as_turns: Any, violations: Violations, profile: WireProfile
) -> None:
    history = trial("T66")["history"]
    *turns, _ = as_turns(history)

    for sent in (normalise(as_messages(history), profile), request(fitted(turns, None, profile), "d", profile)):
        assert violations(sent, profile) == []
        assert results(sent) == ["one", "two", "three", "four"]
        assert [part.arguments for message in sent for part in message.parts if isinstance(part, ToolCall)] == [{"n": n} for n in (1, 2, 3, 4)]


@pytest.mark.trial("T68")
def test_t68_strict_templates_get_alternating_roles_and_one_system_message_first(trial: Callable[[str], Any], as_messages: Any) -> None:
    sent = normalise(as_messages(trial("T68")["history"]), "openai-strict")

    assert [message.role for message in sent] == ["system", "user", "assistant", "user"]
    assert sent[0].parts == (Text("s"), Text("reminder"))
    assert sent[1].parts == (Text("part 1"), Text("part 2"))


@every_profile
@pytest.mark.trial("T69")
def test_t69_a_lone_surrogate_is_replaced_before_sending(trial: Callable[[str], Any], as_messages: Any, as_turns: Any, profile: WireProfile) -> None:
    history = json.loads(trial("T69")["history_json_ascii"])

    sent = normalise(as_messages(history), profile)
    fitted_text = str(fitted(as_turns(history), None, profile).messages)

    assert [part.text for message in sent for part in message.parts if isinstance(part, Text)] == ["ok", "� text �", "next 😀"]
    for text in (str(sent), fitted_text):
        text.encode()
        assert "next 😀" in text
