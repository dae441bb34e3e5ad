"""A chat with a model that really infers, and with the real `claude` on a scripted API: what they do to the screen and to the machine."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from orchestrator.testing.anthropic_server import AnthropicServer, CallTool, Hang, Say
from orchestrator.testing.openai_server import OpenAIServer, reply

from .backends import CLAUDE, NO_CLAUDE, claude_table
from .conftest import Shell
from .played import Played
from .processes import processes_with


def test_the_embedded_model_talks_is_cancelled_and_goes_on(shell: Shell) -> None:
    with Played(shell, "chat", "--name", "first-look") as chat:
        chat.until("/help lists")
        chat.say("Tell me all you know about bread.")
        chat.until("is answering")
        chat.type("\x03")
        chat.until("turn 0, cancelled")
        chat.say("/need bake bread")
        chat.until("bake bread [set]")
        chat.say("/escalate Say hello.")
        chat.until(re.compile(r"\[stand-in, escalation: first \(never_escalated\); turn\s1, completed").search)
        chat.type("\x04")
        assert chat.ended() == 0

    turns = shell.json("session", "show", "--json")["turns"]
    assert [(turn["agent"], turn["outcome"]) for turn in turns] == [("local", "cancelled"), ("stand-in", "completed")]


@pytest.fixture
def claude(shell: Shell, tmp_path: Path):
    """A chat with a primary on a scripted server and the real `claude` for escalation."""
    if not CLAUDE:
        pytest.skip(NO_CLAUDE)
    with AnthropicServer() as strong, OpenAIServer(reply("The shop is green.", model="small")) as local:
        primary = f'[agents.local]\nprovider = "openai"\nbase_url = "{local.url}"\nmodel = "small"\n'
        table = claude_table("claude", strong.url, tmp_path / "claude-home")
        shell.configure(f'primary = "local"\nescalation = "claude"\n{primary}{table}')
        yield strong


def test_one_claude_serves_the_chat_and_goes_with_it(shell: Shell, tmp_path: Path, claude: AnthropicServer) -> None:
    claude.add(Say("Which flour do you have?"), Say("Rye it is."), Hang("Now I think"), Say("Welcome back."), Say("Once more."))
    with Played(shell, "chat", "--name", "bakery") as chat:
        chat.until("/help lists")
        chat.say("/escalate plan a bakery")
        chat.until("turn 0, completed")
        chat.say("rye")
        chat.until("turn 1, completed")
        assert len(processes_with(str(tmp_path / "claude-home"))) == 1
        chat.looks_like("claude")
        chat.say("how does it look?")
        chat.until("turn 2, completed")
        chat.say("/escalate and now?")
        chat.until("Now I think")
        chat.type("\x03")
        chat.until("turn 3, cancelled")
        chat.say("/need sell bread")
        chat.until("sell bread [set]")
        chat.say("/escalate again")
        chat.until("turn 4, completed")
        chat.say("/undo")
        chat.until("undone: turn 4")
        chat.say("/escalate again, please")
        chat.until("turn 5, completed")
        assert chat.scrolled.count("fresh_start (need_changed)") == 2
        assert processes_with(str(tmp_path / "claude-home"))
        chat.process.send_signal(signal.SIGTERM)
        assert chat.ended() == 130

    assert not processes_with(str(tmp_path / "claude-home"))
    turns = shell.json("session", "show", "--json")["turns"]
    assert [turn["mode"] for turn in turns] == ["first", "resume", None, "returning", "fresh_start"]


def test_a_permission_of_claude_is_given_on_the_screen(shell: Shell, claude: AnthropicServer) -> None:
    claude.add(CallTool("Bash", {"command": "touch made.txt", "description": "make a file"}), Say("Made it."))
    with Played(shell, "chat") as chat:
        chat.until("/help lists")
        chat.say("/escalate make it")
        chat.until("[y]es or [n]o:")
        chat.say("y")
        chat.until("turn 0, completed")
        assert "· Bash" in chat.scrolled
        assert "Made it." in chat.scrolled

    assert (shell.cwd / "made.txt").exists()
