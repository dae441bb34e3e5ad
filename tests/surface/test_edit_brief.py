"""`ask --edit-brief` and `/escalate -e`: the brief in an editor, before anything is sent."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.testing.openai_server import OpenAIServer, reply

from .conftest import Shell
from .played import Played

Agents = Callable[[str], None]
REPEATED = "why does the build of it fail?"


@pytest.fixture
def editor(tmp_path: Path) -> Callable[[str], str]:
    """A real program as the editor: it keeps what it was shown, and does that to the text."""

    def make(does: str) -> str:
        script = tmp_path / "my editor.py"
        script.write_text(
            "import sys\nfrom pathlib import Path\nfile = Path(sys.argv[-1])\ntext = file.read_text()\n"
            f"(Path({str(tmp_path)!r}) / 'seen').write_text(text)\n{does}\n"
        )
        return f'"{sys.executable}" "{script}" --wait'

    return make


CHANGE = "file.write_text(text.replace('have a look', 'the oven smokes'))"


def asked(shell: Shell, editor: str, *arguments: str, name: str = "EDITOR") -> tuple[int, str]:
    """The exit code, and what stood on the terminal."""
    with Played(shell, "ask", "--edit-brief", *arguments, environ={name: editor}) as played:
        code = played.ended()
        return code, played.got.decode()


def test_the_brief_is_seen_with_what_is_told_beside_it_and_sent_as_it_was_left(
    shell: Shell, agents: Agents, editor: Callable[[str], str], tmp_path: Path
) -> None:
    with OpenAIServer(reply("It is on."), reply("Fine.")) as server:
        agents(server.url)
        shell.run("need", "set", "a bakery that bakes")
        shell.run("ask", "is the oven on?")
        code, _ = asked(shell, editor(CHANGE), "--escalate", "--reason", "have a look", "so?", name="VISUAL")
        sent = json.dumps(server.requests[-1].body)

    seen = (tmp_path / "seen").read_text()
    assert code == 0
    assert seen.startswith("have a look\n\n# >8 --")
    assert "a bakery that bakes" in seen
    assert "is the oven on?" in seen
    assert "the oven smokes" in sent
    assert "In the user's own words" in sent
    assert "have a look" not in sent
    assert ">8" not in sent


@pytest.mark.parametrize(
    ("does", "code", "why"),
    [
        ("file.write_text('')", 130, "left empty"),
        ("file.write_text(text[text.index('# >8'):])", 130, "left empty"),
        ("file.unlink()", 130, "left no brief"),
        ("sys.exit(3)", 130, "ended with 3"),
        ("file.write_text('long ' * 900)", 2, "at most 4,000 characters"),
    ],
)
def test_what_is_left_empty_or_ends_badly_sends_nothing_and_begins_nothing(
    shell: Shell, agents: Agents, editor: Callable[[str], str], does: str, code: int, why: str
) -> None:
    with OpenAIServer() as server:
        agents(server.url)
        ended, shown = asked(shell, editor(does), "--escalate", "so?")
        assert server.requests == []

    assert ended == code
    assert why in " ".join(shown.split())
    assert "Traceback" not in shown
    assert shell.json("session", "list", "--json")["sessions"] == []


@pytest.mark.parametrize(("name", "why"), [("", "neither VISUAL nor EDITOR"), ("/no/such/editor", "cannot be started"), ('"', "cannot be started")])
def test_without_an_editor_the_error_says_so(shell: Shell, agents: Agents, name: str, why: str) -> None:
    agents("http://127.0.0.1:9")
    code, shown = asked(shell, name, "--escalate", "so?")

    assert (code, why in " ".join(shown.split())) == (2, True)


def test_without_a_terminal_there_is_nobody_to_edit(shell: Shell, agents: Agents) -> None:
    agents("http://127.0.0.1:9")
    result = shell.run("ask", "--edit-brief", "--escalate", "so?", EDITOR="true")

    assert result.returncode == 2
    assert "needs a terminal" in result.stderr
    assert "--reason" in result.stderr


def test_the_brief_of_a_primary_that_hands_over_is_edited_in_the_midst_of_it(
    shell: Shell, agents: Agents, editor: Callable[[str], str], tmp_path: Path
) -> None:
    with OpenAIServer(reply("No idea."), reply("A cycle."), reply("Again.")) as server:
        agents(server.url)
        shell.run("ask", REPEATED)
        code, _ = asked(shell, editor("file.write_text('it is the lexer')"), REPEATED)
        sent = json.dumps(server.requests[-1].body)
        cancelled, _ = asked(shell, editor("file.write_text('')"), REPEATED)
        calls = len(server.requests)

    assert (code, cancelled, calls) == (0, 130, 2)
    assert "asks it again" in (tmp_path / "seen").read_text()
    assert "it is the lexer" in sent
    turns = shell.json("session", "show", "--json")["turns"]
    assert [(turn["role"], turn["outcome"]) for turn in turns] == [
        ("primary", "completed"),
        ("primary", "escalated"),
        ("escalation", "completed"),
        ("primary", "escalated"),
    ]


@pytest.mark.parametrize("plain", [True, False])
def test_a_chat_gives_the_terminal_to_the_editor_and_goes_on(shell: Shell, agents: Agents, editor: Callable[[str], str], tmp_path: Path, plain: bool) -> None:
    with OpenAIServer(reply("Fine."), reply("Hello.")) as server:
        agents(server.url)
        arguments = (["--plain"] if plain else []) + ["chat", "--name", "bakery"]
        with Played(shell, *arguments, environ={"EDITOR": editor("file.write_text('the oven smokes')")}) as chat:
            chat.until(">" if plain else "/help lists")
            chat.say("/escalate -e which oven?")
            chat.until("turn 0, completed")
            chat.say("hi")
            chat.until("turn 1, completed")
            (tmp_path / "my editor.py").write_text("raise SystemExit(1)")
            chat.say("/escalate -e another one?")
            chat.until(lambda text: "so nothing was sent" in text.replace("\n", ""))  # wherever the line is broken
            chat.type("\x04")
            chat.ended()
        sent = json.dumps(server.requests[0].body)

    assert "the oven smokes" in sent
    assert (tmp_path / "seen").read_text().startswith("which oven?\n")
    assert len(shell.json("session", "show", "bakery", "--json")["turns"]) == 2


def test_a_chat_that_is_piped_has_no_editor(shell: Shell, agents: Agents) -> None:
    agents("http://127.0.0.1:9")
    result = shell.run("chat", stdin="/escalate -e so?\n/escalate -e\n", EDITOR="true")

    assert result.returncode == 2
    assert "needs a terminal" in result.stderr
    assert "/escalate -e MSG" in result.stderr
