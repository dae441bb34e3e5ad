"""The protocol of the generated packages, with the faults that lie in reading an answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from orchestrator.errors import (
    AuthFailed,
    Blocked,
    ContextOverflow,
    EmptyAnswer,
    Incomplete,
    InvalidRequest,
    ModelNotFound,
    OutOfFunds,
    Overloaded,
    ProtocolError,
    ProviderError,
    RateLimited,
    Transient,
    Unavailable,
)
from orchestrator.messages import Part, Reasoning, Text, ToolCall, ToolResult, Usage
from orchestrator.providers import Event, Finished, MessageDone, ReasoningDelta, Request, TextDelta, UsageReport, Withdrawn

FAILURES: dict[str, type[ProviderError]] = {
    "auth": AuthFailed,
    "funds": OutOfFunds,
    "rate_limit": RateLimited,
    "overloaded": Overloaded,
    "unavailable": Unavailable,
    "too_long": ContextOverflow,
    "invalid": InvalidRequest,
    "no_model": ModelNotFound,
    "blocked": Blocked,
}
"""The backend's words for what went wrong, and the error of each."""


def body_of(request: Request, model: str | None) -> dict[str, Any]:
    """The request as the backend takes it."""
    return {
        "model": model,
        "system": [block.text for block in request.system],
        "messages": [{"role": message.role, "parts": [part for one in message.parts if (part := _part(one))]} for message in request.messages],
        "tools": [{"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)} for tool in request.tools],
        "max_output_tokens": request.max_output_tokens,
    }


def failure(code: str, message: str, retry_after: float | None = None) -> ProviderError:
    """The error that a word of the backend stands for."""
    kind = FAILURES.get(code, ProtocolError)
    return kind(message, retry_after=retry_after) if issubclass(kind, Transient) else kind(message)


class Answer:
    """One answer, as it grows line by line. Made anew for every call: two turns at once share nothing."""

    def __init__(self, model: str | None, fault: str = "") -> None:
        self._model, self.fault = model, fault
        self.pieces: list[str] = []
        self._calls: list[ToolCall] = []
        self._usage: Usage | None = None
        self._end: str | None = None
        self.text = self.thought = ""

    @property
    def ended(self) -> bool:
        """Whether the end mark has come: nothing that matters comes after it."""
        return self._end is not None

    @property
    def emitted(self) -> bool:
        """Whether something had come that no event has told of yet."""
        return bool(self._calls)

    def feed(self, line: bytes) -> Iterator[Event]:
        """What one line of the answer tells."""
        if not line.endswith(b"\n"):
            return  # the last one, cut off: without the end mark, `finish` says so
        told = _object(line)
        if isinstance(told.get("text"), str):
            if self.fault == "strips_the_answer" and not self.text:
                told["text"] = told["text"].lstrip()
            self.text += told["text"]
            if self.fault in ("shows_nothing_early", "shows_behind_the_message"):
                self.pieces.append(told["text"])
            else:
                yield TextDelta(told["text"])
        elif isinstance(told.get("thought"), str):
            self.thought += told["thought"]
            if self.fault != "shows_no_reasoning":
                yield ReasoningDelta(told["thought"])
        elif told.get("void"):
            yield from self._withdraw()
        elif isinstance(told.get("tool_call"), dict):
            call = told["tool_call"]
            identity = f"call_{len(self._calls)}" if self.fault == "makes_up_ids" else str(call.get("id"))
            self._calls.append(ToolCall(identity, str(call.get("name")), call.get("arguments") or {}))
        elif isinstance(told.get("usage"), dict):
            self._usage = Usage(input_tokens=told["usage"].get("input"), output_tokens=told["usage"].get("output"))
        elif isinstance(told.get("error"), dict):
            error = told["error"]
            raise failure(str(error.get("code")), str(error.get("message")), error.get("retry_after"))
        elif "end" in told:
            self._end = str(told["end"])

    def finish(self) -> Iterator[Event]:
        """The message and the end. Raises where the answer is none."""
        if self._end is None and self.fault == "takes_a_cut_for_an_end" and self.text:
            self._end = "stop"
        if self._end is None:
            raise Incomplete("the answer broke off before its end", partial=self.text)
        thought = [Reasoning(self.thought, model=self._model)] if self.thought and self.fault != "keeps_no_reasoning" else []
        parts: list[Part] = [*thought, *([Text(self.text)] if self.text else []), *self._calls]
        if not self.text and not self._calls:
            raise EmptyAnswer("the backend ended its answer without having said anything")
        if self.fault == "shows_nothing_early":
            yield from map(TextDelta, self.pieces)
        yield MessageDone(tuple(parts))
        if self.fault == "shows_behind_the_message":
            yield from map(TextDelta, self.pieces)
        if self.fault == "reports_no_usage_as_0" and self._usage is None:
            self._usage = Usage(0, 0)
        if self._usage is not None:
            yield UsageReport(self._usage)
        yield Finished("tool_calls" if self._calls else "length" if self._end == "length" else "stop", self._model)

    def _withdraw(self) -> Iterator[Event]:
        """The backend begins again: what was shown of this answer is void."""
        if self.text or self.thought:
            yield Withdrawn()
            if self.fault == "shows_withdrawn_text_again":
                yield TextDelta(self.text)
        self.text, self.thought, self._calls = "", "", []


def _part(part: Part) -> dict[str, Any] | None:
    match part:
        case Text():
            return {"type": "text", "text": part.text}
        case ToolCall():
            return {"type": "tool_call", "id": part.id, "name": part.name, "arguments": dict(part.arguments)}
        case ToolResult():
            return {"type": "tool_result", "id": part.id, "content": part.content, "is_error": part.is_error}
        case Reasoning():
            return None  # bound to the model that signed it


def _object(line: bytes) -> dict[str, Any]:
    try:
        told = json.loads(line)
    except ValueError as error:
        raise ProtocolError(f"the backend sent a line that is no JSON: {line[:80]!r}") from error
    if not isinstance(told, dict):
        raise ProtocolError(f"the backend sent a line that is no object: {line[:80]!r}")
    return told
