"""Whether what a provider gave is an event, down to the texts in it: a plugin is code of strangers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import get_args, get_type_hints

from orchestrator.messages import CostSource, Reasoning, Text, ToolCall, ToolResult, Usage, is_json
from orchestrator.providers import ExternalSessionStarted, Finished, MessageDone, Notice, ReasoningDelta, TextDelta, ToolResultSeen, UsageReport, Withdrawn

_REASONS = get_args(get_type_hints(Finished)["reason"])
_SOURCES = get_args(CostSource)
_COUNTS = [field.name for field in fields(Usage) if field.name not in ("cost_usd", "cost_source", "cache_in_input")]


def is_event(event: object) -> bool:
    """Whether it is an event that can be shown and stored."""
    match event:
        case TextDelta(str()) | ReasoningDelta(str()) | Notice(str()) | ExternalSessionStarted(str(), None | str()):
            return True
        case ToolResultSeen(str(), str(), bool()) | Withdrawn():
            return True
        case UsageReport(Usage() as usage):
            return _is_usage(usage)
        case Finished(str() as reason, None | str()):
            return reason in _REASONS
        case MessageDone(list() | tuple() as parts):
            return all(map(_is_part, parts))
    return False


def _is_usage(usage: Usage) -> bool:
    counts, cost = (getattr(usage, name) for name in _COUNTS), usage.cost_usd
    return (
        all(count is None or (type(count) is int and 0 <= count < 2**63) for count in counts)
        and (cost is None or (type(cost) in (int, float) and math.isfinite(cost) and cost >= 0))
        and (usage.cost_source is None or usage.cost_source in _SOURCES)
        and isinstance(usage.cache_in_input, bool)
    )


def _is_part(part: object) -> bool:
    match part:
        case Text(str(), extra) | Reasoning(str(), None | str(), None | str(), extra) | ToolResult(str(), str(), bool(), extra):
            return extra is None or (isinstance(extra, Mapping) and is_json(extra))
        case ToolCall(str(), str(), Mapping() as arguments, extra):
            return is_json(arguments) and (extra is None or (isinstance(extra, Mapping) and is_json(extra)))
    return False
