"""The need between turns: set, cleared and brought back from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from orchestrator.clock import format_time
from orchestrator.testing.openai_server import OpenAIServer, reply

from .conftest import Shell


def test_a_need_that_would_leave_room_for_nothing_else_is_refused(shell: Shell) -> None:
    result = shell.run("need", "set", "y" * 4001)

    assert (result.returncode, shell.home.joinpath("data").exists()) == (2, False)
    assert "at most 4,000 characters" in result.stderr


def test_a_need_is_looked_at_by_the_rules_of_its_sessions_directory(shell: Shell, agents: Callable[[str], None]) -> None:
    agents("http://127.0.0.1:9")
    there = shell.cwd.parent / "there"
    there.mkdir()
    (there / "escalera.toml").write_text("need_expiry_hours = 1\n")
    (shell.cwd / "escalera.toml").write_text("need_expiry_hours = 0\nwaiting_expiry_hours = 1\n")
    need = {"text": "ship", "turn_index": 0, "during": False, "updated_at": "2020-01-01T00:00:00Z"}
    asked = {"role": "escalation", "agent": "strong", "prompt": "p", "answer": "which db?", "ended_at": format_time(datetime.now(UTC) - timedelta(hours=3))}
    document = {"id": "s-there", "workspace": str(there), "state": "waiting", "turns": [asked]}
    (shell.cwd / "waiting.json").write_text(json.dumps(document))
    (shell.cwd / "needing.json").write_text(json.dumps({**document, "id": "n-there", "state": "routing", "need": need, "turns": []}))
    for name in ("waiting", "needing"):
        shell.run("session", "import", f"{name}.json")

    shown = [shell.json(*command, "n-there", "--json") for command in (("need", "show", "--session"), ("session", "show"))]
    shell.json("need", "set", "--session", "s-there", "ship it", "--json")

    assert [shown[0]["status"], shown[1]["need_now"]["status"]] == ["expired", "expired"]
    assert shell.json("session", "show", "s-there", "--json")["state"] == "waiting"


def test_a_restored_need_stands_where_the_session_is_now(shell: Shell, agents: Callable[[str], None]) -> None:
    with OpenAIServer(reply("done")) as server:
        agents(server.url)
        shell.run("need", "set", "ship", "it")
        shell.json("ask", "--escalate", "do it", "--json")

    served = shell.json("need", "show", "--json")
    restored = shell.json("need", "restore", "--json")
    plan = shell.json("plan", "--escalate", "--json", "--", "again")

    assert (served["text"], served["status"]) == ("ship it", "fulfilled")
    assert (restored["status"], restored["turn_index"], restored["source"], restored["last_need"]) == ("set", 1, "user", None)
    assert (plan["mode"], [reason["rule"] for reason in plan["reasons"]]) == ("fresh_start", ["need_changed"])


def test_only_what_was_cleared_can_be_restored(shell: Shell) -> None:
    shell.run("need", "set", "ship", "it")
    assert shell.json("need", "clear", "--json")["status"] == "none"
    assert shell.json("need", "restore", "--json")["text"] == "ship it"

    again = shell.run("need", "restore")

    assert again.returncode == 3
    assert "no last need" in again.stderr


def test_restoring_swaps_the_need_with_the_last_one(shell: Shell) -> None:
    for words in (("set", "A"), ("clear",), ("set", "B")):
        shell.run("need", *words)

    first = shell.json("need", "restore", "--json")
    second = shell.json("need", "restore", "--json")

    assert (first["text"], first["last_need"]["text"], first["last_need"]["reason"]) == ("A", "B", "cleared")
    assert (second["text"], second["last_need"]["text"]) == ("B", "A")
