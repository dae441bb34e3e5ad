"""How the provider kit tests this kind: the real AWS client against a loopback server that is scripted to the byte."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

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
from orchestrator.testing.bedrock_server import BedrockServer, Reply, fail, frame_of, metadata, say, stream
from orchestrator.testing.conformance import CannotPlay, Harness

_KEY, _SECRET = "AKIAKITKITKITKITKIT0", "kit-secret-access-key-0123456789"
_STOP = {"messageStop": {"stopReason": "end_turn"}}
_REFUSALS: Mapping[type[ProviderError], tuple[int, str, str]] = {
    AuthFailed: (403, "UnrecognizedClientException", "The security token included in the request is invalid."),
    OutOfFunds: (403, "AccessDeniedException", "Your account has no valid payment instrument."),
    RateLimited: (429, "ThrottlingException", "Too many requests."),
    Overloaded: (429, "ModelNotReadyException", "The model is not ready."),
    Unavailable: (500, "InternalServerException", "Something broke."),
    ContextOverflow: (400, "ValidationException", "Input is too long for requested model."),
    InvalidRequest: (400, "ValidationException", "messages.0 is wrong."),
    ModelNotFound: (404, "ResourceNotFoundException", "There is no such model."),
}


class BedrockHarness(Harness):
    """The kind `bedrock`. Credentials come from the environment of the process, as AWS tools have them; what is there is put back."""

    kind = "bedrock"
    secrets = (_SECRET,)
    samples = 12

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._server = BedrockServer()
        self._before: dict[str, str] = {}

    def start(self) -> None:
        self._before = {name: value for name, value in os.environ.items() if name.upper().startswith("AWS_") or name.upper().endswith("_PROXY")}
        for name in self._before:
            del os.environ[name]
        os.environ |= self._own()
        self._server.__enter__()

    def stop(self) -> None:
        self._server.__exit__(None, None, None)
        for name in self._own():
            del os.environ[name]
        os.environ |= self._before

    def options(self) -> Mapping[str, object]:
        return {"model": "us.anthropic.claude-kit-v1:0", "region": "us-east-1", "endpoint_url": self._server.url}

    def calls(self) -> int:
        """A check asks without messages, which is refused and costs nothing."""
        return sum(request.method == "POST" and bool((request.body or {}).get("messages")) for request in self._server.requests)

    def received(self) -> object:
        return self._server.requests[-1].body

    # -- situations

    def is_well(self) -> None:
        self._server.add(fail(400, "ValidationException", "The request has no messages."))

    def answers(self, text: str, *, usage: Usage | None = None) -> None:
        self._server.add(_answer(text, usage))

    def breaks(self, text: str) -> None:
        self._server.add(Reply([frame_of(_said(text))], broken=True))

    def hangs(self, text: str = "") -> None:
        self._server.add(Reply([frame_of(_said(text))], hold_open=True) if text else Reply(before_head=threading.Event()))

    def talks_on(self) -> None:
        self._server.add(Reply([frame_of(_said("wren ")), 0.01] * 6000))

    def calls_tools(self, calls: Sequence[ToolCall], text: str = "") -> None:
        self._server.add(say(text, calls=[(call.id, call.name, call.arguments) for call in calls]))

    def fails(self, error: type[ProviderError], *, retry_after: float | None = None) -> None:
        if error is Blocked:
            self._server.add(stream({"messageStart": {"role": "assistant"}}, {"messageStop": {"stopReason": "guardrail_intervened"}}, metadata()))
        elif error is EmptyAnswer:
            self._server.add(stream({"messageStart": {"role": "assistant"}}, _STOP, metadata()))
        elif error is ProtocolError:
            self._server.add(Reply([b"<html>Please sign in.</html>"], headers={"content-type": "text/html"}))
        elif error in _REFUSALS:
            self._server.add(fail(*_REFUSALS[error], headers={} if retry_after is None else {"retry-after": f"{retry_after:g}"}))
        else:
            raise CannotPlay(f"Bedrock never fails as {error.__name__}")

    # -- bytes

    def wire(self, text: str) -> bytes:
        return _answer(text, None).content

    def writes(self, pieces: Sequence[bytes]) -> None:
        self._server.add(Reply(list(pieces)))

    def _own(self) -> Mapping[str, str]:
        """No file of the user's own is read, and no machine's metadata service asked."""
        nothing = str(self.folder / "none")
        return {
            "AWS_ACCESS_KEY_ID": _KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": nothing,
            "AWS_SHARED_CREDENTIALS_FILE": nothing,
        }


def _answer(text: str, usage: Usage | None) -> Reply:
    """In two pieces; without a usage there is no `metadata` at all."""
    half = len(text) // 2
    counted = [] if usage is None else [metadata({"inputTokens": usage.input_tokens or 0, "outputTokens": usage.output_tokens or 0})]
    said = [_said(piece) for piece in (text[:half], text[half:]) if piece]
    return stream({"messageStart": {"role": "assistant"}}, *said, {"contentBlockStop": {"contentBlockIndex": 0}}, _STOP, *counted)


def _said(text: str) -> Mapping[str, object]:
    return {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": text}}}
