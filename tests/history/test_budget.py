from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import BudgetExceeded
from orchestrator.history.budget import (
    PART_OVERHEAD,
    Budget,
    PartName,
    corrected_tokens,
    estimate_message_tokens,
    estimate_tokens,
    limit_chars,
    measure,
    measure_text,
    measure_tools,
    require_room,
)
from orchestrator.history.ratio import Ratio
from orchestrator.messages import Message, Reasoning, Text, ToolCall, ToolResult
from orchestrator.providers import ToolSchema
from orchestrator.settings.limits import Limits

MEASURED = Ratio(4.5, factor=0.7, measured=True)


@pytest.mark.parametrize(
    ("limits", "window", "expected"),
    [
        (Limits(), None, 100_000),
        (Limits(message_budget_chars=5000, context_window_tokens=8000), 8000, 5000),
        (Limits(message_budget_chars=0, global_message_budget_chars=10), 8000, None),
        (Limits(output_reserve_tokens=1000), 8000, 3 * 7000),
        (Limits(output_reserve_tokens=4096), 8000, 3 * 6000),
        (Limits(context_window_tokens=4000, output_reserve_tokens=500), 8000, 3 * 3500),
        (Limits(global_message_budget_chars=700), 8000, 3 * 6000),
        (Limits(global_message_budget_chars=700), None, 700),
        (Limits(global_message_budget_chars=0), None, None),
    ],
)
def test_the_budget_is_the_agents_own_then_its_windows_then_the_global_one(limits: Limits, window: int | None, expected: int | None) -> None:
    assert limit_chars(limits, window) == expected


def test_a_measured_ratio_turns_the_window_into_characters() -> None:
    assert limit_chars(Limits(output_reserve_tokens=1000), 8000, MEASURED) == 31_500
    assert limit_chars(Limits(message_budget_chars=5000), 8000, MEASURED) == 5000


def test_new_text_has_the_room_that_it_would_have_without_a_measurement() -> None:
    limits = Limits(output_reserve_tokens=1000)

    assert limit_chars(limits, 8000, MEASURED, new="0" * 3000) == 3000 + 4.5 * 6000
    assert limit_chars(limits, 8000, MEASURED, new="雨" * 1000) == 1000 + 4.5 * 4000
    assert limit_chars(limits, 8000, Ratio(0.5, measured=True), new="x" * 3000) == 3000 + 0.5 * 6000
    assert limit_chars(limits, 8000, MEASURED, new="x" * 60_000) == 3 * 7000


def test_the_correction_is_not_made_to_new_text() -> None:
    ratio = Ratio(4.5, factor=0.5, measured=True)

    assert corrected_tokens(1000, ratio, new="") == 500
    assert corrected_tokens(1000, ratio, new="x" * 900) == 300 + 350
    assert corrected_tokens(1000, ratio, new="雨" * 400) == 1200


def test_room_is_what_the_fixed_parts_leave() -> None:
    parts: dict[PartName, int] = {"system": 400, "prompt": 100}

    assert require_room(parts, 1000, "local") == 500
    assert require_room(parts, 500, "local") == 0
    assert require_room(parts, None, "local") is None


def test_fixed_parts_larger_than_the_budget_are_refused_by_name_and_size() -> None:
    with pytest.raises(BudgetExceeded) as raised:
        require_room({"system": 400, "orientation": 1200, "prompt": 9000}, 4000, "local")

    assert raised.value.parts == {"system": 400, "orientation": 1200, "prompt": 9000}
    assert raised.value.limit == 4000
    assert raised.value.agent == "local"
    for word in ("local", "system 400", "orientation 1,200", "prompt 9,000", "10,600", "4,000"):
        assert word in raised.value.message


def test_the_total_is_the_sum_of_the_parts() -> None:
    assert Budget(1000, {"system": 400, "history": 32}, tokens_estimate=144).total_chars == 432


def test_every_part_is_counted_in_code_points() -> None:
    parts = (
        (Text("héllo 😀"), 7),
        (Reasoning("hm", "m", "sig"), 5),
        (ToolCall("c1", "grep", {"q": "語"}), 4 + len('{"q": "語"}')),
        (ToolResult("c1", "three"), 5),
        (Text("x", {"a": 1}), 1 + len('{"a": 1}')),
    )

    for part, size in parts:
        assert measure([Message("user", (part,))]) == size + PART_OVERHEAD
    assert measure_text("abc") == 3 + PART_OVERHEAD
    assert measure_text(" \n") == 0


def test_tool_schemas_are_counted_with_their_parameters() -> None:
    assert measure_tools([ToolSchema("t", "does", {"type": "object"})]) == 1 + 4 + len('{"type": "object"}') + PART_OVERHEAD


def test_the_estimate_takes_three_ascii_characters_and_every_byte_of_others_for_a_token() -> None:
    assert estimate_tokens("a" * 30) == 10
    assert estimate_tokens("漢字") == 6
    assert estimate_tokens("😀") == 4
    assert estimate_tokens("abc漢") == 4
    assert estimate_tokens("\ud800") == 3
    assert estimate_tokens("") == 0


@given(st.text())
def test_the_estimate_never_falls_below_the_bytes_of_what_is_not_ascii(text: str) -> None:
    assert estimate_tokens(text) >= sum(len(char.encode()) for char in text if not char.isascii())


def test_messages_are_estimated_with_their_overhead() -> None:
    messages = [Message("user", (Text("a" * 30),)), Message("assistant", (ToolCall("c", "t", {}), Reasoning("r", "m", "s")))]

    assert estimate_message_tokens(messages) == -(-measure(messages[:1]) // 3) + sum(
        -(-measure([Message("assistant", (part,))]) // 3) for part in messages[1].parts
    )
