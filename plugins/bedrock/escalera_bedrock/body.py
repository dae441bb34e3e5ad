"""A request of the core as the body of a Converse call."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from orchestrator.messages import Message, Part, Reasoning, Text, ToolCall, ToolResult, well_formed
from orchestrator.providers import Request, ToolSchema

CACHE_POINT = {"cachePoint": {"type": "default"}}
REDACTED = "redacted"
"""The key in a reasoning's `extra` under which its encrypted bytes are kept, as base64."""

_OWN_SYSTEM_TEXT = frozenset({"orientation", "percepts"})


@dataclass(frozen=True, slots=True)
class Shape:
    """What the agent's options and the model's abilities make of a request."""

    inference: Mapping[str, Any] = field(default_factory=dict)
    """Converse's names: `maxTokens`, `temperature`, `topP`, `stopSequences`."""
    additional_fields: Mapping[str, Any] = field(default_factory=dict)
    caching: bool = False
    tools: bool = True
    separate_results: bool = False
    """Whether a user message holds tool results or text, never both: some models refuse the two beside each other (page 3)."""


def converse_body(request: Request, shape: Shape) -> dict[str, Any]:
    """What is sent, as boto3 takes it: the one thing in it that is no JSON are the bytes of redacted reasoning (`as_json`)."""
    tools = request.tools if shape.tools else ()
    messages = [message for message in request.messages if message.role != "system"]
    if not tools:
        messages = [_flattened(message) for message in messages]
    if shape.separate_results:
        messages = [part for message in messages for part in _separated(message)]
    body: dict[str, Any] = {"messages": [{"role": message.role, "content": list(_blocks(message))} for message in messages]}
    if system := _system(request, caching=shape.caching):
        body["system"] = system
    if tools:
        body["toolConfig"] = {"tools": [_tool(tool) for tool in tools]}
    if shape.caching and tools:
        _mark_messages(body["messages"])
    if inference := _inference(shape.inference, request.max_output_tokens):
        body["inferenceConfig"] = inference
    if shape.additional_fields:
        body["additionalModelRequestFields"] = dict(shape.additional_fields)
    return body


def as_json(value: Any) -> Any:  # any value of a body
    """The value as it stands in the JSON on the wire: bytes travel as base64."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Mapping):
        return {key: as_json(item) for key, item in value.items()}
    return [as_json(item) for item in value] if isinstance(value, list | tuple) else value


# -- system ---------------------------------------------------------------------------------------


def _system(request: Request, *, caching: bool) -> list[dict[str, Any]]:
    """The static text, the orientation and the percepts, each a block (page 2), then what a history has of its own.

    The static text is the same in every turn, and so is what stands before it (the tools): the cache point is behind it.
    """
    blocks: list[dict[str, Any]] = []
    filled = [block for block in request.system if block.text.strip()]
    for static, run in groupby(filled, key=lambda block: block.name not in _OWN_SYSTEM_TEXT):
        texts = [well_formed(block.text) for block in run]
        blocks += [{"text": "\n\n".join(texts)}] if static else [{"text": text} for text in texts]
        if caching and static and CACHE_POINT not in blocks:
            blocks.append(dict(CACHE_POINT))
    hoisted = (part.text for message in request.messages if message.role == "system" for part in message.parts if isinstance(part, Text))
    return blocks + [{"text": well_formed(text)} for text in hoisted if text.strip()]


# -- messages -------------------------------------------------------------------------------------


def _blocks(message: Message) -> Iterator[dict[str, Any]]:
    for part in message.parts:
        if isinstance(part, Text):
            yield {"text": part.text}
        elif isinstance(part, ToolCall):
            yield {"toolUse": {"toolUseId": part.id, "name": part.name, "input": dict(part.arguments)}}
        elif isinstance(part, ToolResult):
            yield {"toolResult": {"toolUseId": part.id, "content": [{"text": part.content}], "status": "error" if part.is_error else "success"}}
        elif reasoning := _reasoning(part):
            yield {"reasoningContent": reasoning}


def _reasoning(part: Reasoning) -> dict[str, Any] | None:
    """Text and signature, or the encrypted bytes, exactly as they came; `None` for a row so damaged that it is neither (T36)."""
    if part.signature:
        return {"reasoningText": {"text": part.text, "signature": part.signature}}
    kept = (part.extra or {}).get(REDACTED)
    try:
        return {"redactedContent": base64.b64decode(kept, validate=True)} if isinstance(kept, str) and kept else None
    except ValueError:
        return None


def _separated(message: Message) -> Sequence[Message]:
    """The results, then the rest in a message of its own; between the two stands an assistant's, since roles alternate."""
    results = tuple(part for part in message.parts if isinstance(part, ToolResult))
    rest = tuple(part for part in message.parts if not isinstance(part, ToolResult))
    if not results or not rest:
        return (message,)
    return (Message(message.role, results), Message("assistant", (Text(_NOTHING_SAID),)), Message(message.role, rest))


_NOTHING_SAID = "(no answer)"


def _flattened(message: Message) -> Message:
    """The message with its tool blocks as text, for a call that offers no tools: Converse refuses them there."""
    if not any(isinstance(part, ToolCall | ToolResult) for part in message.parts):
        return message
    return Message(message.role, tuple(_as_text(part) for part in message.parts))


def _as_text(part: Part) -> Part:
    if isinstance(part, ToolCall):
        return Text(f"[called {part.name}: {json.dumps(dict(part.arguments), ensure_ascii=False)}]")
    if isinstance(part, ToolResult):
        return Text(f"[{'error' if part.is_error else 'result'}]\n{part.content}")
    return part


def _mark_messages(messages: Sequence[dict[str, Any]]) -> None:
    """One cache point at the end of the last user message, which the next call of a tool loop repeats.

    Converse refuses a point anywhere behind a reasoning block, even in a later user message, so there is none after one.
    """
    last = None
    for message in messages:
        if any("reasoningContent" in block for block in message["content"]):
            break
        if message["role"] == "user":
            last = message
    if last is not None:
        last["content"].append(dict(CACHE_POINT))


# -- the rest -------------------------------------------------------------------------------------


def _tool(tool: ToolSchema) -> dict[str, Any]:
    spec: dict[str, Any] = {"name": tool.name, "inputSchema": {"json": dict(tool.parameters)}}
    if tool.description.strip():
        spec["description"] = tool.description
    return {"toolSpec": spec}


def _inference(configured: Mapping[str, Any], limit: int | None) -> dict[str, Any]:
    """The configured parameters; a limit of the call's own only ever lowers the number of tokens."""
    inference = dict(configured)
    if limit is not None:
        inference["maxTokens"] = min(limit, inference.get("maxTokens", limit))
    return inference
