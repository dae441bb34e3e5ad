"""Questions across processes: asked by one command, listed, shown and answered by another (page 5)."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import Shell
from .played import Played

COLOUR = {"questions": [{"question": "Which colour?", "header": "Colour", "options": [{"label": "Red"}, {"label": "Blue"}]}]}


def open_question(shell: Shell, process: subprocess.Popen[str]) -> dict[str, Any]:
    """The question that the process waits with, once it stands there."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        found = shell.json("questions", "list", "--json")["questions"]
        if found:
            return dict(found[0])
        assert process.poll() is None, process.communicate()
    raise AssertionError("nothing was asked")


def waiting(shell: Shell, *arguments: str) -> subprocess.Popen[str]:
    return shell.start(*arguments, "ask", "--escalate", "--wait-questions", "--json", "go")


def ended(process: subprocess.Popen[str], code: int = 0) -> dict[str, Any]:
    """The turn document."""
    out, errors = process.communicate(timeout=30)
    assert process.returncode == code, errors
    document: dict[str, Any] = json.loads(out)
    return document


def test_a_permission_is_given_from_another_process(shell: Shell, asks: Callable[..., None]) -> None:
    asks("Bash", {"command": "make"})
    process = waiting(shell)
    question = open_question(shell, process)
    assert (question["state"], question["agent"], question["turn"], question["mode"], question["durable"]) == ("pending", "strong", 0, "confirm", False)
    assert "Claude Code wants to use Bash" in question["message"]

    answered = shell.json("questions", "answer", question["id"][:8], "--accept", "--json")

    assert (answered["state"], answered["answer"]["action"], answered["answer"]["by"]) == ("answered", "accept", "human")
    assert '"behavior": "allow"' in ended(process)["answer"]
    assert shell.json("questions", "list", "--json")["questions"] == []
    assert shell.json("questions", "list", "--all", "--json")["questions"][0]["answer"] == answered["answer"]


@pytest.mark.parametrize(
    ("flag", "told"), [("--decline", "The user said no to this."), ("--cancel", "The user neither allowed nor refused this.")], ids=["decline", "cancel"]
)
def test_decline_and_cancel_are_told_as_what_they_are(shell: Shell, asks: Callable[..., None], flag: str, told: str) -> None:
    asks("Bash", {"command": "make"})
    process = waiting(shell)
    shell.json("questions", "answer", open_question(shell, process)["id"], flag, "--json")

    assert told in ended(process)["answer"]


def test_expiry_is_told_as_what_it_is(shell: Shell, asks: Callable[..., None]) -> None:
    asks("Bash", {"command": "make"})

    document = ended(waiting(shell, "--questions-ttl", "300ms"))

    assert "Nobody answered in time." in document["answer"]
    (question,) = shell.json("questions", "list", "--all", "--json")["questions"]
    assert (question["state"], question["answer"]["action"], question["answer"]["by"], question["ttlRemainingMs"]) == ("expired", "cancel", "expiry", 0)


def test_a_killed_asker_withdraws_its_question(shell: Shell, asks: Callable[..., None]) -> None:
    asks("Bash", {"command": "make"})
    process = waiting(shell)
    question = open_question(shell, process)

    process.send_signal(signal.SIGKILL)
    process.communicate()

    assert shell.json("questions", "list", "--json")["questions"] == []
    shown = shell.json("questions", "show", question["id"], "--json")
    assert (shown["state"], shown["answer"]["action"], shown["answer"]["by"]) == ("answered", "cancel", "asker")
    refused = shell.run("questions", "answer", question["id"], "--accept")
    assert (refused.returncode, "withdrawn by its asker" in refused.stderr) == (1, True)


def test_a_cancelled_turn_withdraws_its_question(shell: Shell, asks: Callable[..., None]) -> None:
    asks("Bash", {"command": "make"})
    process = waiting(shell)
    question = open_question(shell, process)

    process.send_signal(signal.SIGINT)

    assert ended(process, 130)["outcome"] == "cancelled"
    assert shell.json("questions", "show", question["id"], "--json")["answer"]["by"] == "asker"


def test_fields_are_given_as_pairs_or_as_one_object_and_wrong_ones_are_named(shell: Shell, asks: Callable[..., None]) -> None:
    asks("AskUserQuestion", COLOUR)
    process = waiting(shell)
    question = open_question(shell, process)

    for content in (["answer=green"], ['{"answer": "green"}'], ['{"answer": null}'], ["colour=Red"], [], ["{}"]):
        result = shell.run("questions", "answer", question["id"], "--accept", *content, "--json")
        error = json.loads(result.stdout)["error"]
        assert (result.returncode, error["type"], len(error["problems"]) > 0) == (2, "AnswerInvalid", True), content
    assert shell.json("questions", "list", "--json")["questions"][0]["lastTouched"] == question["created"]
    shell.json("questions", "answer", question["id"], "--accept", "answer=blue", "--json")

    assert '"answers": {"Which colour?": "Blue"}' in ended(process)["answer"]


def test_show_keeps_it_open_for_longer_and_list_and_watch_do_not(shell: Shell, asks: Callable[..., None]) -> None:
    asks("Bash", {"command": "make"})
    process = waiting(shell)
    question = open_question(shell, process)
    watcher = shell.start("questions", "watch", "--json")
    assert watcher.stdout is not None
    assert json.loads(watcher.stdout.readline())["id"] == question["id"]
    time.sleep(max(0.0, 1.1 - (120 - question["ttlRemainingMs"] / 1000)))  # a touch that gains less than a second is skipped

    listed = shell.json("questions", "list", "--json")["questions"][0]
    shown = shell.json("questions", "show", question["id"], "--json")

    assert (listed["lastTouched"], listed["expiresAt"]) == (question["created"], question["expiresAt"])
    assert shown["lastTouched"] > question["created"]
    assert shown["expiresAt"] > question["expiresAt"]
    shell.json("questions", "answer", question["id"], "--decline", "--json")
    assert json.loads(watcher.stdout.readline())["answer"]["action"] == "decline"
    watcher.send_signal(signal.SIGINT)
    assert watcher.wait(10) in (0, 130)
    ended(process)


def test_unknown_second_and_contradicting_answers_are_refused(shell: Shell, asks: Callable[..., None]) -> None:
    asks("Bash", {"command": "make"})
    process = waiting(shell)
    question = open_question(shell, process)["id"]
    assert shell.run("questions", "answer", "no-such", "--accept").returncode == 3
    assert shell.run("questions", "show", "no-such").returncode == 3
    assert shell.run("questions", "answer", question).returncode == 2
    assert shell.run("questions", "answer", question, "--accept", "--decline").returncode == 2
    shell.json("questions", "answer", question, "--decline", "--json")

    second = shell.run("questions", "answer", question, "--accept")

    assert (second.returncode, "answered already (decline by human)" in second.stderr) == (1, True)
    assert "The user said no" in ended(process)["answer"]


def test_the_prompt_is_withdrawn_when_another_process_answers(shell: Shell, asks: Callable[..., None]) -> None:
    asks("Bash", {"command": "make"})
    with Played(shell, "--color", "never", "ask", "--escalate", "go") as terminal:
        terminal.until("[y]es or [n]o:")
        terminal.type("ye")  # half an answer, which must not be one to what comes next
        (question,) = shell.json("questions", "list", "--json")["questions"]
        shell.json("questions", "answer", question["id"], "--decline", "--json")
        terminal.until("answered elsewhere: decline")
        terminal.until("The user said no to this.")
        assert terminal.ended() == 0


def test_the_time_that_is_left_counts_down_at_the_prompt(shell: Shell, asks: Callable[..., None]) -> None:
    asks("Bash", {"command": "make"})
    with Played(shell, "--color", "never", "--questions-ttl", "65s", "ask", "--escalate", "go") as terminal:
        terminal.until("(1:04 left; a key gives more time)")
        terminal.until("(1:02 left; a key gives more time)")
        assert terminal.scrolled.count("left;") == 1
        terminal.type("y\r")
        terminal.until('"behavior": "allow"')
        assert terminal.ended() == 0


def test_a_prompt_that_nobody_answers_expires(shell: Shell, asks: Callable[..., None]) -> None:
    asks("Bash", {"command": "make"})
    with Played(shell, "--color", "never", "--questions-ttl", "1s", "ask", "--escalate", "go") as terminal:
        terminal.until("nobody answered in time")
        terminal.until("Nobody refused either")
        assert terminal.ended() == 0


TAKES_BACK = """\
#!{python}
import json, os, sys, time
def say(item): sys.stdout.write(json.dumps(item) + "\\n"); sys.stdout.flush()
sys.stdin.buffer.readline()
say({{"type": "system", "subtype": "init", "session_id": sys.argv[sys.argv.index("--session-id") + 1], "model": "m"}})
say({{"type": "control_request", "request_id": "r1", "request": {{"subtype": "can_use_tool", "tool_name": "Bash", "input": {{"command": "make"}}}}}})
while not os.path.exists("take-back"):
    time.sleep(0.05)
say({{"type": "control_cancel_request", "request_id": "r1"}})
say({{"type": "result", "subtype": "success", "is_error": False, "result": "Never mind.", "num_turns": 1}})
sys.stdin.buffer.read()
"""


def test_what_claude_code_takes_back_is_withdrawn_for_everyone(shell: Shell, asks: Callable[..., None], tmp_path: Path) -> None:
    asks("Bash", {})
    (tmp_path / "claude").write_text(TAKES_BACK.format(python=sys.executable))
    process = waiting(shell)
    question = open_question(shell, process)

    (shell.cwd / "take-back").touch()

    assert ended(process)["answer"] == "Never mind."
    shown = shell.json("questions", "show", question["id"], "--json")
    assert (shown["state"], shown["answer"]["action"], shown["answer"]["by"]) == ("answered", "cancel", "asker")
