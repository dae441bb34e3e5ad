"""No command shows a secret that stands in the configuration, wherever in it."""

from __future__ import annotations

import pytest

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
