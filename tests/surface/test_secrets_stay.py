"""No command shows a secret that stands in the configuration, wherever in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest

from orchestrator.testing.openai_server import OpenAIServer, Reply, Request, json_reply

from .conftest import Shell

SECRETS = ("hunter2", "qwerty12345", "topsecret", "body-secret-1", "plain-secret-77", "abc-secret-9", "def-secret-8", "mcp-secret-55")
CONFIGURATION = r"""
primary = "local"
escalation = "claude"
[agents.local]
provider = "openai"
base_url = "http://user:hunter2@127.0.0.1:9/v1?api_key=qwerty12345"
model = "m"
body = { api_key = "body-secret-1" }
[agents.cloud]
provider = "bedrock"
model = "m"
region = "us-east-1"
endpoint_url = "http://user:topsecret@127.0.0.1:9"
[agents.claude]
provider = "claude-cli"
bin = "no-such-claude"
extra_args = ["--settings", '{"env": {"MY_API_KEY": "plain-secret-77"}}', "--api-key=abc-secret-9", "--token", "def-secret-8"]
mcp_config = '{"mcpServers": {"x": {"command": "y", "env": {"TOKEN": "mcp-secret-55"}}}}'
"""
COMMANDS = (
    *(("plan", "--escalate", "--json", "x"), ("plan", "--escalate", "x"), ("plan", "--primary", "x"), ("plan", "--agent", "cloud", "x")),
    *(("settings", "list", "--json"), ("settings", "list"), ("agents", "list", "--json"), ("agents", "list"), ("agents", "check", "--json")),
    *(("ask", "--primary", "--json", "x"), ("ask", "--agent", "cloud", "x"), ("ask", "--escalate", "x"), ("session", "export", "--raw")),
)


def test_no_command_shows_a_secret_of_the_configuration(shell: Shell) -> None:
    shell.configure(CONFIGURATION)

    results = shell.each(*COMMANDS)

    leaks = [(result.args, secret) for result in results for secret in SECRETS if secret in result.stdout + result.stderr]
    assert leaks == []
    assert "--api-key=***" in results[0].stdout


@pytest.mark.parametrize("more", [(), ("--write",), ("--server", "http://user:hunter2@127.0.0.1:9")])
def test_the_doctor_shows_none_either(shell: Shell, more: tuple[str, ...]) -> None:
    shell.configure(CONFIGURATION)

    result = shell.run("doctor", "--json", *more)

    assert result.returncode == 1
    assert [secret for secret in SECRETS if secret in result.stdout + result.stderr] == []


CANARY = "CANARY-7f3a9b2c"
PRINTS_ALL = '#!/bin/sh\nenv >&2\necho "$@" >&2\nexit 3\n'
HELD = """
primary = "web"
escalation = "cmd"
[agents.web]
provider = "openai"
base_url = "{url}?key={canary}"
model = "m"
body = {{ password = {{ env = "PASSWORD" }}, accessToken = "{canary}" }}
[agents.cmd]
provider = "claude-cli"
bin = "{program}"
env = {{ GITHUB_TOKEN = {{ cmd = ["cat", "{program}.key"] }}, MY_PAT = "{canary}" }}
[agents.other]
provider = "claude-cli"
bin = "{program}"
env = {{ OTHER = {{ env = "OTHERKEY" }} }}
"""


class Quoting(OpenAIServer):
    """Repeats in its refusal what it was asked."""

    def _unscripted(self, request: Request) -> Reply:
        return json_reply({"error": {"message": f"no {request.path} for you, {unquote(request.path)}, nor {request.raw.decode()}"}}, status=400)


def test_no_backend_can_make_a_secret_known_by_quoting_it(shell: Shell, tmp_path: Path) -> None:
    program = tmp_path / "prints-all"
    program.write_text(PRINTS_ALL)
    program.chmod(0o755)
    (tmp_path / "prints-all.key").write_text(f"{CANARY}-cmd")
    shell = replace(shell, more={"PASSWORD": f"{CANARY}-pw", "OTHERKEY": f"{CANARY}-other"})
    with Quoting() as server:
        shell.configure(HELD.format(url=server.url, canary=CANARY, program=program))

        asked = shell.each(
            *(("ask", "--agent", agent, *more, "x") for agent in ("web", "cmd", "other") for more in ((), ("--json",), ("--stream-json",))),
            *(("agents", "check", "--json"), ("doctor", "--json"), ("settings", "list"), ("plan", "--json", "x"), ("session", "export"), ("session", "show")),
        )
        sent = [request.body for request in server.requests if request.body]

    assert [result.args for result in asked if CANARY in result.stdout + result.stderr] == []
    assert CANARY not in str(shell.stored())
    assert "no /v1/chat/completions?key=*** for you" in asked[0].stderr
    assert [result.returncode for result in asked[:9]] == [1] * 9
    assert sent[0]["password"] == f"{CANARY}-pw"


@pytest.mark.parametrize(
    "misplaced",
    [
        'provider = "CANARY-7f3a9b2c"',
        'provider = "openai"\nbase_url = "CANARY-7f3a9b2c"',
        'provider = "openai"\nbase_url = "me:CANARY-7f3a9b2c@host/v1"',
        'provider = "openai"\nbase_url = "http://h"\ntoken_cmd = "CANARY-7f3a9b2c"',
        'provider = "openai"\nbase_url = "http://h"\nlimits = "CANARY-7f3a9b2c"',
        'provider = "openai"\nbase_url = "http://h"\nheaders = "CANARY-7f3a9b2c"',
        'provider = "openai"\nbase_url = "http://h"\nheaders = ["Authorization: Bearer CANARY-7f3a9b2c"]',
        'provider = "claude-cli"\nenv = ["CANARY-7f3a9b2c"]',
        """provider = "claude-cli"\nmcp_config = '{"mcpServers": {"x": {"env": {"TOKEN": "CANARY-7f3a9b2c"}}}'""",
    ],
)
def test_a_misplaced_secret_is_not_repeated(shell: Shell, misplaced: str) -> None:
    shell.configure(f'primary = "x"\n[agents.x]\n{misplaced}\n')

    results = shell.each(("ask", "x"), ("agents", "list"), ("agents", "check"), ("settings", "list"), ("plan", "--json", "x"))

    assert results[0].returncode == 2
    assert [result.args for result in results if CANARY in result.stdout + result.stderr] == []
