"""Messages and their parts, in the form that belongs to no provider."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

MessageRole = Literal["system", "user", "assistant"]

CostSource = Literal["billed", "reported", "estimated"]
"""Where a cost comes from, the surest first: what the provider charges, what it says by a reckoning of its own, what prices of ours make of the tokens."""


@dataclass(frozen=True, slots=True)
class Text:
    """What was said."""

    text: str
    extra: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Reasoning:
    """What a model thought aloud: no answer, and bound to the exact model that signed it."""

    text: str
    model: str | None = None
    signature: str | None = None
    extra: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A request to run a tool. `extra` is what its provider wants back unchanged (page 6)."""

    id: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool gave back for the call with the same `id`."""

    id: str
    content: str
    is_error: bool = False
    extra: Mapping[str, Any] | None = None


Part = Text | Reasoning | ToolCall | ToolResult


def part_text(part: Part) -> str:
    """All that is sent of a part, as one text; ids aside."""
    extra = compact_json(part.extra) if part.extra else ""
    if isinstance(part, Text):
        return part.text + extra
    if isinstance(part, ToolCall):
        return part.name + compact_json(part.arguments) + extra
    if isinstance(part, Reasoning):
        return part.text + (part.signature or "") + extra
    return part.content + extra


def compact_json(value: Mapping[str, Any]) -> str:
    """The value as it is counted and shown: JSON, with characters as themselves."""
    return _COMPACT.encode(value)


_COMPACT = json.JSONEncoder(ensure_ascii=False, default=str)


@dataclass(frozen=True, slots=True)
class Message:
    """One message: a role and its parts in order. Tool results travel in `user` messages."""

    role: MessageRole
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one turn as the provider reported them; what it did not report stays `None`, never 0."""

    input_tokens: int | None = None
    """Without what came from the cache or went into it, unless `cache_in_input` says otherwise."""
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None
    cost_source: CostSource | None = None
    """Unset beside a cost: it was reported."""
    cache_in_input: bool = False
    """Whether the cached tokens are among the input tokens, as OpenAI's protocol counts them."""
    sent_chars: int | None = None
    """What the input tokens were reported for, in characters as the budget counts them. Not for a provider to fill in."""
    sent_tokens_estimate: int | None = None
    """The same in tokens, as they were estimated."""
    aside_tokens: int | None = None
    """How many of the tokens that were read belong to calls beside the turn, of which `sent_chars` tells nothing."""


def well_formed(text: str) -> str:
    """The text with every unpaired surrogate and NUL replaced by U+FFFD, so that it can be stored and sent.

    Surrogate pairs (as two code units) become the character they stand for.
    """
    if "\x00" in text:
        text = text.replace("\x00", "\ufffd")
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def well_formed_values(value: Any) -> Any:
    """A JSON value with every text in it well formed, at any depth. `Any`: it is given back as what it was."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, Mapping):
        return {well_formed_values(key): well_formed_values(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [well_formed_values(inner) for inner in value]
    return value


def mapping_as_dict(value: object) -> dict[Any, Any]:
    """For `json.dumps(default=…)`: any mapping as an object. Raises `TypeError` for what is none."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{type(value).__name__} is no JSON value")
    return dict(value)


MAX_DEPTH = 100
"""Levels of a JSON value that are read, stored and sent; beyond a thousand Python itself cannot walk through one."""


def read_json(text: str) -> Any:
    """A JSON value that a stranger wrote, NaN among its numbers or not. Raises `ValueError` for what is none or is too deep."""
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if is_too_deep(value, text):
        raise ValueError("nested too deeply")
    return value


def is_too_deep(value: object, text: str) -> bool:
    """Whether a value has more than `MAX_DEPTH` levels; `text` is what it was read from, which mostly tells at once."""
    return text.count("[") + text.count("{") > MAX_DEPTH and _depth(value) > MAX_DEPTH


def is_json(value: object, depth: int = MAX_DEPTH) -> bool:
    """Whether it can be stored and sent as JSON (RFC 8259): no NaN, no infinity, at most `depth` levels, no integer without end."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return value.bit_length() <= 10_000  # Python writes no more than 4,300 digits
    if isinstance(value, dict):
        return depth > 0 and all(isinstance(key, str) and is_json(inner, depth - 1) for key, inner in value.items())
    if isinstance(value, list | tuple):
        return depth > 0 and all(is_json(inner, depth - 1) for inner in value)
    return value is None or isinstance(value, str)


def _depth(value: object) -> int:
    """Levels, counted without recursion."""
    levels, holders = 0, _holders([value])
    while holders:
        levels, holders = levels + 1, _holders(inner for holder in holders for inner in (holder.values() if isinstance(holder, dict) else holder))
    return levels


def _holders(values: Iterable[object]) -> list[dict[str, object] | list[object]]:
    return [value for value in values if isinstance(value, dict | list)]
