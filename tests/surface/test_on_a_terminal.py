"""On a real terminal: what models, tools, servers and users wrote is shown, and never drives it (page 6)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.testing.openai_server import OpenAIServer, chunk, json_reply, sse

from .conftest import Shell
from .played import Played

PAYLOADS: list[str] = json.loads((Path(__file__).parents[1] / "trials" / "T104.json").read_text("utf-8"))["payloads"]
EVERY = "".join(f"{payload} then\n" for payload in PAYLOADS)
OURS = re.compile(r"\x1b\[\?25[lh]|\r(?:\x1b\[1A)?\x1b\[2K|\r\n")
"""What the spinner does: hides and shows the cursor, and clears its own line. A terminal gets a newline as CR LF."""
OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def obeyed(text: str) -> list[str]:
    """What would drive the terminal and is not ours."""
    return OBEYED.findall(OURS.sub("", text))


def answer_in_pieces() -> list[dict[str, object]]:
    """Every payload, each cut after its first character."""
    pieces = [piece for payload in PAYLOADS for piece in (payload[:1], payload[1:], " then\n")]
    return [*(chunk({"content": piece}) for piece in pieces), chunk({}, finish_reason="stop")]


@pytest.mark.trial("T104")
def test_t104_nothing_that_was_written_elsewhere_drives_the_terminal(shell: Shell, agents: Callable[[str], None]) -> None:
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": f"run{EVERY}", "arguments": json.dumps({EVERY: EVERY})}}
    tool, answer = sse(chunk({"tool_calls": [call]}), chunk({}, finish_reason="tool_calls")), sse(*answer_in_pieces())
    refusal = json_reply({"error": {"message": f"not today {EVERY}"}}, status=400)
    with OpenAIServer(tool, answer, answer, answer, refusal) as server:
        agents(server.url)
        shown = {
            "live": shell.on_terminal("--color", "never", "ask", "--name", EVERY, EVERY),
            "plain": shell.on_terminal("--color", "never", "--plain", "ask", EVERY),
            "document": shell.on_terminal("--color", "never", "ask", "--json", EVERY),
            "refused": shell.on_terminal("--color", "never", "ask", EVERY),
            "unknown": shell.on_terminal("--color", "never", "ask", "--agent", EVERY, EVERY),
            "usage": shell.on_terminal("--color", "never", "ask", f"--{EVERY}"),
        }
    assert [code for code, _ in shown.values()] == [0, 0, 0, 1, 3, 2]
    assert shell.each(["need", "set", EVERY], ["memory", "learn", EVERY])[0].returncode == 0
    for command in (
        "session list",
        "session show",
        "session export",
        "session export --markdown",
        "need show",
        "memory list",
        "plan --json hello",
        "plan hello",
    ):
        shown[command] = shell.on_terminal("--color", "never", *command.split())
        assert shown[command][0] == 0, shown[command]

    assert {command: found for command, (_, text) in shown.items() if (found := obeyed(text))} == {}
    for command in ("live", "plain", "refused", "session list", "session show"):
        assert "]52;c;ZXZpbA==" in shown[command][1], command
        assert "]unterminated then" in shown[command][1], command
    turn = shell.json("session", "show", "--json")["turns"][0]
    assert turn["steps"][-1]["text"] == EVERY
    assert turn["steps"][0]["name"] == f"run{EVERY}"


ALLOWED = re.compile(rb"\x1b\[(?:[0-9;]*m|[0-9]*[ABCD]|[JK]|\?(?:7|12|25|1|2004)[hl])|[\n\r\b]")
"""What the screen of a chat is drawn with: colours, moves (a backspace for one place back), clearing, modes of wrapping, cursor, keys and pasting."""


@pytest.mark.trial("T104")
@pytest.mark.parametrize("color", ["always", "never"])
def test_t104_nothing_that_was_written_elsewhere_drives_a_chat(shell: Shell, agents: Callable[[str], None], color: str) -> None:
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": f"run{EVERY}", "arguments": json.dumps({EVERY: EVERY})}}
    tool, answer = sse(chunk({"tool_calls": [call]}), chunk({}, finish_reason="tool_calls")), sse(*answer_in_pieces())
    with OpenAIServer(tool, answer, json_reply({"error": {"message": f"not today {EVERY}"}}, status=400)) as server:
        agents(server.url)
        for command in (["need", "set", EVERY], ["memory", "learn", EVERY]):
            assert shell.run(*command).returncode == 0
        with Played(shell, "--color", color, "chat", "--name", EVERY) as chat:
            chat.until("/help lists")
            chat.say("hello")
            chat.until("turn 0, completed")
            chat.say("again")
            chat.until("not today")
            for number, command in enumerate(("/need", "/memory list", "/why", "/plan", "/session", "/agent", "/usage")):
                chat.say(command)
                chat.say(f"/end{number}")
                chat.until(f"there is no command /end{number}")
            chat.say("/memory")
            chat.until("Esc: close")
            chat.type("\x1b")
            chat.say("/end")
            chat.until("there is no command /end")
            chat.type("\x04")
            assert chat.ended() == 0

    assert re.findall(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xaa-\xae]|\xe2\x81[\xa6-\xa9]", ALLOWED.sub(b"", chat.got)) == []
    assert "]52;c;ZXZpbA==" in chat.got.decode()


def test_a_terminal_shows_who_is_asked_and_then_the_answer(shell: Shell, agents: Callable[[str], None]) -> None:
    with OpenAIServer(sse(chunk({"content": "Hello."}), chunk({}, finish_reason="stop"))) as server:
        agents(server.url)
        code, shown = shell.on_terminal("--color", "never", "ask", "hello")

    assert code == 0
    assert re.search(r"local \(primary\) is thinking \d:\d\d", shown)
    assert shown.index("is thinking") < shown.index("Hello.\r\n")
    assert shown.rstrip().endswith("[local, primary: default; turn 0, completed]")
