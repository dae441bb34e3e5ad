"""One answer out of the chunks of an OpenAI-compatible server."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any, Literal

from escalera_openrouter.failures import told_failure
from escalera_openrouter.json_text import clean, is_document
from escalera_openrouter.thinking import ThinkFilter, UnopenedThinking, split_unopened
from escalera_openrouter.tool_fragments import ToolFragments
from orchestrator.errors import Blocked, EmptyAnswer, Incomplete, ProtocolError, ProviderError, Unavailable
from orchestrator.messages import CostSource, Part, Reasoning, Text, Usage, is_json, read_json, well_formed
from orchestrator.providers import Event, Finished, MessageDone, Notice, ReasoningDelta, TextDelta, UsageReport, Withdrawn

_Ending = Literal["stop", "tool_calls", "length", "blocked", "error", "cut"]

_ENDINGS: Mapping[str, _Ending] = {
    **dict.fromkeys(("stop", "end_turn", "stop_sequence", "eos", "eos_token", "complete", "completed", "done"), "stop"),
    **dict.fromkeys(("tool_calls", "tool_call", "tool_use", "function_call"), "tool_calls"),
    **dict.fromkeys(("length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded"), "length"),
    **dict.fromkeys(("content_filter", "content-filter", "safety", "refusal", "recitation", "blocklist", "prohibited_content", "spii", "blocked"), "blocked"),
    **dict.fromkeys(("error", "malformed_function_call", "internal_server_error", "insufficient_system_resource", "network_error"), "error"),
    **dict.fromkeys(("abort", "aborted", "cancelled", "canceled"), "cut"),
}
"""The reasons that are known: only they end an answer while the connection stays open. Any other one counts if nothing comes after it."""

_NO_REASONS = frozenset({"null", "none"})
"""What some gateways write instead of no reason."""


def _is_cut(data: str) -> bool:
    """Whether a JSON object has begun and not ended."""
    try:
        json.loads(data)
    except RecursionError:
        return False
    except ValueError as error:
        end = len(data.rstrip())
        at = error.pos if isinstance(error, json.JSONDecodeError) else 0
        return data.lstrip().startswith("{") and (at >= end - _LONGEST_WORD or str(error).startswith("Unterminated string"))
    return False


def _text_so_far(data: str) -> str:
    """The answer text in a JSON document that was cut off."""
    begun = re.search(r'"content"\s*:\s*"((?:[^"\\]|\\.)*)', data, re.DOTALL)
    text = begun.group(1) if begun else ""
    for cut in range(_LONGEST_WORD):
        with suppress(ValueError):
            return well_formed(str(json.loads(f'"{text[: len(text) - cut]}"', strict=False)))
    return ""


_LONGEST_WORD = 6
"""Characters of `\\u0041`, of which a part may stand at the end."""
_CUT = "Raise the agent's limit of output tokens (`body = { max_tokens = … }`) or the server's, or ask for less at once."


class Answer:
    """Takes chunks as they come and gives events; `end` gives the rest, or raises what the answer turned out to be."""

    def __init__(
        self,
        *,
        where: str,
        model: str | None,
        new_id: Callable[[], str],
        now: Callable[[], datetime],
        cost_source: CostSource = "reported",
        whole_at_limit: bool = False,
    ) -> None:
        self._where = where
        self._whole_at_limit = whole_at_limit
        self._cost_source = cost_source
        self._now = now
        self._asked = model
        self._served: str | None = None
        self._tools = ToolFragments(new_id)
        self._think = ThinkFilter()
        self._unopened = UnopenedThinking()
        self._text = _Joined()
        self._reasoning = _Joined()
        self._reasoning_field: str | None = None
        self._details: list[dict[str, Any]] = []
        self._refusal = ""
        self._reason = ""
        self._native_reason = ""
        self._ended = self._repeats = self._overrun = self._closed = False
        self._usage: Usage | None = None
        self._chunks = 0
        self._answered = False

    @property
    def text(self) -> str:
        """The answer text so far."""
        return well_formed(self._text.all)

    @property
    def ended(self) -> bool:
        """Whether the server named a known reason to end, and nothing of the answer came after it; what follows can only be usage."""
        return self._ended

    @property
    def closed(self) -> bool:
        """Whether the server has marked the end of its stream."""
        return self._closed

    @property
    def begun(self) -> bool:
        """Whether any event has come."""
        return self._chunks > 0

    @property
    def emitted(self) -> bool:
        """Whether anything of the answer has come, told by an event or not."""
        held = self._think.holds or self._text.begun or self._reasoning.begun
        return bool(held or self._tools or self._details or self._refusal)

    def data(self, data: str, event: str = "") -> Iterator[Event]:
        """One event's data. Raises from the error tree when it tells of a failure or is no JSON."""
        try:
            chunk = read_json(data)
        except ValueError as error:
            if event == "error":
                raise self._told(data) from None
            if event and not data.lstrip().startswith(("{", "[")):
                return  # a name of its own, such as a ping: a sign of life
            raise ProtocolError(f"{self._where} sent an event that is no JSON: {data[:200]!r}") from error
        self._chunks += 1
        if not event and (text := _text_alone(chunk)) is not None:
            yield from self._take_text(chunk, text)
            return
        if isinstance(chunk, list) and len(chunk) == 1:
            chunk = chunk[0]
        told = _failure_in(chunk, event)
        yield from self._take(chunk, told)
        if told is not None:
            raise self._told(told)

    def close(self) -> None:
        """The server's own mark that its stream is over."""
        self._closed = True

    def whole(self, data: str, *, cut: Exception | None = None) -> Iterator[Event]:
        """A complete answer in one JSON document, from a server that does not stream; `cut` is what broke the connection, if something did."""
        if _is_cut(data) or (cut is not None and not is_document(data)):
            yield from self._text_events(_text_so_far(data))
            yield from self._flush()
            raise Incomplete(f"The answer of {self._where} broke off before its end.", partial=self.text) from cut
        yield from self.data(data)
        if not self._answered:
            raise ProtocolError(f"{self._where} sent JSON that is no answer: {data[:200]!r}")
        if not self._reason and not _is_piece(data):
            self._reason = "stop"  # a whole document is its own end
        self._closed = True

    def end(self, *, cut: Exception | None = None) -> Iterator[Event]:
        """The end of the stream; `cut` is what broke the connection, if something did.

        Raises `Incomplete` without a finish reason, `Blocked`, `Unavailable` and so on by the reason.
        """
        yield from self._flush()
        yield from self.report()
        ending = self._ending(cut)
        parts = self._parts()
        if self._tools and ending == "length":
            raise Incomplete("The output limit cut the answer in the middle of a tool call; it was not run.", partial=self.text, hint=_CUT)
        if ending == "length" and not self._whole_at_limit:
            raise Incomplete("The output limit cut the answer.", partial=self.text, hint=_CUT)
        calls = self._calls()
        if ending == "tool_calls" and not calls:
            raise Incomplete(f"{self._where} said that tools are called, and sent no call.", partial=self.text)
        if parts or calls:
            yield MessageDone((*parts, *calls))
        if ending == "length":
            yield Notice("the answer was cut at the output limit")
        yield Finished("tool_calls" if calls else "stop" if ending == "length" else ending, self._served)

    def report(self) -> Iterator[Event]:
        """What was counted, once: also where the answer failed."""
        usage, self._usage = self._usage, None
        if usage is not None:
            yield UsageReport(usage)

    # -- chunks

    def _take_text(self, chunk: Mapping[str, Any], text: str) -> Iterator[Event]:
        """As `_take` does it, for a chunk that is text and nothing else."""
        self._served = chunk.get("model") or self._served
        self._answered = True
        if self._reason:
            self._take_reason({}, more=True)
        yield from self._text_events(text)

    def _take(self, chunk: Any, told: object) -> Iterator[Event]:
        if not isinstance(chunk, dict):
            if told is None:
                raise ProtocolError(f"{self._where} sent an event that is no JSON object: {str(chunk)[:200]!r}")
            return
        if isinstance(chunk.get("model"), str) and chunk["model"]:
            self._served = chunk["model"]
        choice = _choice(chunk)
        self._answered = self._answered or bool(choice)
        self._take_usage(chunk, choice)
        delta = _delta(choice, fresh=not self._text.begun and not self._tools)
        yield from self._delta(delta)
        if told is None:
            self._take_reason(choice, more=_says_something(delta))

    def _take_reason(self, choice: Mapping[str, Any], *, more: bool) -> None:
        """What a chunk says of the end. One that had more of the answer shows that no reason before it was an end, and of
        a server that named one too early that it does so with every chunk: its reasons count where nothing comes with them.
        """
        self._native_reason = _reason_in(choice, "native_finish_reason") or self._native_reason
        reason = _reason_in(choice, "finish_reason")
        if more:
            self._repeats = self._repeats or self._ended
            self._ended, self._overrun = False, bool(self._reason)
        if reason:
            self._reason, self._overrun = reason, False
            self._ended = self._ended or (reason.lower() in _ENDINGS and not (more and self._repeats))

    def _delta(self, delta: Mapping[str, Any]) -> Iterator[Event]:
        yield from self._take_reasoning(delta)
        for kind, text in _content(delta.get("content")):
            if kind == "reasoning":
                yield from self._reason_event(text)
            else:
                yield from self._text_events(text)
        if isinstance(delta.get("refusal"), str):
            self._refusal += delta["refusal"]
        for fragment in _fragments(delta):
            self._tools.add(fragment)

    def _text_events(self, text: str) -> Iterator[Event]:
        for kind, piece in self._think.feed(text):
            if kind == "reasoning":
                yield from self._reason_event(piece)
            elif shown := self._text.add(piece):
                yield TextDelta(shown)
                if self._unopened.is_closed_by(shown):
                    yield from self._take_back_thinking()

    def _take_back_thinking(self) -> Iterator[Event]:
        """What looked like the answer so far was thought aloud."""
        thought, answer = split_unopened(self._text.all)
        self._text = _Joined()
        yield Withdrawn()
        yield from self._reason_event(thought)
        if shown := self._text.add(answer):
            yield TextDelta(shown)

    def _reason_event(self, text: str) -> Iterator[Event]:
        if shown := self._reasoning.add(text):
            yield ReasoningDelta(shown)

    def _take_reasoning(self, delta: Mapping[str, Any]) -> Iterator[Event]:
        """Some servers send the same text under both names: the first one that holds any is taken."""
        told = delta.get("reasoning_details")
        details = [dict(detail) for detail in told if isinstance(detail, dict) and is_json(detail)] if isinstance(told, list) else []
        for detail in details:
            _merge_detail(self._details, detail)
        for name in ("reasoning_content", "reasoning"):
            text = delta.get(name)
            if isinstance(text, str) and text:
                self._reasoning_field = name
                yield from self._reason_event(text)
                return
        for detail in details:
            text = detail.get("text") or detail.get("summary")
            if isinstance(text, str):
                yield from self._reason_event(text)

    def _take_usage(self, chunk: Mapping[str, Any], choice: Mapping[str, Any]) -> None:
        """The last figures count; they are running totals and are never added up. What a report leaves open stays as it was."""
        groq = chunk.get("x_groq")
        for source in (groq if isinstance(groq, dict) else {}, choice, chunk):
            usage = read_usage(source.get("usage"), self._cost_source)
            if usage is not None:
                known = {name: value for name, value in asdict(usage).items() if value is not None}
                self._usage = replace(self._usage or usage, **known)

    def _told(self, told: object) -> ProviderError:
        error = told_failure(told, where=self._where, now=self._now())
        error.partial = self.text
        return error

    # -- the end

    def _flush(self) -> Iterator[Event]:
        for kind, piece in self._think.close():
            if kind == "reasoning":
                yield from self._reason_event(piece)
            elif shown := self._text.add(piece):
                yield TextDelta(shown)
        if rest := self._text.close():
            yield TextDelta(rest)
        if self._unopened.is_closed_by("", last=True):
            yield from self._take_back_thinking()
        if rest := self._reasoning.close():
            yield ReasoningDelta(rest)

    def _ending(self, cut: Exception | None) -> Literal["stop", "tool_calls", "length", "other"]:
        if not self._has_end(cut):
            self._raise_without_end(cut)
        ending = _ENDINGS.get(self._reason.lower())
        native = _ENDINGS.get(self._native_reason.lower())
        if ending in ("stop", None) and native in ("blocked", "error", "length"):
            ending = native
        if self._refusal.strip():
            raise Blocked(f"The model refused: {well_formed(self._refusal)[:500]}", partial=self.text)
        if ending == "blocked":
            raise Blocked(f"{self._where} stopped the answer: {self._native_reason or self._reason}.", partial=self.text)
        if ending == "error":
            raise Unavailable(f"{self._where} ended the answer with an error: {self._native_reason or self._reason}.", partial=self.text)
        if ending == "cut":
            raise Incomplete(f"{self._where} broke the answer off: {self._reason}.", partial=self.text)
        return ending or "other"

    def _has_end(self, cut: Exception | None) -> bool:
        """A known reason is an end at once; any other, or one that more came after, where the stream itself ended properly."""
        if not self._reason or self._ended or self._closed:
            return bool(self._reason)
        return cut is None and not self._overrun

    def _raise_without_end(self, cut: Exception | None) -> None:
        if self._chunks:
            raise Incomplete(f"The answer of {self._where} broke off before its end.", partial=self.text) from cut
        if cut is not None:
            raise Unavailable(f"{self._where} cut the connection before it answered.") from cut
        raise EmptyAnswer(f"{self._where} ended its answer without having sent anything.")

    def _parts(self) -> list[Part]:
        parts: list[Part] = []
        if self._reasoning.begun or self._details:
            parts.append(Reasoning(well_formed(self._reasoning.all), model=self._served or self._asked, extra=self._reasoning_extra()))
        if self._text.begun:
            parts.append(Text(self.text))
        return parts

    def _reasoning_extra(self) -> dict[str, Any] | None:
        """What it takes to give the reasoning back as it came (page 7)."""
        if self._details:
            return {"reasoning_details": clean(self._details)}
        return {"field": self._reasoning_field} if self._reasoning_field else None

    def _calls(self) -> tuple[Part, ...]:
        try:
            return self._tools.finished()
        except ProviderError as error:
            error.partial = self.text
            raise


class _Joined:
    """Text from pieces that may be cut inside a surrogate pair."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._half = ""

    @property
    def all(self) -> str:
        return "".join(self._pieces) + self._half

    @property
    def begun(self) -> bool:
        return bool(self._pieces or self._half)

    def add(self, piece: str) -> str:
        """What of it can be shown now."""
        piece = self._half + piece
        self._half = piece[-1] if piece and "\ud800" <= piece[-1] <= "\udbff" else ""
        return self._keep(piece.removesuffix(self._half) if self._half else piece)

    def close(self) -> str:
        half, self._half = self._half, ""
        return self._keep(half)

    def _keep(self, piece: str) -> str:
        piece = well_formed(piece)
        if piece:
            self._pieces.append(piece)
        return piece


# -- shapes ---------------------------------------------------------------------------------------


def read_usage(usage: object, cost_source: CostSource = "reported") -> Usage | None:
    """What was counted, figures that are not there left open; `None` for a report that says nothing, be it null, absent or all zero.

    `cost_source` is what a cost of this server is worth.
    """
    if not isinstance(usage, dict):
        return None
    sent, received = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    if not (sent or received):
        return None
    prompt, completion = (_mapping(usage.get(name)) for name in ("prompt_tokens_details", "completion_tokens_details"))
    cached = _count(prompt.get("cached_tokens"))
    cost = _number(usage.get("cost"), 1e9)
    return Usage(
        input_tokens=sent,
        output_tokens=received,
        cache_read_tokens=cached if cached is not None else _count(usage.get("prompt_cache_hit_tokens")),  # the latter: DeepSeek
        cache_write_tokens=_count(prompt.get("cache_write_tokens")),
        reasoning_tokens=_count(completion.get("reasoning_tokens")),
        cost_usd=cost,
        cost_source=None if cost is None else cost_source,
        cache_in_input=True,
    )


def _count(value: object) -> int | None:
    number = _number(value, 1e15)
    return None if number is None else int(number)


def _number(value: object, limit: float) -> float | None:
    """A figure, also one that was written as text."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,15})?", value):
        value = float(value)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < limit else None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _choice(chunk: Mapping[str, Any]) -> Mapping[str, Any]:
    """The first alternative; only one is ever asked for."""
    choices = chunk.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict) and choice.get("index") in (0, "0", None):
            return choice
    return {}


def _is_piece(data: str) -> bool:
    """Whether a document is a piece of a stream, whatever it is named: lines of JSON that ended behind the first are no whole answer."""
    if '"delta"' not in data:
        return False
    chunk = read_json(data)
    choice = _choice(_mapping(chunk[0] if isinstance(chunk, list) and chunk else chunk))
    return choice.get("delta") is not None and not choice.get("message")


_BESIDE_TEXT = frozenset({"id", "object", "created", "model", "choices", "usage", "provider", "system_fingerprint", "service_tier"})
_BESIDE_DELTA = frozenset({"index", "delta", "finish_reason", "native_finish_reason", "logprobs"})


def _text_alone(chunk: Any) -> str | None:  # any JSON value
    """The text of a chunk that has some and says nothing else, as nearly every one of a stream; told quickly, since it is asked of every one."""
    try:
        (choice,) = chunk["choices"]
        delta, model = choice["delta"], chunk.get("model", "")
        text = delta["content"]
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return None
    if not isinstance(text, str) or not text or not isinstance(model, str) or choice.get("index") != 0:
        return None
    if not _BESIDE_TEXT.issuperset(chunk) or not _BESIDE_DELTA.issuperset(choice) or chunk.get("object") == "error":
        return None
    if chunk.get("usage") is not None or choice.get("finish_reason") is not None or choice.get("native_finish_reason") is not None:
        return None
    return None if len(delta) > 1 and any(value is not None for name, value in delta.items() if name not in ("role", "content")) else text


def _delta(choice: Mapping[str, Any], *, fresh: bool) -> Mapping[str, Any]:
    """The new part; a whole `message` only where no deltas came before it."""
    if choice.get("delta") is not None:
        return _mapping(choice["delta"])
    return _mapping(choice.get("message")) if fresh else {}


def _reason_in(choice: Mapping[str, Any], name: str) -> str:
    told = choice.get(name)
    return told if isinstance(told, str) and told.lower() not in _NO_REASONS else ""


_SAYING = ("content", "reasoning", "reasoning_content", "reasoning_details", "refusal", "tool_calls", "function_call")


def _says_something(delta: Mapping[str, Any]) -> bool:
    return any(delta.get(name) for name in _SAYING)


def _content(content: object) -> Iterator[tuple[Literal["text", "reasoning"], str]]:
    """Text, a typed block, or a list of them (Mistral)."""
    for block in content if isinstance(content, list) else (content,):
        if isinstance(block, str):
            if block:
                yield "text", block
        elif isinstance(block, dict):
            thinks = block.get("type") in ("thinking", "reasoning")
            within = block.get("text") or (thinks and (block.get("thinking") or block.get("reasoning"))) or block.get("value")
            for kind, text in _content(within):
                yield ("reasoning" if thinks else kind), text


def _fragments(delta: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    calls = delta.get("tool_calls")
    if isinstance(calls, dict):
        calls = [calls]
    if isinstance(calls, list):
        return [call for call in calls if isinstance(call, dict)]
    older = delta.get("function_call")
    return [{"function": older}] if isinstance(older, dict) else []


def _failure_in(chunk: object, event: str) -> object:
    """The failure that a chunk tells of, or `None`; looked for before anything else in it."""
    if not isinstance(chunk, dict):
        return chunk if event == "error" else None
    if chunk.get("error"):
        return chunk
    choices = chunk.get("choices")
    if event == "error" or chunk.get("object") == "error" or chunk.get("type") == "error":
        return chunk
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict) and choice.get("error"):
            return choice
    if choices is None and ("detail" in chunk or ("message" in chunk and ("code" in chunk or "status" in chunk))):
        return chunk
    return None


def _merge_detail(details: list[dict[str, Any]], piece: dict[str, Any]) -> None:
    """Join a piece of a reasoning block (OpenRouter) to the block it goes on with."""
    last = details[-1] if details else None
    if last is None or last.get("type") != piece.get("type") or last.get("index") != piece.get("index") or "index" not in piece:
        details.append(piece)
        return
    for name, value in piece.items():
        if name in ("text", "summary", "data") and isinstance(value, str) and isinstance(last.get(name), str):
            last[name] += value
        elif value is not None:
            last[name] = value
