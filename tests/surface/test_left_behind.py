"""What a killed run leaves running is ended by the next one, whichever session and agent that one is for; nothing else ever is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.testing.anthropic_server import AnthropicServer, CallTool, Say
from orchestrator.testing.openai_server import OpenAIServer, reply

from .backends import CLAUDE, NO_CLAUDE, claude_table
from .conftest import Shell
from .processes import processes_with

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="the environment of other processes cannot be read here")

STUB = """\
#!{python}
import json, subprocess, sys, time
json.loads(sys.stdin.readline())
subprocess.Popen(["sh", "-c", "touch runs; exec sleep 3457"], start_new_session=True)
time.sleep(3457)
"""
PRIMARY = '[agents.local]\nprovider = "openai"\nbase_url = "{url}"\nmodel = "m"\n'


def configure(shell: Shell, folder: Path, url: str = "http://127.0.0.1:9") -> None:
    """With an escalation agent that starts a tool in a session of its own and waits for it for ever."""
    program = folder / "claude"
    program.write_text(STUB.format(python=sys.executable))
    program.chmod(0o755)
    strong = f'[agents.strong]\nprovider = "claude-cli"\nbin = "{program}"\n'
    shell.configure(f'primary = "local"\nescalation = "strong"\n{PRIMARY.format(url=url)}{strong}')


def started(shell: Shell) -> Callable[[], None]:
    """A turn whose tool runs; what is given back kills it in a way that cannot be caught."""
    process = shell.start("ask", "--escalate", "go")
    deadline = time.monotonic() + 30
    while not (shell.cwd / "runs").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)

    def kill() -> None:
        process.kill()
        process.communicate()

    return kill


def left(home: Path) -> set[int]:
    """The ids of what runs still of the turns of that home; what belongs to the run itself is not marked."""
    return set(processes_with(f"_ESCALERA_STORE={home}/data", "_ESCALERA_SESSION="))


@pytest.mark.parametrize("command", [("need", "set", "rest"), ("ask", "--primary", "hello"), ("ask", "--new", "--primary", "hello")])
def test_the_next_start_ends_it(shell: Shell, tmp_path: Path, command: tuple[str, ...]) -> None:
    with OpenAIServer(reply("Hello.")) as local:
        configure(shell, tmp_path, local.url)
        kill = started(shell)
        kill()
        assert left(shell.home)

        result = shell.run(*command)

    assert result.returncode == 0, result.stderr
    assert "was killed had left behind" in result.stderr
    assert not left(shell.home)


def test_the_doctor_names_what_is_left_and_ends_nothing(shell: Shell, tmp_path: Path) -> None:
    configure(shell, tmp_path)
    kill = started(shell)

    def named() -> list[str]:
        findings = shell.json("doctor", "--json", "--server", "http://127.0.0.1:9", code=1)["findings"]
        return [finding["status"] for finding in findings if finding["area"] == "processes"]

    try:
        assert named() == ["works"]
    finally:
        kill()
    there = left(shell.home)
    assert there
    assert named() == ["problem"] * len(there)
    assert len(left(shell.home)) == len(there)
    shell.run("need", "set", "rest")
    assert not left(shell.home)


def test_a_turn_that_runs_is_nobodys_to_end(shell: Shell, tmp_path: Path) -> None:
    """Neither by another session of its home, nor by another home with a copy of its session."""
    configure(shell, tmp_path)
    kill = started(shell)
    try:
        before = left(shell.home)
        document = tmp_path / "session.json"
        document.write_text(shell.run("session", "export", "--raw").stdout)
        (tmp_path / "elsewhere").mkdir()
        other = shell.elsewhere(tmp_path / "other", tmp_path / "elsewhere")
        assert other.run("session", "import", str(document)).returncode == 0
        for somebody in (shell, other):
            somebody.run("memory", "learn", "The sign is blue.")

        assert left(shell.home) == before
    finally:
        kill()
    other.run("memory", "learn", "The shop is green.")
    assert left(shell.home) == before
    shell.run("memory", "learn", "The shop is green.")
    assert not left(shell.home)


@pytest.mark.skipif(not CLAUDE, reason=NO_CLAUDE)
def test_the_real_program_and_its_tool_are_ended_too(shell: Shell, tmp_path: Path) -> None:
    waits = CallTool("Bash", {"command": "touch runs; sleep 3458", "description": "wait"})
    with AnthropicServer([waits, Say("Whole.")]) as strong, OpenAIServer(reply("Hello.")) as local:
        table = claude_table("claude", strong.url, tmp_path / "claude-home", more='allowed_tools = ["Bash"]\n')
        shell.configure(f'primary = "local"\nescalation = "claude"\n{PRIMARY.format(url=local.url)}{table}')
        kill = started(shell)
        kill()
        assert processes_with("sleep 3458")

        shell.json("ask", "--json", "--primary", "hello")

        assert not processes_with("sleep 3458")
        assert not processes_with(str(tmp_path / "claude-home"))
        assert shell.json("ask", "--json", "--escalate", "go on")["answer"] == "Whole."
