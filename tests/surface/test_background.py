"""Turns in the background: begun by one command, looked at, answered and ended by others (page 5)."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestrator.testing.openai_server import OpenAIServer, reply

from .conftest import Shell


def begun(shell: Shell, *arguments: str) -> str:
    """The id of the task."""
    return str(shell.json(*arguments, "--json", "go")["id"])


def asked(shell: Shell) -> str:
    """The id of the question with which the task waits."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if found := shell.json("questions", "list", "--json")["questions"]:
            return str(found[0]["id"])
    raise AssertionError(shell.run("tasks", "list").stdout)


WAITING = ("ask", "--escalate", "--background", "--wait-questions")


def test_the_result_is_what_the_command_would_have_printed(shell: Shell, agents: Callable[..., None]) -> None:
    with OpenAIServer(reply("Three birds.")) as server:
        agents(server.url)
        printed = shell.run("--set", "agents.local.api_key=key-of-the-line", "ask", "--background", "name three birds")
        task = printed.stdout.strip()
        result = shell.run("tasks", "result", task, "--wait")
        document = shell.json("tasks", "result", task[:8], "--json")

    assert (printed.returncode, result.returncode, result.stdout) == (0, 0, "Three birds.\n")
    assert server.requests[0].headers["authorization"] == "Bearer key-of-the-line"
    assert (document["format"], document["answer"], document["outcome"]) == ("escalera.turn/1", "Three birds.", "completed")
    (listed,) = shell.json("tasks", "list", "--json")["tasks"]
    assert (listed["id"], listed["state"], listed["exit_code"], listed["prompt"]) == (task, "completed", 0, "name three birds")
    assert shell.json("session", "show", "--json")["turns"][0]["prompt"] == "name three birds"


def test_a_turn_that_fails_is_a_result_with_its_exit_code(shell: Shell, agents: Callable[..., None]) -> None:
    agents("http://127.0.0.1:9/v1", "[limits]\nretry_attempts = 0")
    task = begun(shell, "ask", "--background")

    document = shell.json("tasks", "result", task, "--wait", "--json", code=1)

    assert (document["outcome"], document["error"]["type"]) == ("failed", "Unavailable")
    assert shell.json("tasks", "show", task, "--json")["state"] == "failed"


def test_it_runs_past_its_results_life_and_its_question_is_answered_from_elsewhere(shell: Shell, asks: Callable[..., None]) -> None:
    asks("Bash", {"command": "make"})
    task = begun(shell, "--tasks-ttl", "1ms", "--tasks-max-age", "24h", *WAITING)
    question = asked(shell)
    (running,) = shell.json("tasks", "list", "--json")["tasks"]
    assert (running["state"], running["ttlRemainingMs"]) == ("running", 0)
    early = shell.run("tasks", "result", task)
    assert (early.returncode, "still running" in early.stderr) == (1, True)

    waiting = shell.start("tasks", "result", task, "--wait", "--json")
    shell.json("questions", "answer", question, "--accept", "--json")

    out, errors = waiting.communicate(timeout=30)
    # Its result lives for a millisecond: whoever waits may have come too late, and is told so.
    assert ('"behavior": "allow"' in json.loads(out).get("answer", "")) if waiting.returncode == 0 else "may have expired" in errors
    assert "allow" in shell.json("session", "show", "--json")["turns"][0]["steps"][-1]["text"]


def test_cancelling_ends_the_turn_and_withdraws_its_question(shell: Shell, asks: Callable[..., None]) -> None:
    asks("Bash", {"command": "make"})
    task = begun(shell, *WAITING)
    question = asked(shell)

    cancelled = shell.json("tasks", "cancel", task, "--json")

    assert (cancelled["state"], cancelled["exit_code"]) == ("cancelled", 130)
    assert shell.json("questions", "show", question, "--json")["answer"]["by"] == "asker"
    assert shell.json("session", "show", "--json")["turns"][0]["outcome"] == "cancelled"
    assert shell.json("tasks", "result", task, "--json", code=130)["outcome"] == "cancelled"
    again = shell.run("tasks", "cancel", task)
    assert (again.returncode, "cancelled already" in again.stderr) == (1, True)


def test_a_killed_runner_leaves_task_and_turn_interrupted(shell: Shell, asks: Callable[..., None]) -> None:
    asks("Bash", {"command": "make"})
    task = begun(shell, "--set", "agents.local.api_key=key-of-the-line", *WAITING)
    asked(shell)
    runner = runner_of(task)
    assert b"key-of-the-line" not in command_of(Path("/proc") / str(runner)), "everybody can read it there for as long as the turn takes"

    os.kill(runner, signal.SIGKILL)

    assert until(shell, task, "interrupted")["exit_code"] is None
    assert shell.json("questions", "list", "--json")["questions"] == []
    assert shell.run("tasks", "result", task).returncode == 1
    assert shell.json("session", "show", "--json")["turns"][0]["outcome"] == "interrupted"


def runner_of(task: str) -> int:
    """The process that carries it out."""
    end = f"\0tasks\0run\0{task}\0".encode()
    (found,) = [folder.name for folder in Path("/proc").iterdir() if folder.name.isdigit() and command_of(folder).endswith(end)]
    return int(found)


def command_of(folder: Path) -> bytes:
    try:
        return (folder / "cmdline").read_bytes()
    except OSError:
        return b""


def until(shell: Shell, task: str, state: str) -> dict[str, Any]:
    deadline = time.monotonic() + 10
    while (shown := shell.json("tasks", "show", task, "--json"))["state"] != state and time.monotonic() < deadline:
        pass
    assert shown["state"] == state
    return shown


def test_what_keeps_a_turn_from_coming_to_be_is_said_at_once(shell: Shell, agents: Callable[..., None]) -> None:
    agents("http://127.0.0.1:9/v1")

    assert shell.run("ask", "--background", "--session", "no-such", "go").returncode == 3
    assert shell.run("ask", "--background", "--stream-json", "go").returncode == 2
    unknown = shell.run("tasks", "show", "no-such")
    assert (unknown.returncode, "may have expired" in unknown.stderr) == (3, True)
    assert shell.json("tasks", "list", "--json")["tasks"] == []
