"""What the lines of one turn amount to: events for the core, and what the verdict is made from."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from escalera_claude_cli.lines import Line, Noise, Skipped
from orchestrator.messages import Part, Reasoning, Text, ToolCall, Usage, is_json, well_formed
from orchestrator.providers import (
    Event,
    ExternalSessionStarted,
    MessageDone,
    Notice,
    ReasoningDelta,
    TextDelta,
    ToolResultSeen,
    UsageReport,
    Withdrawn,
)

SYNTHETIC = "<synthetic>"
"""The model of assistant events that the CLI wrote itself: texts of errors and of its commands."""

SESSION_ID = re.compile(r"[0-9A-Za-z_-]{1,128}")
NOISE_KEPT = 2000
CUT = ("max_tokens", "model_context_window_exceeded")
"""Why an answer stopped that a limit has cut."""

_UNSAID = object()
"""In the place of what older versions do not tell."""

PASSING_TOOLS = frozenset({"Bash", "Read", "Write", "Edit", "NotebookEdit", "Glob", "Grep", "WebFetch", "WebSearch", "TodoWrite", "AskUserQuestion"})
"""Tools that change nothing in the process itself. Others start agents in the background, leave plan mode, go to another folder, set timers."""


@dataclass(slots=True)
class Draft:
    """An assistant message that is still growing: it comes as one event for each block, all with the same id.

    One that the output limit cut stays open: the CLI lets the model go on with it, in a message of another id.
    """

    id: str | None
    parts: list[Part] = field(default_factory=list)
    begun: int = 0
    """How many of the parts are of messages before the one with this id."""
    cut: bool = False

    def goes_on_as(self, identity: str | None) -> None:
        self.id, self.begun, self.cut = identity, len(self.parts), False


@dataclass(slots=True)
class Stream:
    """The stream events of one answer: for display only, since the CLI may throw the answer away and ask again."""

    id: str | None
    text: str = ""
    """Shown, and not yet in an `assistant` event."""
    shown: bool = False
    begun: bool = False
    """Whether it began as one does."""
    reasoned: bool = False
    """Whether it named why it ends; from then on nothing is missing but its last event."""


class Transcript:
    """Takes the lines of one turn in order; `before` is the result line of the turn before in the same process."""

    def __init__(self, before: Line | None = None) -> None:
        self._before = before
        self.session_id: str | None = None
        self.model: str | None = None
        """The model that the turn began with, as `--model` takes it: its variant may stand in brackets, as in `opus[1m]`."""
        self.served: str | None = None
        """The model that the last message came from: another one where the CLI fell back."""
        self.result: Line | None = None
        self.own_error: str | None = None
        """The `error` of the last synthetic assistant event."""
        self.own_text = ""
        self.rejected_until: float | None = None
        """When a rate limit that rejected us ends, in seconds since 1970."""
        self.noise = ""
        self.answered = False
        """Whether more than the CLI's own beginnings came."""
        self._told_retries = 0
        """How often a line told that the CLI asks again by itself, or an answer without a word was followed by another."""
        self._begun_again = 0
        """How often an answer was begun behind one that had broken off: the CLI's log tells of these, and of what never began."""
        self.retry_delay = 0.0
        """Seconds of silence that the last line announced."""
        self.refusals = 0
        """How often the CLI said that it sends the last request again."""
        self.named_wait: float | None = None
        """Seconds that the server named for that, as far as it shows."""
        self.emitted = False
        """Whether anything of an answer came, also of one that was asked for again."""
        self.streamed = False
        """Whether an answer was streamed, so that it said itself why it ended."""
        self.said_anything = False
        self.tool_calls = 0
        self.settled = True
        """Whether all that was done is over with the turn, as far as its tools tell."""
        self.asked_for: set[str] = set()
        """Tools that a permission was asked for: what became of it is told then."""
        self.open_tools: set[str] = set()
        """Tools that run: their silence is not the agent's."""
        self._texts: list[str] = []
        self._last_piece = ""
        """What the last of them ends with: all of it, or the part behind a cut."""
        self._draft: Draft | None = None
        self._stream: Stream | None = None
        self._reason: str | None = None
        """Why the last answer stopped that said so."""
        self._answer_ended = False
        """Whether an answer ended, and nothing yet that is a reason to send another request."""
        self._ended_by_itself = False
        """Whether that said why it ended; the CLI ends one that broke off, too, before it begins another."""

    @property
    def partial(self) -> str:
        """The text so far, finished or not."""
        draft = _text(self._draft.parts) if self._draft else ""
        unfinished = self._stream.text if self._stream else ""
        return "\n\n".join(text for text in (*self._texts, draft + unfinished) if text)

    def retries(self, logged: int) -> int:
        """How often the CLI asked again by itself, with what its log tells of."""
        return self._told_retries + max(self._begun_again, logged)

    @property
    def broke_off(self) -> bool:
        """Whether the last answer has no end: its stream is open, and nobody said why it would end – the result has at most the reason of an earlier one."""
        reason = _mapping(self.result).get("stop_reason", _UNSAID)
        return self._stream is not None and self._stream.begun and not self._stream.reasoned and (reason is None or reason == self._reason)

    def take(self, item: Line | Noise | Skipped) -> Iterator[Event]:
        """The events that a line amounts to; unknown ones amount to none."""
        self.retry_delay = 0.0
        if isinstance(item, Skipped):
            yield Notice(f"one line of Claude Code's output was skipped: {item.size} bytes")
        elif isinstance(item, Noise):
            self.noise = (self.noise + item.text + "\n")[-NOISE_KEPT:]
        else:
            yield from self._take_line(item)

    def conclude(self) -> Iterator[Event]:
        """After a turn that succeeded: the last message, agreeing with the result line, which is the authority on the answer."""
        answer = _string(_mapping(self.result).get("result"))
        draft = self._draft or Draft(None)
        if answer.strip() and not _stands_in(answer, draft.parts, (*self._texts[-1:], self._last_piece)):
            draft.parts = [*_without_texts_of(answer, draft.parts), Text(answer)]
            self._draft = draft
        yield from self._finish_draft()

    def _take_line(self, line: Line) -> Iterator[Event]:
        self.said_anything = True
        kind = line.get("type")
        self.answered = self.answered or kind != "system"
        if line.get("parent_tool_use_id") is not None:
            return  # a subagent talks: its work reaches us as the result of the tool that started it
        match kind:
            case "system":
                yield from self._take_system(line)
            case "stream_event":
                yield from self._take_stream_event(_mapping(line.get("event")))
            case "assistant":
                yield from self._take_assistant(line)
            case "user":
                if line.get("isSynthetic") is True:
                    self._count_unreasoned(nudged=True)
                yield from self._take_user(_mapping(line.get("message")))
            case "control_request":
                self.asked_for.add(_string(_mapping(line.get("request")).get("tool_name")))
            case "rate_limit_event":
                self._take_rate_limit(_mapping(line.get("rate_limit_info")))
            case "result":
                yield from self._take_result(line)
            case _:
                pass

    def _take_system(self, line: Line) -> Iterator[Event]:
        if line.get("subtype") == "init":
            self.served = self.model = _string(line.get("model")) or self.model
            yield from self._take_session_id(line)
        elif line.get("subtype") == "api_retry":
            self.retry_delay = announced_wait(line)
            self._told_retries += 1
            self.refusals += 1
            self.named_wait = self.retry_delay if is_named(self.retry_delay) else self.named_wait
            yield from self._withdraw()
            attempt, most = line.get("attempt"), line.get("max_retries")
            yield Notice(f"Claude Code asks again in {self.retry_delay:.1f} s ({told_cause(line)}; attempt {attempt} of {most})")

    def _take_session_id(self, line: Line) -> Iterator[Event]:
        found = _string(line.get("session_id"))
        if found != self.session_id and SESSION_ID.fullmatch(found):
            self.session_id = found
            yield ExternalSessionStarted(found, self.model)

    def _take_stream_event(self, event: Mapping[str, Any]) -> Iterator[Event]:
        match event.get("type"):
            case "message_start":
                self.refusals, self.named_wait = 0, None
                self._count_unreasoned()
                yield from self._withdraw()
                self._stream = Stream(_message_id(_mapping(event.get("message"))), begun=True)
                self.streamed = True
            case "content_block_start":
                self.emitted = self.emitted or _string(_mapping(event.get("content_block")).get("type")) not in ("", "text", "thinking")
            case "content_block_delta":
                self.emitted = self.emitted or any(_string(value) for name, value in _mapping(event.get("delta")).items() if name != "type")
                yield from self._take_delta(_mapping(event.get("delta")))
            case "message_stop":
                self._ended_by_itself = self._stream is not None and self._stream.reasoned
                self._stream = None
                self._answer_ended = True
                if not (self._draft and self._draft.cut):
                    yield from self._finish_draft()
            case "message_delta":
                self._take_reason(_mapping(event.get("delta")).get("stop_reason"))
            case _:
                pass

    def _take_reason(self, reason: object) -> None:
        self._end_for(reason)
        if self._draft:
            self._draft.cut = reason in CUT

    def _end_for(self, reason: object) -> None:
        if isinstance(reason, str):
            self._reason = reason
            if self._stream:
                self._stream.reasoned = True

    def _take_delta(self, delta: Mapping[str, Any]) -> Iterator[Event]:
        stream = self._stream = self._stream or Stream(None)
        if text := _string(delta.get("text")):
            stream.text += text
            stream.shown = True
            yield TextDelta(text)
        elif thought := _string(delta.get("thinking")):
            stream.shown = True
            yield ReasoningDelta(thought)

    def _take_assistant(self, line: Line) -> Iterator[Event]:
        message = _mapping(line.get("message"))
        model = _string(message.get("model"))
        if model == SYNTHETIC:
            self.own_error = _string(line.get("error")) or self.own_error
            self.own_text = _text(_parts(message, model))
            return
        self.refusals, self.named_wait = 0, None
        identity = _message_id(message)
        if self._stream and self._stream.id and identity and self._stream.id != identity:
            yield from self._withdraw()
        self._end_for(message.get("stop_reason"))  # while it is streamed, its blocks come without
        if self._draft and self._draft.cut:
            self._draft.goes_on_as(identity)
        elif self._draft is None or self._draft.id != identity:
            yield from self._finish_draft()
            self._draft = Draft(identity)
        self.served = model or self.served
        self.model = self.model or self.served
        parts = _parts(message, model)
        self._draft.parts.extend(parts)
        self.emitted = self.emitted or bool(_blocks(message))
        self.open_tools.update(part.id for part in parts if isinstance(part, ToolCall))
        self.tool_calls += sum(isinstance(part, ToolCall) for part in parts)
        self.settled = self.settled and all(map(_ends_with_the_turn, parts))
        if self._stream:
            self._stream.text = ""

    def _take_user(self, message: Mapping[str, Any]) -> Iterator[Event]:
        results = [block for block in _blocks(message) if block.get("type") == "tool_result"]
        if results:
            self._answer_ended = False
            yield from self._finish_draft()
        for block in results:
            identity, content, is_error = _string(block.get("tool_use_id")), _content(block.get("content")), block.get("is_error") is True
            self.open_tools.discard(identity)
            yield ToolResultSeen(identity, content, is_error)
            if is_error and "stream closed" in content.lower():
                yield Notice(f"a permission request of Claude Code did not reach Escalera, so the tool did not run: {content}")

    def _take_rate_limit(self, info: Mapping[str, Any]) -> None:
        """A heartbeat, but for a rejection."""
        if info.get("status") == "rejected":
            self.rejected_until = _number(info.get("resetsAt"))

    def _take_result(self, line: Line) -> Iterator[Event]:
        self.result = line
        yield from self._take_session_id(line)
        if usage := _usage(line, _mapping(self._before)):
            yield UsageReport(usage)
        denied = {_string(_mapping(denial).get("tool_name")) or "a tool" for denial in _sequence(line.get("permission_denials"))} - self.asked_for
        if denied:
            yield Notice(f"permissions denied: {', '.join(sorted(denied))}")

    def _withdraw(self) -> Iterator[Event]:
        """An answer was begun and is asked for again: what was shown of it is void, and so are its finished blocks."""
        stream, self._stream = self._stream, None
        if stream is None:
            return
        self._begun_again += 1
        if self._draft and self._draft.id == stream.id:
            void = self._draft.parts[self._draft.begun :]
            self.open_tools.difference_update(part.id for part in void if isinstance(part, ToolCall))
            del self._draft.parts[self._draft.begun :]
        if stream.shown:
            yield Withdrawn()

    def _count_unreasoned(self, *, nudged: bool = False) -> None:
        """The CLI sends another request though the answer had ended: there was no word in it, it was thrown away, or it had broken off."""
        if self._answer_ended and (nudged or self._ended_by_itself):
            self._told_retries += 1
        elif self._answer_ended:
            self._begun_again += 1
        self._answer_ended = False

    def _finish_draft(self) -> Iterator[Event]:
        draft, self._draft = self._draft, None
        if draft and draft.parts:
            if text := _text(draft.parts):
                self._texts.append(text)
                self._last_piece = _text(draft.parts[draft.begun :])
            yield MessageDone(tuple(draft.parts))


def announced_wait(line: Line) -> float:
    """Seconds that an `api_retry` line names."""
    return (_number(line.get("retry_delay_ms")) or 0.0) / 1000


def is_named(wait: float) -> bool:
    """Whether a server named this wait: that is of whole seconds, and the CLI's own is not."""
    return wait.is_integer()


def told_cause(line: Line) -> str:
    """Why it asks again, as an `api_retry` line says."""
    return " ".join(str(line[key]) for key in ("error_status", "error") if line.get(key)) or "no reason given"


def _parts(message: Mapping[str, Any], model: str) -> list[Part]:
    parts: list[Part] = []
    for block in _blocks(message):
        match block.get("type"):
            case "text":
                parts.append(Text(_string(block.get("text"))))
            case "thinking":
                parts.append(Reasoning(_string(block.get("thinking")), model=model or None, signature=_string(block.get("signature")) or None))
            case "tool_use":
                parts.append(ToolCall(_string(block.get("id")), _string(block.get("name")), _arguments(block)))
            case _:
                pass  # what comes new with a later version is no part of the answer
    return parts


def _ends_with_the_turn(part: Part) -> bool:
    if not isinstance(part, ToolCall):
        return True
    return (part.name in PASSING_TOOLS or part.name.startswith("mcp__")) and not part.arguments.get("run_in_background")


def _arguments(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a tool was called with; nothing where no JSON can hold it, since the call was made all the same."""
    arguments = _mapping(block.get("input"))
    return arguments if is_json(arguments) else {}


def _stands_in(answer: str, parts: Sequence[Part], earlier: Sequence[str]) -> bool:
    """Whether the answer was told already: as the last text, as all texts of the last message, or as the last message before."""
    texts = [part.text for part in parts if isinstance(part, Text)]
    told = [texts[-1], "".join(texts)] if texts else list(earlier)
    return answer.strip() in [text.strip() for text in told]


def _without_texts_of(answer: str, parts: Sequence[Part]) -> list[Part]:
    return [part for part in parts if not (isinstance(part, Text) and part.text.strip() in answer)]


def _usage(result: Line, before: Mapping[str, Any]) -> Usage | None:
    """The turn's usage; that of the models where the sum is all zero, as after an answer without streaming. None where nothing was spent.

    The cost and the models' usage add up over the turns of one process; `before` is what the turn before told.
    """
    total, by_model = _mapping(result.get("usage")), _mapping(result.get("modelUsage"))
    earlier = _mapping(before.get("modelUsage"))
    cost = _since(_amount(result.get("total_cost_usd")), _amount(before.get("total_cost_usd")))
    reported = Usage(
        input_tokens=_count(total.get("input_tokens")),
        output_tokens=_count(total.get("output_tokens")),
        cache_read_tokens=_count(total.get("cache_read_input_tokens")),
        cache_write_tokens=_count(total.get("cache_creation_input_tokens")),
        cost_usd=cost,
        cost_source=None if cost is None else "reported",  # by the CLI's own price list: under a subscription nothing is charged
    )
    if any((reported.input_tokens, reported.output_tokens, reported.cache_read_tokens, reported.cache_write_tokens)):
        return reported
    if not by_model:
        return reported if reported.cost_usd else None
    return Usage(
        input_tokens=_sum(by_model, earlier, "inputTokens"),
        output_tokens=_sum(by_model, earlier, "outputTokens"),
        cache_read_tokens=_sum(by_model, earlier, "cacheReadInputTokens"),
        cache_write_tokens=_sum(by_model, earlier, "cacheCreationInputTokens"),
        cost_usd=reported.cost_usd,
        cost_source=reported.cost_source,
    )


def _sum(models: Mapping[str, Any], earlier: Mapping[str, Any], key: str) -> int | None:
    found = [_since(_count(_mapping(model).get(key)), _count(_mapping(earlier.get(name)).get(key))) for name, model in models.items()]
    counts = [int(count) for count in found if count is not None]
    return sum(counts) if counts else None


def _since(total: float | None, before: float | None) -> float | None:
    """What came on top; all of it where the total does not add up over the turns."""
    if total is None or before is None or total < before:
        return total
    return round(total - before, 12)


def _content(value: object) -> str:
    """A tool's result as text; what is no text is named in brackets."""
    if isinstance(value, str):
        return well_formed(value)
    blocks = [_mapping(block) for block in _sequence(value)]
    return "\n".join(_string(block.get("text")) if block.get("type") == "text" else f"[{block.get('type', 'unknown')}]" for block in blocks)


def _blocks(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [_mapping(block) for block in _sequence(content)]


def _text(parts: Sequence[Part]) -> str:
    return "".join(part.text for part in parts if isinstance(part, Text))


def _message_id(message: Mapping[str, Any]) -> str | None:
    return _string(message.get("id")) or None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _sequence(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _string(value: object) -> str:
    return well_formed(value) if isinstance(value, str) else ""


def _number(value: object) -> float | None:
    number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300 else None
    return number if number is not None and math.isfinite(number) else None


def _amount(value: object) -> float | None:
    number = _number(value)
    return number if number is not None and number >= 0 else None


def _count(value: object) -> int | None:
    number = _amount(value)
    return None if number is None else int(number)
