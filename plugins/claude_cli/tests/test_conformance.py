"""The kind runs the provider kit's suite: all of it with the stand-in program, and what only the real one can show with that."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from escalera_claude_cli.harness import ClaudeHarness

from orchestrator.errors import AuthFailed, ProviderError, SessionLost
from orchestrator.messages import Usage
from orchestrator.testing.anthropic_server import AnthropicServer, CallTool, Fail, Hang, Say
from orchestrator.testing.conformance import CannotPlay, Harness, conformance

from .real import CLAUDE, environ_of, needs_claude

ONLY_THE_REAL_ONE = (
    *("streaming.answer", "streaming.early", "tools.seen", "conversation.resumed", "conversation.lost"),
    *("permissions.asked", "cancel.silence", "check.free"),
)
"""Each start of it costs more than the whole suite with a stand-in; what it leaves out here is played in `test_real_claude`."""


class RealHarness(Harness):
    """The real program, with a home of its own, against a loopback stand-in for its API."""

    kind = "claude-cli"
    secrets = ("dummy-kit-key-0123456789",)
    release_limit = 6.0
    pace = 3.0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._server = AnthropicServer()

    def start(self) -> None:
        self._server.start()

    def stop(self) -> None:
        self._server.close()

    def options(self) -> Mapping[str, object]:
        return {"bin": CLAUDE}

    def environ(self) -> Mapping[str, str]:
        return {"PATH": "/usr/bin:/bin", **environ_of(self.folder / "home", self._server.url), "ANTHROPIC_API_KEY": self.secrets[0]}

    def calls(self) -> int:
        return len(self._server.messages)

    def answers(self, text: str, *, usage: Usage | None = None) -> None:
        if usage is not None:
            raise CannotPlay("the stand-in for its API counts by itself")
        self._server.add(Say(text))

    def hangs(self, text: str = "") -> None:
        self._server.add(Hang(text))

    def uses_tool(self) -> None:
        self._server.add(CallTool("Read", {"file_path": str(self.folder / "absent.txt")}), Say("There is none."))

    def asks(self) -> None:
        self._server.add(CallTool("Bash", {"command": "touch made.txt"}), Say("As you like."))

    def fails(self, error: type[ProviderError], *, retry_after: float | None = None) -> None:
        if error is SessionLost:
            return  # a conversation that it never had is enough
        if error is not AuthFailed:
            raise CannotPlay(f"its API is not made to fail as {error.__name__} here")
        self._server.add(Fail(401, "authentication_error", "invalid x-api-key"))


test_stand_in = conformance(ClaudeHarness)
test_real = needs_claude(conformance(RealHarness, only=ONLY_THE_REAL_ONE))
