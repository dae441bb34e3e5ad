"""What an agent asks in the middle of a turn, answered at a terminal – or denied at once where there is none."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import subprocess
import termios
import time
from pathlib import Path

import pytest

from .conftest import PROGRAM, Shell

COLOURS = {
    "questions": [
        {"question": "Which colour?", "header": "Colour", "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cool"}]},
        {"question": "Which sides?", "multiSelect": True, "options": [{"label": "Left"}, {"label": "Right"}, {"label": "Top"}]},
    ]
}


def at_terminal(shell: Shell, *arguments: str, typed: list[tuple[str, str]], errors: Path | None = None) -> tuple[str, int]:
    """Run the program on a terminal; each answer is typed once its question stands there. All that was shown, and the exit code."""
    controller, terminal = pty.openpty()
    ends = {"stdin": terminal, "stdout": terminal, "stderr": terminal if errors is None else errors.open("w")}
    process = subprocess.Popen([PROGRAM, *arguments], cwd=shell.cwd, env=shell.environ | {"TERM": "xterm"}, preexec_fn=_own_terminal, **ends)  # noqa: PLW1509 - no threads here
    os.close(terminal)
    shown, deadline = "", time.monotonic() + 30
    while time.monotonic() < deadline:
        if typed and typed[0][0] in shown:
            os.write(controller, typed.pop(0)[1].encode())
        if not select.select([controller], [], [], 0.1)[0]:
            continue
        try:
            shown += os.read(controller, 65536).decode()
        except OSError:  # the program has gone
            break
    code = process.wait(timeout=10)
    os.close(controller)
    return shown, code


def test_what_was_typed_before_the_question_is_no_answer_to_it(shell: Shell, asks) -> None:
    asks("Bash", {"command": "rm -rf /"})

    shown, code = at_terminal(shell, "ask", "--escalate", "tidy up", typed=[("", "y\n"), ("[y]es or [n]o", "n\n")])

    assert code == 0
    assert '"behavior": "deny"' in shown


def test_a_question_that_nobody_would_see_is_denied(shell: Shell, asks) -> None:
    asks("Bash", {"command": "rm -rf /"})
    errors = shell.cwd / "errors"

    shown, code = at_terminal(shell, "ask", "--escalate", "tidy up", typed=[], errors=errors)

    assert (code, '"behavior": "deny"' in shown) == (5, True)
    assert "nobody could be asked" in errors.read_text()


def _own_terminal() -> None:
    """Let Ctrl-C on the terminal reach the program."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.mark.parametrize("command", [["ask", "--escalate", "go"], ["--plain", "chat"]])
def test_a_command_is_told_of_the_question(shell: Shell, asks, command: list[str]) -> None:
    asks("Bash", {"command": "make cake"})
    settings = shell.home / "config" / "config.toml"
    settings.write_text(settings.read_text() + '[notify]\ncommand = ["sh", "-c", "cat > told"]\n')
    begin = [] if command[0] == "ask" else [("> ", "/escalate go\n")]

    _, code = at_terminal(shell, *command, typed=[*begin, ("[y]es or [n]o: ", "y\n"), ("; turn 0", "\x04")])

    told = json.loads((shell.cwd / "told").read_text())
    assert code == 0
    assert (told["event"], told["agent"]) == ("question", "strong")
    assert "make cake" in told["text"]


def test_permission_is_given_at_the_terminal(shell: Shell, asks) -> None:
    asks("Bash", {"command": "touch \x1b[31mmade.txt"})

    shown, code = at_terminal(
        shell, "ask", "--escalate", "go", typed=[("[y]es or [n]o: ", "what?\n"), ("what?\r\n(2:00 left; a key gives more time)\r\n[y]es or [n]o: ", "y\n")]
    )

    assert code == 0
    assert "Claude Code wants to use Bash" in shown
    assert "\x1b[31m" not in shown
    assert '"behavior": "allow"' in shown


def test_permission_is_refused_at_the_terminal(shell: Shell, asks) -> None:
    asks("Bash", {"command": "rm -r ."})

    shown, code = at_terminal(shell, "ask", "--escalate", "go", typed=[("[y]es or [n]o: ", "n\n")])

    assert code == 0
    assert "The user said no to this." in shown


def test_questions_with_choices_are_answered_by_number_or_word(shell: Shell, asks) -> None:
    asks("AskUserQuestion", COLOURS)

    typed = [("Colour (a number): ", "7\n"), ("a number from 1 to 2", "blue\n"), ("commas between them): ", "1, top\n")]
    shown, code = at_terminal(shell, "ask", "--escalate", "go", typed=typed)

    assert code == 0
    assert "1. Red" in shown
    assert "Red: warm; Blue: cool" in shown
    assert '"answers": {"Which colour?": "Blue", "Which sides?": "Left, Top"}' in shown.replace("\r\n", "")


def test_end_of_input_and_interrupt_end_a_question(shell: Shell, asks) -> None:
    asks("Bash", {"command": "ls"})

    shown, code = at_terminal(shell, "ask", "--escalate", "go", typed=[("[y]es or [n]o: ", "\x04")])
    interrupted, cancelled = at_terminal(shell, "ask", "--escalate", "--fresh", "go", typed=[("[y]es or [n]o: ", "\x03")])

    assert (code, cancelled) == (0, 130)
    assert "neither allowed nor refused" in shown
    assert "cancelled" in interrupted


def test_without_a_terminal_it_is_denied_at_once_and_said(shell: Shell, asks) -> None:
    asks("Bash", {"command": "ls"})

    result = shell.run("ask", "--escalate", "--json", "go")
    document = json.loads(result.stdout)

    assert (result.returncode, document["outcome"]) == (5, "completed")
    asked = 'Claude Code wants to use Bash: {"command": "ls"}'
    assert [notice for notice in document["notices"] if "denied" in notice] == [f"denied, since nobody could be asked: {asked}"]
    assert "nobody who could be asked" in document["answer"]
