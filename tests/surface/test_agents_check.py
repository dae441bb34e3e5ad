"""`escalera agents check`: one word for each agent, whatever its backend or its plugin does."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from orchestrator.testing.openai_server import OpenAIServer

from .conftest import Shell, answering

REFUSAL = b'{"error": {"message": "no, key sk-9876 is wrong"}}'


def agent(name: str, url: str, provider: str = "openai", more: str = "") -> str:
    return f'[agents.{name}]\nprovider = "{provider}"\nbase_url = "{url}"\nmodel = "m"\n{more}\n'


def statuses(shell: Shell, *flags: str, code: int = 1) -> dict[str, Any]:
    document = shell.json("agents", "check", *flags, "--json", code=code)
    assert document["format"] == "escalera.checks/1"
    return {item["name"]: item for item in document["agents"]}


def test_each_agent_has_its_own_word(shell: Shell) -> None:
    with OpenAIServer(models=["m"]) as works, answering(REFUSAL, 401) as refuses, answering(REFUSAL, 429) as full:
        key = 'api_key = "sk-9876"'
        shell.configure(
            'primary = "works"\nescalation = "keyless"\n'
            + agent("works", works.url)
            + agent("refused", refuses, more=key)
            + agent("quota", full, more=key)
            + agent("keyless", works.url, "openrouter")
            + agent("unset", works.url, more='api_key = { env = "NOT_SET_HERE" }')
            + agent("gone", works.url, "no-such-kind")
            + '[agents.claude]\nprovider = "claude-cli"\nbin = "no-such-claude"\n'
        )
        found = statuses(shell)

    assert {name: item["status"] for name, item in found.items()} == {
        "works": "works",
        "refused": "refused",
        "quota": "quota",
        "keyless": "no_credentials",
        "unset": "no_credentials",
        "gone": "not_installed",
        "claude": "not_installed",
    }
    assert "sk-9876" not in json.dumps(found)
    assert "export NOT_SET_HERE" in found["unset"]["hint"]
    assert "OPENROUTER_API_KEY" in found["keyless"]["hint"]


def test_a_model_that_is_not_there_is_named(shell: Shell) -> None:
    with OpenAIServer(models=["m"]) as server:
        shell.configure(f'[agents.local]\nprovider = "openai"\nbase_url = "{server.url}"\nmodel = "other"\n')
        assert statuses(shell)["local"]["status"] == "unknown_model"


def test_an_agent_without_credentials_fails_within_a_second(shell: Shell) -> None:
    shell.configure('[agents.strong]\nprovider = "openrouter"\nmodel = "m"\n[agents.local]\nprovider = "embedded"\n')
    began = time.monotonic()
    result = shell.run("agents", "check", "strong")
    assert (result.returncode, "OPENROUTER_API_KEY" in result.stdout) == (1, True)
    assert time.monotonic() - began < 5  # the start of the program included, on a machine that has other work; a wait would take 8 s


def test_agents_that_hang_hold_up_nobody(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, OpenAIServer(models=["m"]) as server:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        shell.configure("".join(agent(f"silent{number}", url) for number in range(5)) + agent("works", server.url))
        began = time.monotonic()
        found = statuses(shell, "--timeout", "4s")
    assert time.monotonic() - began < 8
    assert {item["status"] for name, item in found.items() if name != "works"} == {"error"}
    assert found["works"]["ok"]
    assert "no answer within 4 s" in found["silent0"]["detail"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise RuntimeError('boom sk-5555')", "RuntimeError: boom ***"),
        ("return None", "answers with NoneType"),
        ("return 'fine'", "str"),
        ("raise SystemExit(9)", "SystemExit"),
        ("return CheckResult('x', 'zzz', 5)", "a CheckResult that is none: ok 'x', status 'zzz'"),
    ],
)
def test_a_plugin_whose_check_misbehaves_is_reported(shell: Shell, tmp_path: Path, body: str, said: str) -> None:
    plugins = tmp_path / "plugins"
    folder = plugins / "escalera_odd-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: escalera-odd\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[escalera]\nodd = escalera_odd\n")
    (plugins / "escalera_odd.py").write_text(
        "from pydantic import BaseModel\nfrom orchestrator.hookspecs import hookimpl\n"
        "from orchestrator.providers import Capabilities, CheckResult, ProviderKind\n"
        "class Options(BaseModel):\n    api_key: str = ''\n"
        "class Odd:\n    model = None\n    capabilities = Capabilities()\n    run = preview = lambda *_: None\n"
        f"    def check(self):\n        {body}\n"
        "@hookimpl\ndef escalera_provider_kinds():\n    return [ProviderKind('odd', Options, lambda options, context: Odd())]\n"
    )
    shell.configure('[agents.local]\nprovider = "embedded"\n[agents.odd]\nprovider = "odd"\napi_key = "sk-5555"\n')
    result = shell.run("agents", "check", "--json", PYTHONPATH=str(plugins))
    found = {item["name"]: item for item in json.loads(result.stdout)["agents"]}
    assert (found["odd"]["status"], found["local"]["status"]) == ("error", "works")
    assert said in found["odd"]["detail"]


def test_people_read_a_line_and_what_to_do_next(shell: Shell) -> None:
    shell.configure('[agents.claude]\nprovider = "claude-cli"\nbin = "no-such-claude"\n')
    result = shell.run("agents", "check")
    assert result.returncode == 1
    assert result.stdout.splitlines()[0] == "claude  not installed: there is no program 'no-such-claude'"
    assert "next: install Claude Code" in result.stdout


def test_an_agent_that_is_not_configured_is_not_found(shell: Shell) -> None:
    assert shell.run("agents", "check", "nobody").returncode == 3
    assert shell.run("agents", "check", "--timeout", "soon").returncode == 2
