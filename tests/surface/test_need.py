"""The need between turns: set, cleared and brought back from the command line."""

from __future__ import annotations

from collections.abc import Callable

from orchestrator.testing.openai_server import OpenAIServer, reply

from .conftest import Shell


def test_a_need_that_would_leave_room_for_nothing_else_is_refused(shell: Shell) -> None:
    result = shell.run("need", "set", "y" * 4001)

    assert (result.returncode, shell.home.joinpath("data").exists()) == (2, False)
    assert "at most 4,000 characters" in result.stderr


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
