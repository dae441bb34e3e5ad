"""Results of MCP tools as text: what is no text is named."""

from __future__ import annotations

import pytest
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from orchestrator.mcp_client.results import result_text


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (TextContent(text="a\nb"), "a\nb"),
        (ImageContent(data="aGVsbG8=", mime_type="image/png"), "[image: image/png, 5 bytes; it is not shown]"),
        (AudioContent(data="", mime_type="audio/wav"), "[audio: audio/wav, 0 bytes; it is not shown]"),
        (ResourceLink(name="log", uri="file:///log", mime_type="text/plain"), "[resource: log file:///log, text/plain; it is not shown]"),
        (EmbeddedResource(resource=TextResourceContents(uri="file:///a", text="inside")), "[resource file:///a]\ninside"),
        (EmbeddedResource(resource=BlobResourceContents(uri="file:///b", blob="AAAA")), "[resource: file:///b, 3 bytes; it is not shown]"),
    ],
)
def test_each_kind_of_content_is_told(block: ContentBlock, text: str) -> None:
    assert result_text(CallToolResult(content=[block])) == text


def test_structured_content_stands_in_where_there_is_nothing_else() -> None:
    assert result_text(CallToolResult(content=[], structured_content={"größe": 1})) == '{"größe": 1}'
    assert result_text(CallToolResult(content=[TextContent(text="told")], structured_content={"a": 1})) == "told"
    assert result_text(CallToolResult(content=[])) == "(no output)"
