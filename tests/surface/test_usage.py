"""`escalera usage` over turns that really ran, and over imported ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from orchestrator.testing.openai_server import OpenAIServer, Reply, reply

from .conftest import Shell


def with_usage(finish_reason: str = "stop", **usage: object) -> Reply:
    body = {"model": "m", "choices": [{"message": {"role": "assistant", "content": "hi"}, "finish_reason": finish_reason}], "usage": usage}
    return Reply([json.dumps(body).encode()], headers={"content-type": "application/json"})


def costs(row: dict[str, Any]) -> list[tuple[str, float | None, int]]:
    return [(cost["label"], cost["usd"], cost["turns"]) for cost in row["costs"]]


def test_each_cost_says_where_it_comes_from(shell: Shell) -> None:
    with OpenAIServer(
        with_usage(prompt_tokens=100, completion_tokens=10, cost=0.5, prompt_tokens_details={"cached_tokens": 80}),
        reply("hi", usage=(1_000_000, 100_000)),
        reply("hi", usage=(5, 5)),
    ) as server:
        options = f'base_url = "{server.url}"\nmodel = "m"\napi_key = "k-1234"'
        shell.configure(
            f'primary = "router"\nescalation = "priced"\n[agents.router]\nprovider = "openrouter"\n{options}\n'
            f'[agents.priced]\nprovider = "openai"\n{options}\nprices = {{ input = 3.0, output = 15.0 }}\n[agents.bare]\nprovider = "openai"\n{options}\n'
        )
        for agent in ("router", "priced", "bare"):
            shell.json("ask", "--agent", agent, "hello", "--json")

    document = shell.json("usage", "--json")

    assert (document["format"], document["by"]) == ("escalera.usage/1", "agent")
    rows = {row["agent"]: row for row in document["usage"]}
    assert costs(rows["router"]) == [("billed", 0.5, 1)]
    assert (rows["router"]["input_tokens"], rows["router"]["cache_read_share"]) == (100, 0.8)
    assert costs(rows["priced"]) == [("estimated", 4.5, 1)]
    assert costs(rows["bare"]) == [("unknown", None, 1)]
    assert rows["bare"]["cost_usd"] is None
    assert (document["totals"]["cost_usd"], document["totals"]["cost_label"], document["totals"]["unknown_turns"]) == (5.0, "estimated", 1)

    shown = shell.run("usage").stdout
    assert "$0.5000 billed + $4.5000 estimated + unknown for 1 turn" in shown
    assert "80 (80%)" in shown


def test_looks_at_one_session_or_everywhere_or_since(shell: Shell) -> None:
    turns = [
        {"role": "primary", "prompt": "p", "answer": "a", "started_at": f"2026-01-0{day}T12:00:00Z", "usage": {"input_tokens": day, "output_tokens": 1}}
        for day in (1, 2, 3)
    ]
    for name, workspace in (("here", str(shell.cwd)), ("there", "/somewhere/else")):
        file = shell.cwd / f"{name}.json"
        file.write_text(json.dumps({"format": "escalera.session/1", "name": name, "workspace": workspace, "turns": turns}))
        assert shell.run("session", "import", str(file)).returncode == 0

    def tokens(*flags: str) -> int:
        return int(shell.json("usage", *flags, "--json")["totals"]["input_tokens"])

    assert tokens() == 6
    assert tokens("--session", "here") == 6
    assert tokens("--all-workspaces") == 12
    assert tokens("--since", "2026-01-02") == 5
    assert [row["day"] for row in shell.json("usage", "--by", "day", "--json")["usage"]] == ["2026-01-01", "2026-01-02", "2026-01-03"]
    assert [row["name"] for row in shell.json("usage", "--by", "session", "--json")["usage"]] == ["here"]
    assert shell.json("usage", "--since", "1h", "--json")["usage"] == []


def test_without_a_store_there_is_nothing_and_nothing_is_made(shell: Shell) -> None:
    document = shell.json("usage", "--json")
    assert (document["usage"], document["totals"]["turns"], document["totals"]["cost_usd"]) == ([], 0, None)
    assert "nothing was used" in shell.run("usage").stdout
    assert not (shell.home / "data").exists()


def test_failed_turn_that_was_billed_counts(shell: Shell, agents: Callable[[str], None]) -> None:
    filtered = with_usage(prompt_tokens=7, completion_tokens=1, cost=0.1, finish_reason="content_filter")
    with OpenAIServer(filtered, Reply([b"{}"], status=400)) as server:
        agents(server.url)
        assert shell.json("ask", "one", "--json", code=1)["outcome"] == "failed"
        assert shell.json("ask", "two", "--json", code=1)["outcome"] == "failed"
    totals = shell.json("usage", "--json")["totals"]
    assert (totals["turns"], costs(totals)) == (2, [("reported", 0.1, 1), ("unknown", None, 1)])


def test_wrong_flags_are_wrong_usage(shell: Shell) -> None:
    assert shell.run("usage", "--since", "yesterday-ish").returncode == 2
    assert shell.run("usage", "--since", "99999999999999d").returncode == 2
    assert shell.run("usage", "--session", "x", "--all-workspaces").returncode == 2
    assert shell.run("usage", "--session", "nope").returncode == 3
