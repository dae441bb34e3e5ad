"""The log, `--verbose`, and what becomes of a fault of ours, as the program really writes them."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.testing.openai_server import OpenAIServer, json_reply, reply

from .conftest import Shell

KEY = "sk-DEMO-4242424242"


def entries(shell: Shell) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (shell.home / "state" / "log" / "escalera.log").read_text("utf-8").splitlines()]


def named(shell: Shell, event: str) -> list[dict[str, Any]]:
    return [entry for entry in entries(shell) if entry["event"] == event]


def written(folder: Path) -> str:
    return "".join(path.read_bytes().decode("utf-8", "replace") for path in folder.rglob("*") if path.is_file())


def test_commands_and_turns_are_in_it_and_what_was_said_is_not(shell: Shell, agents: Callable[[str], None]) -> None:
    busy = json_reply({"error": {"message": "slow down"}}, status=429, headers={"retry-after": "0", "content-type": "application/json"})
    with OpenAIServer(busy, reply("Purple geese.", usage=(12, 2)), reply("Orange hens.")) as server:
        agents(server.url)
        assert shell.run("ask", "--reason", "beak trouble", "which birds?").returncode == 0
        assert shell.run("ask", "--escalate", "--new", stdin="which hens?").returncode == 0
    assert shell.run("session", "show", "nowhere").returncode == 3

    assert [(entry["command"], entry.get("flags")) for entry in named(shell, "started")] == [
        ("ask", ["--reason"]),
        ("ask", ["--escalate", "--new"]),
        ("session show", None),
    ]
    begun, ended = named(shell, "turn_started"), named(shell, "turn_ended")
    assert [(entry["turn"], entry["agent"], entry.get("mode"), entry["rules"]) for entry in begun] == [
        (0, "local", None, ["default"]),
        (0, "strong", "first", ["never_escalated"]),
    ]
    assert [(entry["outcome"], entry["sends"], entry.get("usage", {}).get("input_tokens")) for entry in ended] == [("completed", 2, 12), ("completed", 1, None)]
    assert [(entry["error"], entry["attempt"]) for entry in named(shell, "retry")] == [("RateLimited", 2)]
    assert [(entry["type"], entry["pid"]) for entry in named(shell, "error")] == [("NotFound", entries(shell)[-1]["pid"])]
    assert [entry["exit"] for entry in named(shell, "ended")] == [0, 0, 3]
    text = json.dumps(entries(shell))
    assert [word for word in ("geese", "hens", "birds", "beak") if word in text] == []
    assert stat.S_IMODE((shell.home / "state" / "log" / "escalera.log").stat().st_mode) == 0o600


def test_a_failed_turn_is_in_it_with_its_error(shell: Shell, agents: Callable[[str], None]) -> None:
    with OpenAIServer(json_reply({"error": {"message": "no such key"}}, status=401)) as server:
        agents(server.url)
        assert shell.run("ask", "hello").returncode == 1

    (ended,) = named(shell, "turn_ended")
    assert (ended["outcome"], ended["error"]["type"]) == ("failed", "AuthFailed")


def test_verbose_shows_the_same_on_stderr(shell: Shell, agents: Callable[[str], None]) -> None:
    with OpenAIServer(reply("Hello.")) as server:
        agents(server.url)
        result = shell.run("--verbose", "ask", "hello")

    shown = [line.split()[1] for line in result.stderr.splitlines() if line.startswith("[") and ":" in line.split()[0]]
    assert shown == [entry["event"] for entry in entries(shell)]
    assert result.stdout == "Hello.\n"


def test_a_command_that_leaves_nothing_behind_writes_no_log(shell: Shell) -> None:
    results = [shell.run("--verbose", "plan", "hello"), shell.run("paths"), shell.run("completion", "bash")]

    assert [result.returncode for result in results] == [0, 0, 0]
    assert "started" in results[0].stderr
    assert not shell.home.exists()


def test_a_command_that_comes_to_nothing_makes_no_folder(shell: Shell) -> None:
    assert shell.run("ask", "--file", "nowhere", "hello").returncode == 2
    assert shell.run("session", "list").returncode == 0
    assert not shell.home.exists()


@pytest.mark.trial("T96")
def test_t96_no_secret_is_in_it_nor_in_what_else_is_written(shell: Shell) -> None:
    echoes = [json_reply({"error": {"message": f"Incorrect API key provided: {key}"}}, status=401) for key in (KEY, "k-cmd-77777777", "k-hdr-88888888")]
    with OpenAIServer(*echoes) as server:
        tables = [
            f'[agents.one]\nprovider = "openai"\nbase_url = "{server.url}"\nmodel = "m"\napi_key = {{ env = "MY_KEY" }}\n',
            f'[agents.two]\nprovider = "openai"\nbase_url = "{server.url}"\nmodel = "m"\napi_key = {{ cmd = ["printf", "%s%s", "k-cmd-", "77777777"] }}\n',
            f'[agents.three]\nprovider = "openai"\nbase_url = "{server.url}"\nmodel = "m"\nheaders = {{ x-key = "k-hdr-88888888" }}\n',
        ]
        shell.configure('primary = "one"\nescalation = "two"\n' + "".join(tables))
        results = [shell.run("--verbose", "ask", "--agent", name, "hello", MY_KEY=KEY) for name in ("one", "two", "three")]

    assert [result.returncode for result in results] == [1, 1, 1]
    told = "".join(result.stdout + result.stderr for result in results) + written(shell.home / "state")
    assert len(named(shell, "turn_ended")) == 3
    assert KEY[:12] not in told
    assert "77777777" not in told
    assert "k-hdr-8888" not in told


def test_a_fault_is_one_line_that_names_the_log(shell: Shell) -> None:
    """Standard output that nothing prepares for, put in place before the program starts."""
    broken = Shell(shell.home, shell.cwd, {"PYTHONPATH": _broken_output(shell.cwd)})
    result = broken.run("session", "list")

    log = shell.home / "state" / "log" / "escalera.log"
    assert result.returncode == 1
    assert result.stderr == (
        f"escalera: a fault in Escalera itself (RuntimeError); its traceback is in {log} (`escalera doctor --bundle FILE` collects what a report needs)\n"
    )
    (crash,) = named(shell, "crash")
    assert crash["message"] == "no stream but a wall, and ***"
    assert crash["traceback"].startswith("Traceback")
    assert "in write" in crash["traceback"]
    assert "sk-proj" not in json.dumps(crash)


def test_a_fault_is_shown_where_the_log_cannot_be_written(shell: Shell) -> None:
    shell.home.mkdir()
    (shell.home / "state").write_text("")

    result = Shell(shell.home, shell.cwd, {"PYTHONPATH": _broken_output(shell.cwd)}).run("paths")

    assert result.returncode == 1
    assert result.stderr.startswith("Traceback")
    assert "since the log cannot be written" in result.stderr.splitlines()[-1]


def _broken_output(folder: Path) -> str:
    lines = [
        "import sys",
        "class Wall:",
        "    encoding = 'utf-8'",
        "    def isatty(self): return False",
        "    def write(self, text): raise RuntimeError('no stream but a wall, and sk-proj-abcdefgh12345678')",
        "    def flush(self): pass",
        "sys.stdout = Wall()",
    ]
    (folder / "sitecustomize.py").write_text("\n".join(lines))
    return str(folder)


def test_a_log_that_cannot_be_written_is_in_nobodys_way(shell: Shell, agents: Callable[[str], None]) -> None:
    log = shell.home / "state" / "log"
    log.mkdir(parents=True)
    os.symlink("/dev/full", log / "escalera.log")
    (shell.home / "state" / "wire").write_text("")
    with OpenAIServer(reply("Hello.")) as server:
        agents(server.url)
        result = shell.run("ask", "hello")

    assert (result.returncode, result.stdout) == (0, "Hello.\n")
