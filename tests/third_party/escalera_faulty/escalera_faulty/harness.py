"""How the provider kit tests it: against a server on loopback that is scripted to the byte."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

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
from orchestrator.testing.scripted import LoopbackServer, Reply

KEY = "kit-key-0123456789"
LINES = {"content-type": "application/x-ndjson"}
STATUS: dict[type[ProviderError], int] = {
    AuthFailed: 401,
    OutOfFunds: 402,
    RateLimited: 429,
    Overloaded: 503,
    Unavailable: 500,
    ContextOverflow: 413,
    InvalidRequest: 400,
    ModelNotFound: 404,
}


class FaultyHarness(Harness):
    """Each method brings the server into one situation; what a backend cannot play is left out, and told as `not shown`."""

    kind = "escalera_faulty:faulty"
    secrets = (KEY,)
    pace, release_limit, limit, samples = 0.2, 1.5, 4.0, 12

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._server = LoopbackServer(pages={"/health": Reply([b"well"])})

    def start(self) -> None:
        """Begin to listen."""
        self._server.__enter__()

    def stop(self) -> None:
        """Let go of every connection."""
        self._server.__exit__(None, None, None)

    def options(self) -> Mapping[str, object]:
        """The options of an agent on this server."""
        return {"base_url": self._server.url, "model": "m", "api_key": KEY, "fault": os.environ.get("KIT_FAULT", "")}

    def calls(self) -> int:
        """Calls that would have cost tokens."""
        return sum(request.method == "POST" for request in self._server.requests)

    def received(self) -> object:
        """The body of the last one."""
        return self._server.requests[-1].body

    def received_head(self) -> Mapping[str, Any]:
        """How the last one was addressed."""
        last = self._server.requests[-1]
        return {"method": last.method, "url": last.path, "headers": last.headers}

    # -- situations

    def answers(self, text: str, *, usage: Usage | None = None) -> None:
        """A proper answer."""
        self._plays(*_answer(text, usage))

    def breaks(self, text: str) -> None:
        """The connection is lost in the middle."""
        self._server.add(Reply([_line({"text": text})], headers=LINES, reset=True))

    def hangs(self, text: str = "") -> None:
        """Not even a head comes, or nothing after this text."""
        self._server.add(Reply([_line({"text": text})], headers=LINES, hold_open=True) if text else Reply(before_head=threading.Event()))

    def talks_on(self) -> None:
        """A minute of words."""
        self._server.add(Reply([_line({"text": "wren "}), 0.01] * 6000, headers=LINES))

    def calls_tools(self, calls: Sequence[ToolCall], text: str = "") -> None:
        """Some tools are asked for."""
        told = [{"tool_call": {"id": call.id, "name": call.name, "arguments": dict(call.arguments)}} for call in calls]
        self._plays(*([{"text": text}] if text else []), *told, {"end": "tool_calls"})

    def fails(self, error: type[ProviderError], *, retry_after: float | None = None) -> None:
        """By a status where HTTP has one, else within an answer that began well."""
        if error in STATUS:
            headers = {} if retry_after is None else {"retry-after": str(retry_after)}
            self._server.add(Reply([b'{"error": "scripted"}'], STATUS[error], {"content-type": "application/json", **headers}))
        elif error is Blocked:
            self._plays({"error": {"code": "blocked", "message": "a filter stopped the answer"}})
        elif error is EmptyAnswer:
            self._plays({"end": "stop"})
        elif error is ProtocolError:
            self._server.add(Reply([b"<html>Please sign in.</html>"], headers={"content-type": "text/html"}))
        else:
            raise CannotPlay(f"this backend never fails as {error.__name__}")

    def withdraws(self, void: str, text: str) -> None:
        """The backend begins its answer again."""
        self._plays({"text": void}, {"void": True}, {"text": text}, {"end": "stop"})

    def reasons(self, thought: str, text: str) -> None:
        """It thinks before it answers."""
        self._plays({"thought": thought[:9]}, {"thought": thought[9:]}, {"text": text}, {"end": "stop"})

    def wire(self, text: str) -> bytes:
        """The bytes of a proper answer."""
        return b"".join(map(_line, _answer(text, None)))

    def writes(self, pieces: Sequence[bytes]) -> None:
        """Exactly these."""
        self._server.add(Reply(list(pieces), headers=LINES))

    def _plays(self, *lines: Mapping[str, Any]) -> None:
        self._server.add(Reply([_line(line) for line in lines], headers=LINES))


def _answer(text: str, usage: Usage | None) -> list[Mapping[str, Any]]:
    half = len(text) // 2
    told = [] if usage is None else [{"usage": {"input": usage.input_tokens, "output": usage.output_tokens}}]
    return [{"text": text[:half]}, {"text": text[half:]}, *told, {"end": "stop"}]


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value).encode() + b"\n"
