"""How the provider kit tests this kind without Claude Code: with a stand-in program that says what Claude Code would."""

from __future__ import annotations

import json
import os
import shlex
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
    PermissionDenied,
    ProviderError,
    RateLimited,
    SessionLost,
    Unavailable,
)
from orchestrator.messages import Usage
from orchestrator.testing.conformance import CannotPlay, Harness
from orchestrator.testing.scripted_program import DIE, FLOOD, READ, READ_LINE, ScriptedProgram

_KEY = "sk-ant-kit-0123456789abcdef"
_SESSION = "5a1e7a00-0000-4000-8000-000000000001"
_WRAPPER = """\
#!/bin/sh
case "$1" in
--version) echo "2.1.197 (Claude Code)"; exit ;;
auth) echo '{{"loggedIn": true}}'; exit ;;
esac
exec {command}
"""
_FAILURES: Mapping[type[ProviderError], Mapping[str, Any]] = {
    AuthFailed: {"api_error_status": 401, "result": "Invalid API key"},
    OutOfFunds: {"api_error_status": 400, "result": "Credit balance is too low"},
    RateLimited: {"api_error_status": 429, "result": "API Error: rate limit"},
    Overloaded: {"api_error_status": 529, "result": "API Error: Overloaded"},
    Unavailable: {"api_error_status": 500, "result": "API Error: internal server error"},
    ContextOverflow: {"api_error_status": 400, "result": "Prompt is too long", "terminal_reason": "prompt_too_long"},
    InvalidRequest: {"api_error_status": 400, "result": "API Error: messages.0 is wrong"},
    ModelNotFound: {"api_error_status": 404, "result": "There is an issue with the selected model"},
    Blocked: {"api_error_status": None, "result": "API Error: this is against the usage policy"},
    PermissionDenied: {"api_error_status": None, "result": "A hook stopped it", "terminal_reason": "hook_stopped"},
}


class ClaudeHarness(Harness):
    """The kind `claude-cli`. A hanging stand-in goes when it is told to by the request that Claude Code takes for Ctrl-C."""

    kind = "claude-cli"
    secrets = (_KEY,)
    release_limit = 6.0
    samples = 8

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._program = ScriptedProgram(folder)
        self._bin = folder / "claude"

    def start(self) -> None:
        self._bin.write_text(_WRAPPER.format(command=shlex.join(self._program.command)), "utf-8")
        self._bin.chmod(0o700)

    def options(self) -> Mapping[str, object]:
        return {"bin": str(self._bin), "model": "m", "env": {"ANTHROPIC_API_KEY": _KEY}}

    def environ(self) -> Mapping[str, str]:
        return {**os.environ, "HOME": str(self.folder), "CLAUDE_CONFIG_DIR": str(self.folder / "config")}

    def calls(self) -> int:
        return self._program.calls

    def received(self) -> object:
        return self._program.received()

    # -- situations

    def answers(self, text: str, *, usage: Usage | None = None) -> None:
        self._program.add(READ_LINE, *map(_line, _whole(text, usage)), READ)

    def breaks(self, text: str) -> None:
        self._program.add(READ_LINE, *map(_line, _begun(text)), DIE)

    def hangs(self, text: str = "") -> None:
        self._program.add(READ_LINE, *(map(_line, _begun(text)) if text else ()), READ_LINE)

    def talks_on(self) -> None:
        self._program.add(READ_LINE, *map(_line, _begun("wren ")), FLOOD)

    def uses_tool(self) -> None:
        call: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}
        result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a.txt", "is_error": False}
        lines: list[Mapping[str, Any]] = [
            _INIT,
            _assistant(call),
            {"type": "user", "message": {"role": "user", "content": [result]}},
            *_whole("There is a.txt.", None)[1:],
        ]
        self._program.add(READ_LINE, *map(_line, lines), READ)

    def asks(self) -> None:
        wanted = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "touch made.txt"}}
        asked: list[Mapping[str, Any]] = [_INIT, {"type": "control_request", "request_id": "ask-1", "request": wanted}]
        self._program.add(READ_LINE, *map(_line, asked), READ_LINE, *map(_line, _whole("As you like.", None)[1:]), READ)

    def fails(self, error: type[ProviderError], *, retry_after: float | None = None) -> None:
        if error is SessionLost:
            lost = {"type": "result", "subtype": "error_during_execution", "is_error": True, "errors": ["No conversation found with session ID: x"]}
            self._program.add(READ_LINE, _line(lost), 1)
        elif error is EmptyAnswer:
            self._program.add(READ_LINE, *map(_line, (_INIT, _result("", None, num_turns=0))), READ)
        elif error in _FAILURES:
            told = dict(_FAILURES[error])
            if retry_after is not None:
                told["result"] += f". Please try again in {retry_after:g} seconds."
            self._program.add(READ_LINE, *map(_line, (_INIT, {**_result("", None), "is_error": True, **told})), READ)
        else:
            raise CannotPlay(f"Claude Code never fails as {error.__name__}")

    def withdraws(self, void: str, text: str) -> None:
        """Its stream broke, and it asked again, without a stream."""
        self._program.add(READ_LINE, *map(_line, [*_begun(void), _assistant({"type": "text", "text": text}, message="msg_2"), _result(text, None)]), READ)

    # -- bytes

    def wire(self, text: str) -> bytes:
        return b"".join(map(_line, _whole(text, None)))

    def writes(self, pieces: Sequence[bytes]) -> None:
        self._program.add(READ_LINE, *pieces)


_INIT = {"type": "system", "subtype": "init", "session_id": _SESSION, "model": "m"}


def _begun(text: str) -> list[dict[str, Any]]:
    """An answer up to its text, in two pieces where it has so many characters."""
    half = len(text) // 2
    deltas = [_event("content_block_delta", index=0, delta={"type": "text_delta", "text": piece}) for piece in (text[:half], text[half:]) if piece]
    start = _event("message_start", message={"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []})
    return [_INIT, start, _event("content_block_start", index=0, content_block={"type": "text", "text": ""}), *deltas]


def _whole(text: str, usage: Usage | None) -> list[dict[str, Any]]:
    ends = [_event("content_block_stop", index=0), _event("message_delta", delta={"stop_reason": "end_turn"}), _event("message_stop")]
    return [*_begun(text), _assistant({"type": "text", "text": text}), *ends, _result(text, usage)]


def _event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "stream_event", "event": {"type": kind, **fields}, "session_id": _SESSION, "parent_tool_use_id": None}


def _assistant(*content: Mapping[str, Any], message: str = "msg_1") -> dict[str, Any]:
    return {"type": "assistant", "message": {"id": message, "role": "assistant", "model": "m", "content": list(content)}, "session_id": _SESSION}


def _result(text: str, usage: Usage | None, *, num_turns: int = 1) -> dict[str, Any]:
    told: dict[str, Any] = {"type": "result", "subtype": "success", "is_error": False, "result": text, "num_turns": num_turns, "session_id": _SESSION}
    if usage is not None:
        told["usage"] = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
        told["total_cost_usd"] = usage.cost_usd
    return told


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value).encode() + b"\n"
