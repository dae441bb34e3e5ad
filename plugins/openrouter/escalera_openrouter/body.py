"""A request of the core as the JSON body of a chat completion."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from escalera_openrouter.json_text import clean_object
from orchestrator.messages import Message, Reasoning, Text, ToolCall, ToolResult, mapping_as_dict, well_formed
from orchestrator.providers import Request, SystemBlock, ToolSchema

_OWN_SYSTEM_MESSAGE = frozenset({"orientation", "percepts"})
_LIMIT_FIELDS = frozenset({"max_tokens", "max_completion_tokens", "max_output_tokens"})


def chat_body(request: Request, *, model: str | None, fields: Mapping[str, Any], strict_roles: bool, replay_reasoning: bool) -> dict[str, Any]:
    """What is sent, as `encode` sends it. `fields` are laid over it, whatever they are called."""
    body: dict[str, Any] = {"model": model} if model else {}
    body["messages"] = [*_system(request.system, one=strict_roles), *_messages(request.messages, replay_reasoning)]
    body |= {"stream": True, "stream_options": {"include_usage": True}}
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    return {**body, **fields, **_output_limit(fields, request.max_output_tokens)}


def _output_limit(fields: Mapping[str, Any], limit: int | None) -> dict[str, Any]:
    """The limit under the name that the agent's own fields use for it; the lower one counts."""
    if limit is None:
        return {}
    own = {name: value for name, value in fields.items() if name in _LIMIT_FIELDS and isinstance(value, int)}
    return {name: min(value, limit) for name, value in own.items()} or {"max_tokens": limit}


def encode(body: Mapping[str, Any]) -> bytes:
    """The body as valid UTF-8 JSON; walked through text by text only where the whole is not well formed."""
    text = _ENCODER.encode(body)
    if "\\u0000" in text or well_formed(text) is not text:
        text = _ENCODER.encode(clean_object(body))
    return text.encode("utf-8")


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=mapping_as_dict)


def _system(blocks: tuple[SystemBlock, ...], *, one: bool) -> list[dict[str, Any]]:
    """The static text, the orientation and the percepts, each a message (page 2); a single one for strict templates."""
    texts: list[str] = []
    joins = False
    for block in blocks:
        if not block.text.strip():
            continue
        static = block.name not in _OWN_SYSTEM_MESSAGE
        if texts and (one or (joins and static)):
            texts[-1] += "\n\n" + block.text
        else:
            texts.append(block.text)
        joins = static
    return [{"role": "system", "content": text} for text in texts]


def _messages(messages: tuple[Message, ...], replay_reasoning: bool) -> Iterator[dict[str, Any]]:
    for message in messages:
        if message.role == "assistant":
            yield from _assistant(message, replay_reasoning)
            continue
        yield from (_tool_result(part) for part in message.parts if isinstance(part, ToolResult))
        text = _text(message)
        if text.strip():
            yield {"role": message.role, "content": text}


def _assistant(message: Message, replay_reasoning: bool) -> Iterator[dict[str, Any]]:
    text = _text(message)
    calls = [_tool_call(part) for part in message.parts if isinstance(part, ToolCall)]
    if not calls and not text.strip():
        return
    wire: dict[str, Any] = {"role": "assistant", "content": text if text.strip() else None}
    if calls:
        wire["tool_calls"] = calls
        if replay_reasoning:
            wire |= _reasoning(message)
    yield wire


def _text(message: Message) -> str:
    return "\n\n".join(part.text for part in message.parts if isinstance(part, Text) and part.text)


def _tool_result(part: ToolResult) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": part.id, "content": part.content if part.content.strip() else "(no output)"}


def _tool_call(part: ToolCall) -> dict[str, Any]:
    """Arguments are always a JSON string; what the server put beside them goes back unchanged (T21)."""
    arguments = json.dumps(clean_object(part.arguments), ensure_ascii=False)
    return {**(part.extra or {}), "id": part.id, "type": "function", "function": {"name": part.name, "arguments": arguments}}


def _reasoning(message: Message) -> dict[str, Any]:
    """The reasoning of a message that calls tools, under the name and in the form it came in (T16)."""
    wire: dict[str, Any] = {}
    for part in message.parts:
        if not isinstance(part, Reasoning) or not part.extra:
            continue
        if details := part.extra.get("reasoning_details"):
            wire.setdefault("reasoning_details", []).extend(details)
        elif name := part.extra.get("field"):
            wire[name] = wire.get(name, "") + part.text
    return wire


def _tool(tool: ToolSchema) -> dict[str, Any]:
    return {"type": "function", "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters}}
