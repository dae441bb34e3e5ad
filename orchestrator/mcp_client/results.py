"""What an MCP tool gave back, as the text that a tool result is: what is no text is named, not carried (page 3)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from orchestrator.quoting import one_line

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock

_MAX_LINE = 300


def result_text(result: CallToolResult) -> str:
    """Its blocks in their order; where there are none, its structured content."""
    text = "\n".join(_blocks(result.content))
    if text.strip() or result.structured_content is None:
        return text or "(no output)"
    return json.dumps(result.structured_content, ensure_ascii=False, default=str)


def _blocks(blocks: Iterable[ContentBlock]) -> Iterator[str]:
    for block in blocks:
        match block.type:
            case "text":
                yield block.text
            case "image" | "audio":
                yield _reference(block.type, block.mime_type, _bytes(block.data))
            case "resource_link":
                yield _reference("resource", f"{block.name} {block.uri}", block.mime_type, block.description)
            case "resource":
                yield from _resource(block.resource)


def _resource(resource: Any) -> Iterator[str]:  # any: one of two models that share only their address
    text = getattr(resource, "text", None)
    if isinstance(text, str):
        yield f"[resource {one_line(str(resource.uri), _MAX_LINE)}]"
        yield text
    else:
        yield _reference("resource", str(resource.uri), resource.mime_type, _bytes(resource.blob))


def _reference(kind: str, *facts: str | None) -> str:
    told = ", ".join(one_line(str(fact), _MAX_LINE) for fact in facts if fact)
    return f"[{kind}: {told}; it is not shown]"


def _bytes(encoded: str) -> str:
    return f"{len(encoded.rstrip('=')) * 3 // 4:,} bytes"
