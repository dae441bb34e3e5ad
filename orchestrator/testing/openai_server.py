"""A scripted OpenAI-compatible server on loopback, for tests that want real sockets and no network.

    with OpenAIServer(reply("hello", usage=(12, 2))) as server:
        ...                                         # point an agent's base_url at server.url
        assert server.requests[0].body["messages"]

Every POST is answered by the next reply of the script, byte for byte; the connection is closed after it unless the
reply holds it open. `GET …/models` lists `models` and takes nothing from the script. Pauses are events that the test
sets, so no test has to sleep.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.testing import scripted
from orchestrator.testing.scripted import Request, ScriptedServer


@dataclass(frozen=True, slots=True)
class Reply(scripted.Reply):
    """One answer, an event stream unless its headers say otherwise."""

    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "text/event-stream"})


def reply(text: str, *, usage: tuple[int, int] | None = None, model: str = "fake", finish_reason: str = "stop") -> Reply:
    """A streamed answer, a word an event; `usage` is (prompt tokens, completion tokens)."""
    words = [word + " " for word in text.split(" ")]
    words[-1] = words[-1][:-1]
    chunks: list[Mapping[str, Any]] = [chunk({"content": word}, model=model) for word in words]
    chunks.append(chunk({}, finish_reason=finish_reason, model=model))
    if usage is not None:
        sent, received = usage
        chunks.append({"model": model, "choices": [], "usage": {"prompt_tokens": sent, "completion_tokens": received, "total_tokens": sent + received}})
    return sse(*chunks)


def chunk(delta: Mapping[str, Any] | None, *, finish_reason: str | None = None, model: str = "fake", **fields: Any) -> dict[str, Any]:
    """One chunk of an answer; `fields` stand beside `choices`."""
    return {"id": "c1", "object": "chat.completion.chunk", "model": model, "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}], **fields}


def sse(*events: Mapping[str, Any], done: bool = True) -> Reply:
    """A stream of these events, with `[DONE]` at its end unless told otherwise."""
    frames = [f"data: {json.dumps(event)}\n\n".encode() for event in events]
    return Reply([*frames, b"data: [DONE]\n\n"] if done else frames)


def json_reply(document: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    """A JSON document: an answer that is not streamed, or an error."""
    return Reply([json.dumps(document).encode()], status, {"content-type": "application/json", **(headers or {})})


class OpenAIServer(ScriptedServer[Request, Reply]):
    """The server; a context manager. `url` is its base URL, with `/v1`. With `models` None it has no list of them."""

    def __init__(self, *script: Reply, models: Sequence[str] | None = ("fake",)) -> None:
        super().__init__(*script)
        self.models = models

    @property
    def url(self) -> str:
        return f"{super().url}/v1"

    def _request(self, arrived: Request) -> Request:
        return arrived

    def _unscripted(self, request: Request) -> Reply:
        if request.method == "POST":
            return json_reply({"error": {"message": "the script is over"}}, status=418)
        if request.path.endswith("/models") and self.models is not None:
            return json_reply({"object": "list", "data": [{"id": model, "object": "model"} for model in self.models]})
        return json_reply({"error": {"message": "not found"}}, status=404)


__all__ = ["OpenAIServer", "Reply", "Request", "chunk", "json_reply", "reply", "sse"]
