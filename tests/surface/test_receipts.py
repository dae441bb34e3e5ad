"""Past turns explained from what was kept with them, also after an export and an import."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from orchestrator.testing.openai_server import OpenAIServer, reply

from .conftest import Shell

Agents = Callable[[str], None]
ASKED = "why does the build of it fail?"


@pytest.fixture
def lived(shell: Shell, agents: Agents) -> Shell:
    with OpenAIServer(*(reply("Fine.") for _ in range(5))) as server:
        agents(server.url)
        shell.each(["ask", ASKED], ["ask", "--escalate", "--reason", "look", "so?"], ["ask", "thanks"], ["ask", "--escalate", "and?"])
    return shell


def test_a_turn_is_explained_for_people_and_as_a_document(lived: Shell) -> None:
    document = lived.json("session", "show", "--turn", "3", "--plan", "--json")
    text = lived.run("session", "show", "--turn", "3", "--plan").stdout

    assert (document["format"], document["mode"], [reason["rule"] for reason in document["reasons"]]) == ("escalera.receipt/1", "returning", ["primary_worked"])
    receipt = document["receipt"]
    assert (receipt["facts"]["primary_turns"], receipt["limits"]["returning_fresh_start_local_turns"]) == (1, 8)
    assert (receipt["report"]["history"]["scope"], receipt["report"]["history"]["sent"]) == ("all", [[0, 2]])
    for told in ("mode returning", "went there by flag", "because primary_worked", "last escalation turn 1", "budget: ", "turns sent: 0–2", "limits: "):
        assert told in text
    assert "decided again" not in text


def test_primary_turns_are_explained_too_and_what_has_no_receipt_says_so(lived: Shell) -> None:
    assert lived.json("session", "show", "--turn", "0", "--plan", "--json")["mode"] is None
    assert lived.run("session", "show", "--plan").returncode == 2
    assert lived.run("session", "show", "--turn", "9", "--plan").returncode == 3
    change(lived, "DELETE FROM receipts")
    result = lived.run("session", "show", "--turn", "0", "--plan")
    assert (result.returncode, "was not kept" in result.stderr) == (3, True)


def test_a_damaged_receipt_hides_nothing_else(lived: Shell) -> None:
    change(lived, "UPDATE receipts SET payload = '{' WHERE turn = 1", "UPDATE receipts SET payload = '{\"version\": 9}' WHERE turn = 2")

    shown = lived.run("session", "show", "--json")
    assert len(json.loads(shown.stdout)["turns"]) == 4
    assert "receipt is unreadable" in shown.stderr
    assert lived.run("session", "show", "--turn", "0", "--plan").returncode == 3
    newer = lived.run("session", "show", "--turn", "1", "--plan")
    assert (newer.returncode, "its version is 9" in newer.stderr) == (3, True)
    assert lived.run("session", "show", "--turn", "2", "--plan").returncode == 0


def test_receipts_go_along_in_an_export_a_fork_and_a_dropped_session(lived: Shell, tmp_path: Path) -> None:
    exported = lived.json("session", "export")
    receipts = [turn["receipt"] for turn in exported["turns"]]
    assert all(receipts)
    forked = lived.json("session", "fork", "--json")["id"]
    dropped = json.loads(Path(lived.json("session", "drop", exported["id"], "--json")["export"]).read_text())
    (tmp_path / "x.json").write_text(json.dumps(exported))
    lived.json("session", "import", str(tmp_path / "x.json"), "--json")

    for document in (dropped, lived.json("session", "export", forked), lived.json("session", "export", exported["id"])):
        assert [turn["receipt"] for turn in document["turns"]] == receipts
    assert lived.run("session", "show", exported["id"], "--turn", "3", "--plan").returncode == 0


@pytest.mark.parametrize(
    ("receipt", "kept"),
    [
        ({"version": 99, "new": [1, {"deep": None}]}, True),
        ({"version": 1}, False),
        ({}, False),
        ("text", False),
        ([1], False),
        (7, False),
        ({"version": 99, "x": "y" * 70_000}, False),
        ({"version": True}, False),
    ],
)
def test_an_unknown_receipt_is_kept_and_a_spoilt_one_left_out_with_a_notice(shell: Shell, tmp_path: Path, receipt: Any, kept: bool) -> None:
    turns = [{"role": "primary", "prompt": "a", "answer": "b"}, {"role": "primary", "prompt": "c", "answer": "d", "receipt": receipt}]
    (tmp_path / "x.json").write_text(json.dumps({"turns": turns}))

    result = shell.run("session", "import", str(tmp_path / "x.json"))
    found = [turn["receipt"] for turn in shell.json("session", "export")["turns"]]

    assert result.returncode == 0, result.stderr
    assert found == [None, receipt if kept else None]
    assert ("turn 1: its receipt is left out" in result.stderr) is not kept
    assert shell.run("session", "show", "--turn", "1", "--plan").returncode == 3


def test_no_secret_is_in_a_receipt(shell: Shell) -> None:
    key = "sk-live-0123456789abcdefghij"
    with OpenAIServer(reply("Fine."), reply("Fine.")) as server:
        agent = f'provider = "openai"\nbase_url = "{server.url}"\nmodel = "m"\napi_key = {{ env = "MY_KEY" }}\nheaders = {{ x = "{key}" }}\n'
        shell.configure(f'primary = "local"\nescalation = "strong"\n[routing]\npaths_weight = 0.5\n[agents.local]\n{agent}[agents.strong]\n{agent}')
        assert shell.run("ask", f"look at /srv/{key}/x.py with {key}", MY_KEY=key).returncode == 0
        assert shell.run("ask", "--escalate", "--reason", key, f"use {key}", MY_KEY=key).returncode == 0

    with closing(sqlite3.connect(shell.home / "data" / "escalera.db")) as database:
        payloads = [payload for (payload,) in database.execute("SELECT payload FROM receipts")]
    assert len(payloads) == 2
    assert key not in "".join(payloads)
    assert "paths" in payloads[0]


def change(shell: Shell, *statements: str) -> None:
    with closing(sqlite3.connect(shell.home / "data" / "escalera.db")) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()
