"""`escalera memory`, as a user runs it; and what of it reaches an agent on every path."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.testing.openai_server import OpenAIServer, reply

from .backends import CLAUDE, NO_CLAUDE, backend
from .conftest import Shell

TRIALS = Path(__file__).parents[1] / "trials"


def learned(shell: Shell, *text: str) -> str:
    identity: str = shell.json("memory", "learn", *text, "--json")["id"]
    return identity


def listed(shell: Shell) -> dict[str, dict[str, Any]]:
    return {percept["content"]: percept for percept in shell.json("memory", "list", "--json")["percepts"]}


# -- every path ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [pytest.param("claude-cli", marks=pytest.mark.skipif(not CLAUDE, reason=NO_CLAUDE)), "bedrock", "openrouter"])
def test_exactly_the_chosen_facts_reach_the_model_and_only_they_count_as_used(shell: Shell, tmp_path: Path, kind: str) -> None:
    facts = [f"fact {name} is about {topic}" for name, topic in (("one", "bread"), ("two", "ovens"), ("three", "ships"), ("four", "stars"))]
    with backend(kind, tmp_path) as strong:
        shell.configure(
            f'primary = "local"\nescalation = "{kind}"\n[agents.local]\nprovider = "openai"\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\n{strong.table}'
        )
        lines = "\n".join(json.dumps({"content": fact}) for fact in facts)
        assert shell.run("memory", "import", "-", stdin=lines).returncode == 0
        learned(shell, "always be brief")
        why = shell.json("memory", "why", "--agent", kind, "--json", "bread from stone ovens")
        chosen = {percept["content"] for percept in why["chosen"]}
        assert chosen == {*facts[:2], "always be brief"}
        assert {percept["why"] for percept in why["withheld"]} == {"not relevant"}
        plan = shell.json("plan", "--escalate", "--json", "bread from stone ovens")
        assert set(plan["percepts"]["sent"]) == {percept["id"] for percept in why["chosen"]}
        strong.fails()

        assert shell.run("--limits-retry-attempts", "0", "ask", "--escalate", "bread from stone ovens", **strong.environ).returncode == 1
        assert {percept["last_used_at"] for percept in listed(shell).values()} == {None}

        strong.answers("Bake it.")
        assert shell.run("ask", "--escalate", "bread from stone ovens", **strong.environ).returncode == 0
        body = json.dumps(strong.bodies[-1], ensure_ascii=False)

    assert [fact in body for fact in (*facts, "always be brief")] == [True, True, False, False, True]
    assert {content for content, percept in listed(shell).items() if percept["last_used_at"]} == chosen


# -- the commands --------------------------------------------------------------------------------


def test_a_fact_is_learned_once_forgotten_and_restored(shell: Shell) -> None:
    first = shell.json("memory", "learn", "The user wants terse output", "--json")
    again = shell.json("memory", "learn", "the user wants TERSE output.", "--json")
    assert (first["stored"], again["stored"], again["id"], first["weight"], first["core"]) == (True, False, first["id"], 100, True)

    assert shell.run("memory", "forget", first["id"][:8]).returncode == 0
    (gone,) = shell.json("memory", "archive", "--json")["archived"]
    assert (gone["id"], gone["reason"]) == (first["id"], "forgotten")
    assert shell.json("memory", "restore", first["id"][:8], "--json")["stored"] is True
    assert shell.json("memory", "archive", "--json")["archived"] == []

    shell.json("memory", "forget", first["id"], "--purge", "--json")
    assert shell.json("memory", "archive", "--json")["archived"] == []
    assert "terse" not in (shell.home / "data" / "memory" / "global-archive.jsonl").read_text()
    assert shell.run("memory", "restore", first["id"]).returncode == 3


def test_restoring_what_was_learned_again_is_refused_and_names_that_one(shell: Shell) -> None:
    old = learned(shell, "use tabs")
    shell.run("memory", "forget", old)
    new = learned(shell, "Use tabs!")

    result = shell.run("memory", "restore", old)

    assert result.returncode == 2
    assert new in result.stderr


def test_a_changed_value_takes_the_place_of_the_old_one(shell: Shell) -> None:
    old, new = learned(shell, "--subject", "db", "the port is 5432"), learned(shell, "--subject", "db", "the port is 5433")

    document = shell.json("memory", "list", "--json")

    assert document["edges"] == [{"source": new, "target": old, "kind": "updates"}]
    assert document["engrams"] == [{"subject": "db", "weight": 100, "percepts": sorted([old, new])}]
    why = shell.json("memory", "why", "which port?", "--agent", "local", "--json")
    assert [percept["id"] for percept in why["chosen"]] == [new]
    assert why["withheld"] == [{"id": old, "content": "the port is 5432", "why": "superseded"}]


def test_links_are_given_by_options(shell: Shell) -> None:
    one = learned(shell, "one thing")
    two = learned(shell, "another matter", "--derives", one[:8], "--contradicts", one)

    assert {(edge["source"], edge["kind"], edge["target"]) for edge in shell.json("memory", "list", "--json")["edges"]} == {
        (two, "derives", one),
        (two, "contradicts", one),
    }
    assert shell.run("memory", "learn", "a third", "--extends", "nothing").returncode == 3
    assert "a third" not in listed(shell)


def test_a_fact_of_one_workspace_is_told_everywhere_once_the_user_says_so(shell: Shell) -> None:
    shell.run("memory", "import", "-", stdin=json.dumps({"id": "p1", "content": "use tabs", "workspace": "/elsewhere"}))
    assert shell.json("memory", "why", "tabs", "--json")["withheld"] == [{"id": "p1", "content": "use tabs", "why": "other workspace"}]

    shell.run("memory", "learn", "--everywhere", "p1")

    assert [percept["id"] for percept in shell.json("memory", "why", "tabs", "--json")["chosen"]] == ["p1"]


def test_why_with_an_empty_prompt_lets_everything_pass(shell: Shell) -> None:
    shell.run("memory", "import", "-", stdin='{"content": "use tabs"}\n{"content": "be brief"}')

    assert len(shell.json("memory", "why", "", "--json")["chosen"]) == 2
    assert len(shell.json("memory", "why", "--json")["chosen"]) == 2
    assert shell.json("memory", "why", "something else", "--json")["chosen"] == []
    assert shell.run("memory", "why", "x", "--agent", "nobody").returncode == 3
    assert "left out" in shell.run("memory", "why", "tabs").stdout


def test_limits_decide_what_is_told_and_say_so(shell: Shell) -> None:
    shell.run("memory", "import", "-", stdin="\n".join(json.dumps({"content": f"tabs {'x' * size}"}) for size in (10, 500, 20)))

    few = shell.json("--limits-percept-inject-max-bytes", "60", "memory", "why", "tabs", "--json")
    none = shell.json("--limits-percept-inject-max", "0", "memory", "why", "tabs", "--json")
    every = shell.json("--limits-percept-inject-max-bytes", "unlimited", "--limits-percept-inject-max", "unlimited", "memory", "why", "tabs", "--json")

    assert [percept["why"] for percept in few["withheld"]] == ["percept_inject_max_bytes"]
    assert (none["chosen"], {percept["why"] for percept in none["withheld"]}) == ([], {"percept_inject_max"})
    assert len(every["chosen"]) == 3


@pytest.mark.trial("T80")
def test_t80_good_lines_are_imported_and_bad_ones_named(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "memory.jsonl"
    file.write_bytes((TRIALS / "T80.jsonl").read_bytes())
    before = file.read_bytes()

    result = shell.run("memory", "import", str(file), "--json")

    document = json.loads(result.stdout)
    assert (result.returncode, document["stored"], [skipped["line"] for skipped in document["skipped"]]) == (0, 3, [4, 5])
    assert "line 5" in result.stderr
    facts = listed(shell)
    assert {content: percept["subject"] for content, percept in facts.items()} == {"likes tea": "Ann", "plays chess": "Bob", "Ann knows Bob": "Ann"}
    assert file.read_bytes() == before
    learned(shell, "one more")
    assert shell.json("memory", "import", str(file), "--json")["known"] == 3
    assert len(listed(shell)) == 4


def test_everything_that_is_exported_is_imported_again(shell: Shell, tmp_path: Path) -> None:
    one = learned(shell, "the port is 5432", "--subject", "db")
    learned(shell, "the port is 5433", "--subject", "db")
    gone = learned(shell, "forget this")
    shell.run("memory", "forget", gone)
    shell.run(
        "memory",
        "import",
        "-",
        stdin=json.dumps({"id": "s", "content": "of a session", "scope": "session", "session": "s1", "weight": 50, "producer": "primary"}),
    )
    first = shell.json("memory", "export", "--json")
    assert shell.run("memory", "export", "-o", str(tmp_path / "all.json")).returncode == 0
    assert json.loads((tmp_path / "all.json").read_text("utf-8")) == first
    other = shell.elsewhere(tmp_path / "other", shell.cwd)

    imported = other.json("memory", "import", str(tmp_path / "all.json"), "--json")

    assert (imported["stored"], imported["known"], imported["skipped"]) == (3, 0, [])
    second = other.json("memory", "export")
    assert second == first
    assert other.json("memory", "restore", gone, "--json")["id"] == gone
    assert {edge["target"] for edge in second["edges"]} == {one}


def test_stale_and_consolidate_follow_the_settings(shell: Shell) -> None:
    shell.run("memory", "import", "-", stdin='{"id": "light", "content": "a light fact", "weight": 20}\n{"id": "heavy", "content": "a heavy fact"}')
    stale = shell.json("memory", "stale", "--json")
    assert (stale["archive_after_days"], [percept["id"] for percept in stale["percepts"]]) == (14, ["heavy", "light"])
    assert stale["percepts"][0]["seconds_left"] == 14 * 86_400
    never = shell.json("--global-archive-after-days", "-1", "memory", "stale", "--json")
    assert (never["archive_after_days"], never["percepts"][0]["seconds_left"]) == (None, None)
    assert "14 d 0 h left" in shell.run("memory", "stale").stdout

    assert shell.json("memory", "consolidate", "--json")["archived"] == []
    assert shell.json("--global-archive-after-days", "-1", "memory", "consolidate", "--json")["archived"] == []
    assert shell.json("--global-archive-after-days", "0", "memory", "consolidate", "--json")["archived"] == ["light"]
    shell.run("memory", "import", "-", stdin='{"id": "more", "content": "one more fact", "weight": 30}')
    assert shell.json("--percept-store-max", "1", "memory", "consolidate", "--json")["capped"] == ["more"]


def test_a_consolidation_that_cannot_archive_says_so(shell: Shell) -> None:
    shell.run("memory", "import", "-", stdin='{"id": "light", "content": "a light fact", "weight": 20}')
    archive = shell.home / "data" / "memory" / "global-archive.jsonl"
    archive.parent.mkdir(exist_ok=True)
    archive.symlink_to("/dev/full")

    result = shell.run("--global-archive-after-days", "0", "memory", "consolidate", "--json")

    assert result.returncode == 1
    assert "cannot be written" in result.stderr
    assert "cannot be written" in json.loads(result.stdout)["problem"]
    assert "a light fact" in listed(shell)


def test_a_run_consolidates_when_it_ends(shell: Shell) -> None:
    """Also after a turn that the escalation agent took."""
    with OpenAIServer(reply("Done.")) as server:
        agent = f'provider = "openai"\nbase_url = "{server.url}"\nmodel = "m"\n'
        shell.configure(f'primary = "a"\nescalation = "b"\n[agents.a]\n{agent}[agents.b]\n{agent}')
        shell.run("memory", "import", "-", stdin='{"id": "light", "content": "a light fact", "weight": 20}')

        assert shell.run("--global-archive-after-days", "0", "ask", "--escalate", "hello").returncode == 0

    assert listed(shell) == {}


def test_control_characters_of_a_fact_do_not_reach_the_terminal(shell: Shell) -> None:
    shell.run("memory", "import", "-", stdin=json.dumps({"content": "red \x1b[31mfact\x07"}))

    for command in (("list",), ("why", "red"), ("stale",), ("export",)):
        assert "\x1b" not in shell.run("memory", *command).stdout


def test_why_goes_by_no_need_that_has_expired(shell: Shell) -> None:
    need = {"text": "bake bread", "turn_index": 0, "during": False, "updated_at": "2020-01-01T00:00:00Z", "source": "user"}
    (shell.cwd / "old.json").write_text(json.dumps({"turns": [], "workspace": str(shell.cwd), "need": need}))
    (shell.cwd / "facts").write_text('{"content": "bread is baked", "id": "p1"}\n{"content": "ships sail", "id": "p2"}\n')
    commands = (["session", "import", "old.json"], ["memory", "import", "facts"], ["memory", "why", "ships", "--json"], ["plan", "ships", "--json"])

    *_, why, plan = shell.each(*commands)

    assert [percept["id"] for percept in json.loads(why.stdout)["chosen"]] == ["p2"]
    assert json.loads(plan.stdout)["percepts"]["sent"] == ["p2"]
