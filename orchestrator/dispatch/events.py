"""Whether what a provider gave is an event, down to the texts in it: a plugin is code of strangers."""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.messages import Reasoning, Text, ToolCall, ToolResult, Usage, is_json
from orchestrator.providers import ExternalSessionStarted, Finished, MessageDone, Notice, ReasoningDelta, TextDelta, ToolResultSeen, UsageReport, Withdrawn


def is_event(event: object) -> bool:
    """Whether it is an event that can be shown and stored."""
    match event:
        case TextDelta(str()) | ReasoningDelta(str()) | Notice(str()) | ExternalSessionStarted(str(), None | str()):
            return True
        case ToolResultSeen(str(), str()) | UsageReport(Usage()) | Withdrawn() | Finished():
            return True
        case MessageDone(list() | tuple() as parts):
            return all(map(_is_part, parts))
    return False


def _is_part(part: object) -> bool:
    match part:
        case Text(str(), extra) | Reasoning(str(), _, _, extra) | ToolResult(str(), str(), _, extra):
            return extra is None or is_json(extra)
        case ToolCall(str(), str(), Mapping() as arguments, extra):
            return is_json(arguments) and (extra is None or is_json(extra))
    return False
