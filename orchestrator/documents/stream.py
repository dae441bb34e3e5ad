"""The lines of `ask --stream-json`: what the one who watches a turn is shown, and the turn document last (page 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from orchestrator.dispatch.desk import Shown

if TYPE_CHECKING:
    from orchestrator.documents.kinds.stream import ErrorEvent, StreamLine, TurnEvent
    from orchestrator.documents.kinds.turns import ErrorDocument, TurnDocument

_TEXT_KEYS = {"text": "text", "reasoning": "text", "notice": "text", "retry": "text", "tool_result": "content", "question": "message"}


def stream_line(shown: Shown, *, first: bool) -> StreamLine:
    """One thing shown; the first line of a stream names its format."""
    head = {"format": "escalera.stream/1"} if first else {}
    text = {_TEXT_KEYS[shown.type]: shown.text} if shown.type in _TEXT_KEYS else {}
    return cast("StreamLine", {**head, "type": shown.type, **text, **shown.data})


def turn_line(document: TurnDocument) -> TurnEvent:
    """The last line of a turn."""
    return {"type": "turn", **document}


def error_line(document: ErrorDocument) -> ErrorEvent:
    """The last line where no turn came to be."""
    return {"type": "error", **document}
