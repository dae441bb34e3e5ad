"""What counts as an event of a provider, down to the last field."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from orchestrator.dispatch.events import is_event
from orchestrator.messages import Reasoning, Text, ToolCall, ToolResult, Usage
from orchestrator.providers import Event, Finished, MessageDone, ToolResultSeen, UsageReport


@pytest.mark.parametrize(
    "event",
    [
        Finished("stop"),
        Finished("length", model_served="m-1"),
        UsageReport(Usage(input_tokens=7, output_tokens=0, cost_usd=0.01, cost_source="billed", cache_in_input=True)),
        UsageReport(Usage(cost_usd=0)),
        MessageDone((Reasoning("hm", "m", "signed", {"a": [1]}), Text("so"), ToolCall("c", "n", {"a": 1}), ToolResult("c", "r", is_error=True))),
        ToolResultSeen("c", "r", is_error=True),
    ],
)
def test_what_can_be_shown_and_stored_is_one(event: Event) -> None:
    assert is_event(event)


@pytest.mark.parametrize(
    "event",
    [
        Finished("done"),
        Finished("stop", 7),
        Finished(7),
        UsageReport(Usage(input_tokens="7")),
        UsageReport(Usage(input_tokens=7.5)),
        UsageReport(Usage(output_tokens=-1)),
        UsageReport(Usage(output_tokens=True)),
        UsageReport(Usage(reasoning_tokens=2**63)),
        UsageReport(Usage(cost_usd=Decimal("0.01"))),
        UsageReport(Usage(cost_usd="0.01")),
        UsageReport(Usage(cost_usd=float("nan"))),
        UsageReport(Usage(cost_usd=1.0, cost_source="guessed")),
        UsageReport(Usage(cache_in_input=1)),
        UsageReport({"input_tokens": 7}),
        MessageDone((Reasoning("hm", signature=b"x"),)),
        MessageDone((Reasoning("hm", model=7),)),
        MessageDone((Text("so", extra=[1]),)),
        MessageDone((ToolResult("c", "r", is_error="no"),)),
        MessageDone(Text("so")),
        ToolResultSeen("c", "r", is_error=None),
        "text",
    ],
)
def test_a_field_of_another_type_makes_it_none(event: Any) -> None:
    assert not is_event(event)
