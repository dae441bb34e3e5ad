"""The three kinds of strong agent behind one face: what to write into the configuration, what to answer, what was told."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.testing import bedrock_server
from orchestrator.testing.anthropic_server import AnthropicServer, Fail, Say
from orchestrator.testing.bedrock_server import BedrockServer
from orchestrator.testing.openai_server import OpenAIServer, json_reply, reply

CLAUDE = os.environ.get("ESCALERA_TEST_CLAUDE") or shutil.which("claude") or ""
NO_CLAUDE = "no real claude: none on PATH, and ESCALERA_TEST_CLAUDE names none"
QUIET = ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER", "DISABLE_ERROR_REPORTING")
AWS = {"AWS_ACCESS_KEY_ID": "AKIDDUMMY0000", "AWS_SECRET_ACCESS_KEY": "dummy-secret", "AWS_EC2_METADATA_DISABLED": "true"}

KINDS = ("claude-cli", "bedrock", "openrouter")


@dataclass(frozen=True)
class Backend:
    """One strong agent, named after its kind, on a scripted server of its own."""

    kind: str
    server: Any
    table: str
    """Its part of the configuration."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """What the program must be run with."""

    @property
    def keeps_conversation(self) -> bool:
        return self.kind == "claude-cli"

    def answers(self, *texts: str) -> None:
        """Lengthen the script."""
        match self.kind:
            case "claude-cli":
                self.server.add(*(Say(text) for text in texts))
            case "bedrock":
                self.server.add(*(bedrock_server.say(text) for text in texts))
            case _:
                self.server.add(*(reply(text) for text in texts))

    def fails(self) -> None:
        """Lengthen the script by a request that is refused."""
        match self.kind:
            case "claude-cli":
                self.server.add(Fail(400, "invalid_request_error", "no"))
            case "bedrock":
                self.server.add(bedrock_server.fail(400, "ValidationException", "no"))
            case _:
                self.server.add(json_reply({"error": {"message": "no"}}, status=400))

    @property
    def bodies(self) -> list[Any]:
        """The requests for an answer, in order."""
        return [request.body for request in (self.server.messages if self.kind == "claude-cli" else self.server.requests)]

    @property
    def told(self) -> str:
        """Everything that the last request told the model, as JSON."""
        return json.dumps(self.bodies[-1], ensure_ascii=False)


@contextmanager
def backend(kind: str, folder: Path, *, more: str = "") -> Iterator[Backend]:
    """A running backend of that kind, as the agent of the same name; `more` goes into its table."""
    match kind:
        case "claude-cli":
            with AnthropicServer() as server:
                yield Backend(kind, server, claude_table(kind, server.url, folder / "claude-home", more=more))
        case "bedrock":
            with BedrockServer() as runtime:
                table = (
                    f'[agents.{kind}]\nprovider = "bedrock"\nmodel = "us.anthropic.claude-test-v1:0"\nregion = "us-east-1"\nendpoint_url = "{runtime.url}"\n'
                )
                yield Backend(kind, runtime, table + more, {**AWS, "HOME": str(folder)})
        case _:
            with OpenAIServer() as compatible:
                table = f'[agents.{kind}]\nprovider = "{kind}"\nmodel = "strong"\nbase_url = "{compatible.url}"\napi_key = "sk-dummy"\n'
                yield Backend(kind, compatible, table + more)


def claude_table(name: str, url: str, home: Path, *, more: str = "") -> str:
    """An agent that is the real program, with a home of its own and no network but that server."""
    home.mkdir(exist_ok=True)
    environ = {"HOME": str(home), "CLAUDE_CONFIG_DIR": str(home / ".claude"), "ANTHROPIC_API_KEY": "dummy", "ANTHROPIC_BASE_URL": url} | dict.fromkeys(
        QUIET, "1"
    )
    pairs = ", ".join(f'{key} = "{value}"' for key, value in environ.items())
    return f'[agents.{name}]\nprovider = "claude-cli"\nbin = "{CLAUDE}"\nmodel = "claude-sonnet-4-5"\nenv = {{ {pairs} }}\n{more}'
