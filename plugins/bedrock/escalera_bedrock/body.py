"""A request of the core as the body of a Converse call."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
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


def converse_body(request: Request, shape: Shape) -> dict[str, Any]:
    """What is sent, as boto3 takes it: the one thing in it that is no JSON are the bytes of redacted reasoning (`as_json`)."""
    tools = request.tools if shape.tools else ()
    messages = [message for message in request.messages if message.role != "system"]
    if not tools:
        messages = [_flattened(message) for message in messages]
    body: dict[str, Any] = {"messages": [{"role": message.role, "content": [_block(part) for part in message.parts]} for message in messages]}
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


def _block(part: Part) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"text": part.text}
    if isinstance(part, ToolCall):
        return {"toolUse": {"toolUseId": part.id, "name": part.name, "input": dict(part.arguments)}}
    if isinstance(part, ToolResult):
        return {"toolResult": {"toolUseId": part.id, "content": [{"text": part.content}], "status": "error" if part.is_error else "success"}}
    return {"reasoningContent": _reasoning(part)}


def _reasoning(part: Reasoning) -> dict[str, Any]:
    """Text and signature, or the encrypted bytes, exactly as they came."""
    kept = (part.extra or {}).get(REDACTED)
    if isinstance(kept, str):
        try:
            return {"redactedContent": base64.b64decode(kept, validate=True)}
        except binascii.Error:
            pass  # a damaged row: the model will judge what is left of it
    told: dict[str, Any] = {"text": part.text}
    if part.signature is not None:
        told["signature"] = part.signature
    return {"reasoningText": told}


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
