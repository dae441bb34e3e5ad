"""One answer out of the events of a Converse stream."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

from escalera_bedrock.body import REDACTED
from orchestrator.errors import Blocked, Incomplete, ProtocolError, ProviderError, Unavailable
from orchestrator.messages import Part, Reasoning, Text, ToolCall, Usage, is_json, read_json, well_formed, well_formed_values
from orchestrator.providers import Event, Finished, MessageDone, ReasoningDelta, TextDelta, UsageReport

_Ending = Literal["stop", "tool_calls", "cut", "full", "blocked", "malformed"]

_ENDINGS: Mapping[str, _Ending] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "cut",
    "model_context_window_exceeded": "full",
    "guardrail_intervened": "blocked",
    "content_filtered": "blocked",
    "refusal": "blocked",
    "malformed_tool_use": "malformed",
    "malformed_model_output": "malformed",
}


class Answer:
    """Takes events as they come and gives those of the core; `end` gives the rest, or raises what the answer turned out to be."""

    def __init__(self, *, where: str, model: str, new_id: Callable[[], str]) -> None:
        self._where = where
        self._asked = model
        self._served: str | None = None
        self._new_id = new_id
        self._blocks: dict[int, _Block] = {}
        self._reason: str | None = None
        self._usage: Usage | None = None

    @property
    def text(self) -> str:
        """The answer text so far."""
        return "".join(block.text.all for _, block in sorted(self._blocks.items()))

    @property
    def emitted(self) -> bool:
        """Whether anything of the answer has come, told by an event or not."""
        return any(block.begun for block in self._blocks.values())

    @property
    def ended(self) -> bool:
        """Whether the message has ended; what follows can only be its metadata."""
        return self._reason is not None

    def event(self, event: Mapping[str, Any]) -> Iterator[Event]:
        """One event of the stream. What is not known is skipped."""
        if started := _mapping(event.get("contentBlockStart")):
            self._block(started).start(_mapping(started.get("start")))
        elif told := _mapping(event.get("contentBlockDelta")):
            yield from self._block(told).delta(_mapping(told.get("delta")))
        elif "messageStop" in event:
            self._reason = str(_mapping(event["messageStop"]).get("stopReason") or "")
        elif told := _mapping(event.get("metadata")):
            self._usage = read_usage(told.get("usage")) or self._usage
            router = _mapping(_mapping(told.get("trace")).get("promptRouter"))
            self._served = str(router.get("invokedModelId") or "") or self._served  # nothing else tells it

    def end(self, *, cut: Exception | None = None) -> Iterator[Event]:
        """The end of the stream; `cut` is what broke it, if something did.

        Raises `Incomplete` without the end of the message or with half a tool call, `Blocked` and so on by the reason.
        """
        for _, block in sorted(self._blocks.items()):
            yield from block.close()
        yield from self.report()
        if self._reason is None:
            raise Incomplete(f"The answer of {self._where} broke off before its end.", partial=self.text, hint="Try again.") from cut
        ending = _ENDINGS.get(self._reason)
        if ending not in ("stop", "tool_calls"):
            self._raise_for(ending)
        parts = self._parts()
        calls = any(isinstance(part, ToolCall) for part in parts)
        if ending == "tool_calls" and not calls:
            raise Incomplete(f"{self._where} said that tools are called, and sent no call.", partial=self.text)
        if parts:
            yield MessageDone(parts)
        yield Finished("tool_calls" if calls else "stop", self._served)

    def report(self) -> Iterator[Event]:
        """What was counted, once: also where the answer failed."""
        usage, self._usage = self._usage, None
        if usage is not None:
            yield UsageReport(usage)

    def _block(self, told: Mapping[str, Any]) -> _Block:
        index = told.get("contentBlockIndex")
        return self._blocks.setdefault(index if isinstance(index, int) else 0, _Block())

    def _parts(self) -> tuple[Part, ...]:
        parts: list[Part] = []
        taken: set[str] = set()
        try:
            for _, block in sorted(self._blocks.items()):
                parts += block.parts(self._served or self._asked, taken, self._new_id)
        except ProviderError as error:
            error.partial = self.text
            raise
        return tuple(parts)

    def _raise_for(self, ending: _Ending | None) -> NoReturn:
        """Known good ends are a short list; every other one is an outcome of its own (T38)."""
        reason, partial = well_formed(self._reason or "no reason"), self.text
        if ending == "cut":
            hint = "Raise max_tokens in the agent's inference, or ask for less at once."
            raise Incomplete("The output limit cut the answer.", partial=partial, hint=hint)
        if ending == "full":
            raise Incomplete("The answer broke off: the model's context window is full.", partial=partial, hint="Lower the agent's context_window_tokens.")
        if ending == "blocked":
            raise Blocked(f"{self._where} stopped the answer: {reason}.", partial=partial, hint="Rephrase, or use another agent.")
        if ending == "malformed":
            raise Unavailable(f"The model's output could not be read by {self._where}: {reason}.", partial=partial)
        raise ProtocolError(f"{self._where} ended the answer for an unknown reason: {reason[:100]}.", partial=partial)


# -- blocks ---------------------------------------------------------------------------------------


class _Joined:
    """Text from pieces that may be cut inside a surrogate pair."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._half = ""

    @property
    def all(self) -> str:
        return "".join(self._pieces)

    @property
    def begun(self) -> bool:
        return bool(self._pieces or self._half)

    def add(self, piece: object) -> str:
        """What of it can be shown now."""
        if not isinstance(piece, str):
            return ""
        piece = self._half + piece
        self._half = piece[-1] if piece and "\ud800" <= piece[-1] <= "\udbff" else ""
        return self._keep(piece[:-1] if self._half else piece)

    def close(self) -> str:
        half, self._half = self._half, ""
        return self._keep(half)

    def _keep(self, piece: str) -> str:
        piece = well_formed(piece)
        if piece:
            self._pieces.append(piece)
        return piece


@dataclass(slots=True)
class _Block:
    """One content block; deltas of several blocks may come mixed."""

    text: _Joined = field(default_factory=_Joined)
    reasoning: _Joined = field(default_factory=_Joined)
    signature: str = ""
    redacted: bytes = b""
    tool: Mapping[str, Any] | None = None
    """How a tool call was announced."""
    input: str = ""
    foreign: bool = False
    """A call that runs at the vendor's, or a block of a kind that is not known: nothing of ours to do."""

    @property
    def begun(self) -> bool:
        return bool(self.text.begun or self.reasoning.begun or self.signature or self.redacted or self.foreign or self.tool is not None)

    def start(self, start: Mapping[str, Any]) -> None:
        tool = _mapping(start.get("toolUse"))
        if tool and tool.get("type") in (None, "", "tool_use"):
            self.tool = tool
        elif start:
            self.foreign = True

    def delta(self, delta: Mapping[str, Any]) -> Iterator[Event]:
        thought = _mapping(delta.get("reasoningContent"))
        if isinstance(thought.get("signature"), str):
            self.signature += thought["signature"]
        if isinstance(thought.get("redactedContent"), bytes):
            self.redacted += thought["redactedContent"]
        if shown := self.reasoning.add(thought.get("text")):
            yield ReasoningDelta(shown)
        if shown := self.text.add(delta.get("text")):
            yield TextDelta(shown)
        piece = _mapping(delta.get("toolUse")).get("input")
        if isinstance(piece, str):
            self.input += piece
            self.tool = self.tool or ({} if not self.foreign else None)

    def close(self) -> Iterator[Event]:
        """What was held back of a text."""
        if shown := self.reasoning.close():
            yield ReasoningDelta(shown)
        if shown := self.text.close():
            yield TextDelta(shown)

    def parts(self, model: str, taken: set[str], new_id: Callable[[], str]) -> list[Part]:
        """What it came to, as parts. Raises `Incomplete` for a call that was cut, so that no half call is ever run."""
        parts: list[Part] = []
        if self.reasoning.all or self.signature:
            parts.append(Reasoning(self.reasoning.all, model=model, signature=self.signature or None))
        if self.redacted:
            parts.append(Reasoning("", model=model, extra={REDACTED: base64.b64encode(self.redacted).decode("ascii")}))
        if self.text.all:
            parts.append(Text(self.text.all))
        if self.tool is not None:
            parts.append(_tool_call(self.tool, self.input, taken, new_id))
        return parts


# -- tool calls -----------------------------------------------------------------------------------


def _tool_call(told: Mapping[str, Any], arguments: str, taken: set[str], new_id: Callable[[], str]) -> ToolCall:
    name = told.get("name")
    if not isinstance(name, str) or not name.strip():
        raise Incomplete("The answer holds a tool call without a name; it was not run.")
    call_id = told.get("toolUseId")
    if not isinstance(call_id, str) or not call_id.strip() or call_id in taken:
        call_id = new_id()
    taken.add(call_id)
    return ToolCall(well_formed(call_id), well_formed(name), _arguments(name, arguments))


def _arguments(name: str, text: str) -> dict[str, Any]:
    """Empty and null mean no arguments; anything else must be a whole JSON object (RFC 8259, without NaN)."""
    if not text.strip():
        return {}
    try:
        value = read_json(text)
    except ValueError as error:
        raise Incomplete(f"The arguments of the tool call {well_formed(name)!r} were cut off or are no JSON; it was not run.") from error
    if value is None:
        return {}
    if not is_json(value):
        raise Incomplete(f"The arguments of the tool call {well_formed(name)!r} are no JSON; it was not run.")
    if not isinstance(value, dict):
        raise ProtocolError(f"The arguments of the tool call {well_formed(name)!r} are no JSON object; it was not run.")
    return {well_formed(key): well_formed_values(item) for key, item in value.items()}


# -- figures, and answers in one piece ------------------------------------------------------------


def read_usage(usage: object) -> Usage | None:
    """What was counted; figures that are absent or no numbers stay unknown."""
    counts = _mapping(usage)
    sent, received = _count(counts.get("inputTokens")), _count(counts.get("outputTokens"))
    read, written = _count(counts.get("cacheReadInputTokens")), _count(counts.get("cacheWriteInputTokens"))
    if not any((sent, received, read, written)):
        return None  # nothing, or all zero: no model answers for nothing
    return Usage(input_tokens=sent, output_tokens=received, cache_read_tokens=read, cache_write_tokens=written)


def events_of(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The answer of `Converse`, as the events that `ConverseStream` would have sent."""
    content = _mapping(_mapping(document.get("output")).get("message")).get("content")
    for index, block in enumerate(content if isinstance(content, list) else ()):
        yield from _block_events(index, _mapping(block))
    if "stopReason" in document:
        yield {"messageStop": {"stopReason": document["stopReason"]}}
    yield {"metadata": {"usage": document.get("usage"), "trace": document.get("trace")}}


def _block_events(index: int, block: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    deltas: list[Mapping[str, Any]] = []
    if tool := _mapping(block.get("toolUse")):
        yield {"contentBlockStart": {"contentBlockIndex": index, "start": {"toolUse": tool}}}
        deltas.append({"toolUse": {"input": json.dumps(tool.get("input"))}})
    if "text" in block:
        deltas.append({"text": block["text"]})
    thought = _mapping(block.get("reasoningContent"))
    for pieces in (_mapping(thought.get("reasoningText")), thought):
        deltas += [{"reasoningContent": {name: pieces[name]}} for name in ("text", "signature", "redactedContent") if name in pieces]
    yield from ({"contentBlockDelta": {"contentBlockIndex": index, "delta": delta}} for delta in deltas)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**15 else None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
