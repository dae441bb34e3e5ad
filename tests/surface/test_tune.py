"""`escalera tune`, and the comparisons of `plan`, as they are used."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from xml.etree import ElementTree

import pytest

from orchestrator.testing.openai_server import OpenAIServer, reply

from .conftest import Shell
from .starter import Starter

GAP = "returning_fresh_start_local_turns"


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory, starter: Starter) -> Shell:
    """Four turns of two agents; the server is gone by the time they are replayed."""
    folder = tmp_path_factory.mktemp("tuned")
    (folder / "work").mkdir()
    shell = Shell(folder / "home", folder / "work", starter=starter)
    with OpenAIServer(*(reply("Fine, " + "and more " * 40) for _ in range(4))) as server:
        prices = {"local": "{ input = 0.1, output = 0.4 }", "strong": "{ input = 3, output = 15 }"}
        tables = "".join(
            f'[agents.{name}]\nprovider = "openai"\nbase_url = "{server.url}"\nmodel = "{name}-model"\nprices = {price}\n' for name, price in prices.items()
        )
        shell.configure(f'primary = "local"\nescalation = "strong"\n{tables}')
        shell.each(["ask", "begin"], ["ask", "--escalate", "so?"], ["ask", "thanks"], ["ask", "--escalate", "and?"])
    return shell


def test_a_sweep_as_table_bars_picture_and_document(lived: Shell, tmp_path: Path) -> None:
    picture = tmp_path / "sweep.svg"
    text = lived.run("tune", "--sweep", f"{GAP}=1,8", "--svg", str(picture)).stdout
    document = lived.json("tune", "--sweep", f"{GAP}=1,8", "--json")

    assert "4 turns of 1 sessions; self-test: 0 of 4 decisions wrong, tokens off by 0.00 %" in text
    assert max(len(line) for line in text.splitlines() if "|" in line) <= 80
    assert [line.split()[0] for line in text.splitlines() if "|#" in line] == ["1", "8"]
    (sweep,) = document["sweeps"]
    fresh, then = sweep["settings"]
    assert (fresh["value"], fresh["mode_changed"], fresh["content_changed"]) == (1, 1, 1)
    assert (then["value"], then["mode_changed"], then["in_force"]) == (8, 0, True)
    assert fresh["tokens"]["history"] < then["tokens"]["history"]
    assert {name: figure for name, figure in then.items() if name in document["then"]} == document["then"]
    assert (then["cost"]["label"], then["cost"]["unknown_turns"]) == ("estimated", 0)
    assert sweep["cheapest"] == 1
    svg = ElementTree.fromstring(picture.read_text())  # noqa: S314  # we drew it
    assert svg.tag.endswith("svg")
    assert any("self-test: 0 of 4 decisions wrong" in (part.text or "") for part in svg.iter())


def test_all_sweeps_and_exports_in_the_place_of_the_store(lived: Shell, tmp_path: Path) -> None:
    export = tmp_path / "session.json"
    lived.run("session", "export", "--output", str(export))

    stored, exported = lived.json("tune", "--json"), lived.json("tune", "--json", str(export))

    assert stored["sweeps"] == exported["sweeps"]
    assert len(stored["sweeps"]) == 7
    old = json.loads(export.read_text())
    for turn in old["turns"][:3]:
        turn["receipt"] = None
    export.write_text(json.dumps(old))
    cut = lived.json("tune", "--json", str(export))
    assert (cut["turns"], cut["not_replayed"], cut["self_test"]["decisions"]) == (4, 3, 1)
    assert [missing["turn"] for missing in cut["missing"]] == [0, 1, 2]
    assert "it has no receipt" in lived.run("tune", str(export)).stdout


def test_the_chosen_limit_is_written_and_can_be_undone(lived: Shell) -> None:
    file = lived.home / "config" / "config.toml"
    before = file.read_text()
    path = f"agents.strong.limits.{GAP}"

    applied = lived.json("tune", "--agent", "strong", "--sweep", f"{GAP}=1,8", "--apply", "cheapest", "--json")["applied"]
    assert (applied["path"], applied["value"]) == (path, 1)
    assert lived.json("settings", "get", path, "--json")["value"] == 1
    assert applied["undo"] == f"escalera settings unset {path}"
    again = lived.run("tune", "--agent", "strong", "--apply", f"{GAP}=5").stdout
    assert f"to undo it: escalera settings set {path} 1" in again
    assert lived.run("settings", "set", path, "1").returncode == 0
    assert lived.run(*applied["undo"].split()[1:]).returncode == 0
    assert lived.json("settings", "get", path, "--json")["value"] == 8
    assert file.read_text().startswith(before.rstrip("\n"))


def test_what_cannot_be_done_is_said(lived: Shell) -> None:
    refused = {
        ("--sweep", "idle_timeout"): "idle_timeout cannot be replayed",
        ("--sweep", "returning_fresh_start"): "there is no limit 'returning_fresh_start'",
        ("--sweep", f"{GAP}=-1"): "at least 0",
        ("--sweep", "context_window_tokens"): "which values are to be tried",
        ("--apply", "cheapest"): "just one --sweep",
        ("--agent", "strong", "--sweep", "need_expiry_hours=1"): "no limit of an agent",
        ("--since", "soon"): "is no time",
        ("no-such-file.json",): "cannot read",
    }

    results = lived.each(*(["tune", *arguments] for arguments in refused))

    for result, (arguments, said) in zip(results, refused.items(), strict=True):
        assert (result.returncode, said in result.stderr) == (2, True), (arguments, result.stderr)


def test_a_plan_is_compared_with_itself_under_other_limits(lived: Shell) -> None:
    less = lived.json("plan", "--escalate", "next?", "--json")["budget"]["total_chars"] - 300
    text = lived.run("plan", "--escalate", "next?", "--compare", f"message_budget_chars={less}").stdout
    document = lived.json("plan", "--escalate", "next?", "--compare", f"message_budget_chars={less}", "--json")

    assert f"budget: 100,000 characters -> {less:,} characters" in text
    assert "left out (budget): none -> " in text
    assert "+1 earlier turn is not shown." in text
    assert (document["before"]["limit_chars"], document["after"]["limit_chars"]) == (100_000, less)
    assert document["after"]["dropped"] != []
    assert any(line.startswith("-") for line in document["diff"])
    refused = lived.json("plan", "--escalate", "next?", "--compare", "message_budget_chars=300", "--json")
    assert (refused["after"], refused["error"]["type"], refused["diff"]) == (None, "BudgetExceeded", [])
    same = lived.run("plan", "next?", "--compare", f"{GAP}=2").stdout
    assert "nothing else differs" in same
    assert "the texts are the same" in same


def test_a_plan_is_compared_with_an_earlier_turn(lived: Shell) -> None:
    document = lived.json("plan", "--escalate", "next?", "--diff", "1", "--json")

    assert (document["before"]["turn"], document["before"]["mode"]) == (1, "first")
    assert (document["after"]["turn"], document["after"]["mode"]) == (4, "continuation")
    assert document["before"]["sent"] == [0]
    assert any("never_escalated" in line for line in lived.run("plan", "--escalate", "next?", "--diff", "1").stdout.splitlines())
    assert lived.run("plan", "--diff", "9").returncode == 3
    assert lived.run("plan", "--diff", "1", "--compare", f"{GAP}=2").returncode == 2


def test_every_command_of_the_documentation_runs(lived: Shell) -> None:
    text = (Path(__file__).parents[2] / "docs" / "tuning.md").read_text("utf-8")
    commands = [shlex.split(line)[1:] for line in text.splitlines() if line.startswith("    escalera ")]

    results = lived.each(*commands)

    assert len(commands) > 10
    assert [(result.returncode, result.stderr) for result in results] == [(0, "")] * len(commands)
    assert (lived.cwd / "sweep.svg").exists()
