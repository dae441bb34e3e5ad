"""How the provider kit tests these two kinds: against a loopback server that is scripted to the byte."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from orchestrator.errors import (
    AuthFailed,
    Blocked,
    ContextOverflow,
    EmptyAnswer,
    InvalidRequest,
    ModelNotFound,
    OutOfFunds,
    Overloaded,
    ProtocolError,
    ProviderError,
    RateLimited,
    Unavailable,
)
from orchestrator.messages import ToolCall, Usage
from orchestrator.testing.conformance import CannotPlay, Harness
from orchestrator.testing.openai_server import OpenAIServer, Reply, chunk, json_reply, sse

_KEY, _HEADER = "sk-kit-0123456789abcdef", "kit-header-secret-42"
_REFUSALS: Mapping[type[ProviderError], tuple[int, str, str]] = {
    AuthFailed: (401, "invalid_api_key", "Incorrect API key provided."),
    OutOfFunds: (402, "insufficient_credits", "Insufficient credits."),
    RateLimited: (429, "rate_limit_exceeded", "Rate limit reached."),
    Overloaded: (503, "overloaded_error", "The engine is overloaded."),
    Unavailable: (500, "server_error", "Something broke."),
    ContextOverflow: (400, "context_length_exceeded", "This model's maximum context length is 8192 tokens, but you requested 9000 tokens."),
    InvalidRequest: (400, "invalid_request_error", "messages.0.role is wrong."),
    ModelNotFound: (404, "model_not_found", "The model `m` does not exist."),
}


class OpenAIHarness(Harness):
    """The kind `openai`."""

    kind = "openai"
    secrets = (_KEY, _HEADER)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._server = OpenAIServer(models=("m",))

    def start(self) -> None:
        self._server.__enter__()

    def stop(self) -> None:
        self._server.__exit__(None, None, None)

    def options(self) -> Mapping[str, object]:
        return {"base_url": self._server.url, "model": "m", "api_key": _KEY, "headers": {"x-team": _HEADER}}

    def environ(self) -> Mapping[str, str]:
        return dict(os.environ)

    def calls(self) -> int:
        return sum(request.method == "POST" for request in self._server.requests)

    def received(self) -> object:
        return self._server.requests[-1].body

    def received_head(self) -> Mapping[str, Any]:
        last = self._server.requests[-1]
        return {"method": last.method, "url": last.path, "headers": last.headers}

    # -- situations

    def answers(self, text: str, *, usage: Usage | None = None) -> None:
        self._server.add(_answer(text, usage))

    def breaks(self, text: str) -> None:
        self._server.add(Reply([_event(chunk({"content": text}))], reset=True))

    def hangs(self, text: str = "") -> None:
        self._server.add(Reply([_event(chunk({"content": text}))], hold_open=True) if text else Reply(before_head=threading.Event()))

    def talks_on(self) -> None:
        self._server.add(Reply([_event(chunk({"content": "wren "})), 0.01] * 6000))

    def calls_tools(self, calls: Sequence[ToolCall], text: str = "") -> None:
        said = [chunk({"content": text})] if text else []
        self._server.add(sse(*said, *(event for index, call in enumerate(calls) for event in _call(index, call)), chunk({}, finish_reason="tool_calls")))

    def fails(self, error: type[ProviderError], *, retry_after: float | None = None) -> None:
        headers = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
        if error is Blocked:
            self._server.add(sse(chunk({"content": ""}), chunk({}, finish_reason="content_filter")))
        elif error is EmptyAnswer:
            self._server.add(sse(chunk({"content": ""}), chunk({}, finish_reason="stop")))
        elif error is ProtocolError:
            self._server.add(Reply([b"<html><body>Please sign in.</body></html>"], headers={"content-type": "text/html"}))
        elif error in _REFUSALS:
            status, code, message = _REFUSALS[error]
            self._server.add(json_reply({"error": {"code": code, "message": message}}, status=status, headers=headers))
        else:
            raise CannotPlay(f"no server of this kind fails as {error.__name__}")

    def withdraws(self, void: str, text: str) -> None:
        """Text turns out to have been thinking, which the chat template had opened."""
        self._server.add(sse(*(chunk({"content": piece}) for piece in (void, "\n</think>", "\n\n", text)), chunk({}, finish_reason="stop")))

    def reasons(self, thought: str, text: str) -> None:
        said = [chunk({"reasoning": thought[:9]}), chunk({"reasoning": thought[9:]}), chunk({"content": text})]
        self._server.add(sse(*said, chunk({}, finish_reason="stop")))

    # -- bytes

    def wire(self, text: str) -> bytes:
        return _answer(text, None).content

    def writes(self, pieces: Sequence[bytes]) -> None:
        self._server.add(Reply(list(pieces)))


class OpenRouterHarness(OpenAIHarness):
    """The kind `openrouter`."""

    kind: ClassVar[str] = "openrouter"

    def fails(self, error: type[ProviderError], *, retry_after: float | None = None) -> None:
        if error is Overloaded:
            self._server.add(
                json_reply({"error": {"code": 503, "message": "Provider overloaded", "metadata": {"error_type": "provider_overloaded"}}}, status=503)
            )
        else:
            super().fails(error, retry_after=retry_after)


def _answer(text: str, usage: Usage | None) -> Reply:
    half = len(text) // 2
    events: list[Mapping[str, Any]] = [chunk({"content": piece}) for piece in (text[:half], text[half:]) if piece]
    return sse(*events, chunk({}, finish_reason="stop"), *([] if usage is None else [_usage(usage)]))


def _usage(usage: Usage) -> Mapping[str, Any]:
    cost = {} if usage.cost_usd is None else {"cost": usage.cost_usd}
    return {"model": "m", "choices": [], "usage": {"prompt_tokens": usage.input_tokens, "completion_tokens": usage.output_tokens, **cost}}


def _call(index: int, call: ToolCall) -> list[Mapping[str, Any]]:
    """Its name, and then its arguments in two pieces."""
    told = json.dumps(dict(call.arguments))
    half = len(told) // 2
    begin = {"index": index, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
    return [chunk({"tool_calls": [begin]})] + [
        chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}) for piece in (told[:half], told[half:])
    ]


def _event(event: Mapping[str, Any]) -> bytes:
    return f"data: {json.dumps(event)}\n\n".encode()
