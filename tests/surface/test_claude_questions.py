"""The real `claude`, headless, asks for a permission; a second process answers it, or nobody does (page 5)."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from orchestrator.testing.anthropic_server import AnthropicServer, CallTool, Say

from .backends import CLAUDE, NO_CLAUDE, claude_table
from .conftest import Shell

pytestmark = pytest.mark.skipif(not CLAUDE, reason=NO_CLAUDE)

MAKE = CallTool("Bash", {"command": "echo made > made.txt; echo done", "description": "make"})
CHOOSE = CallTool(
    "AskUserQuestion",
    {
        "questions": [
            {
                "question": "Which colour?",
                "header": "Colour",
                "multiSelect": False,
                "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cool"}],
            }
        ]
    },
)


class Play:
    """A turn of the real program that waits for an answer from elsewhere."""

    def __init__(self, shell: Shell, server: AnthropicServer) -> None:
        self.shell, self.server = shell, server

    def ask(self, *settings: str) -> subprocess.Popen[str]:
        return self.shell.start(*settings, "ask", "--escalate", "--wait-questions", "--json", "make it")

    def question(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            found = self.shell.json("questions", "list", "--json")["questions"]
            if found:
                return dict(found[0])
            assert process.poll() is None, process.communicate()
        raise AssertionError("nothing was asked")

    def ended(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        out, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        document: dict[str, Any] = json.loads(out)
        return document

    @property
    def told(self) -> str:
        """What the model got back from its tool."""
        return json.dumps(self.server.messages[-1].body["messages"][-1], ensure_ascii=False)

    @property
    def was_made(self) -> bool:
        return (self.shell.cwd / "made.txt").exists()


@pytest.fixture
def play(shell: Shell, tmp_path: Path) -> Iterator[Callable[..., Play]]:
    with ExitStack() as servers:

        def make(*steps: CallTool | Say) -> Play:
            server = servers.enter_context(AnthropicServer(steps))
            shell.configure(f'escalation = "claude"\n{claude_table("claude", server.url, tmp_path / "claude-home")}')
            return Play(shell, server)

        yield make


def test_the_tool_runs_once_a_second_process_has_accepted(play: Callable[..., Play]) -> None:
    stage = play(MAKE, Say("Made it."))
    process = stage.ask()
    question = stage.question(process)
    assert ("echo made > made.txt" in question["message"], stage.was_made) == (True, False)

    stage.shell.json("questions", "answer", question["id"][:8], "--accept", "--json")

    document = stage.ended(process)
    assert (document["answer"], stage.was_made) == ("Made it.", True)
    assert "done" in stage.told


def test_a_refusal_reaches_the_model_as_one(play: Callable[..., Play]) -> None:
    stage = play(MAKE, Say("Not allowed."))
    process = stage.ask()

    stage.shell.json("questions", "answer", stage.question(process)["id"], "--decline", "--json")

    assert (stage.ended(process)["answer"], stage.was_made) == ("Not allowed.", False)
    assert "The user said no to this." in stage.told


def test_an_expiry_reaches_the_model_as_one(play: Callable[..., Play]) -> None:
    stage = play(MAKE, Say("Nobody there."))

    document = stage.ended(stage.ask("--questions-ttl", "300ms"))

    assert (document["answer"], stage.was_made) == ("Nobody there.", False)
    assert "Nobody answered in time. Nobody refused either" in stage.told


def test_a_question_of_its_own_is_answered_from_a_second_process(play: Callable[..., Play]) -> None:
    stage = play(CHOOSE, Say("Blue, then."))
    process = stage.ask()
    question = stage.question(process)
    assert (question["mode"], question["message"]) == ("form", "Which colour?")

    stage.shell.json("questions", "answer", question["id"], "--accept", "answer=blue", "--json")

    assert stage.ended(process)["answer"] == "Blue, then."
    assert "Blue" in stage.told


def test_a_kill_of_the_asker_withdraws_the_question(play: Callable[..., Play]) -> None:
    stage = play(MAKE, Say("Made it."))
    process = stage.ask()
    question = stage.question(process)

    process.send_signal(signal.SIGKILL)
    process.communicate()

    assert stage.shell.json("questions", "list", "--json")["questions"] == []
    refused = stage.shell.run("questions", "answer", question["id"], "--accept")
    assert (refused.returncode, "withdrawn by its asker" in refused.stderr, stage.was_made) == (1, True, False)
