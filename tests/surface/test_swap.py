"""The escalation backend swapped by one word in the middle of a conversation, each kind for each other."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from orchestrator.testing.openai_server import OpenAIServer, reply

from .backends import CLAUDE, KINDS, NO_CLAUDE, backend
from .conftest import Shell


@pytest.mark.parametrize(("before", "after"), list(permutations(KINDS, 2)))
def test_swap_keeps_the_thread(shell: Shell, tmp_path: Path, before: str, after: str) -> None:
    if "claude-cli" in (before, after) and not CLAUDE:
        pytest.skip(NO_CLAUDE)
    with ExitStack() as running:
        local = running.enter_context(OpenAIServer(reply("The shop is green."), reply("Blue sign.")))
        old, new = (running.enter_context(backend(kind, tmp_path)) for kind in (before, after))
        configure = _configuration(shell, local.url, old.table + new.table)
        environ = {**old.environ, **new.environ}
        old.answers("A stone oven.", "Back with the old one.")
        new.answers("Rye flour.", "And salt.", "And water.")

        configure(before)
        first = _ask(shell, environ, "--escalate", "which oven?")
        _ask(shell, environ, "what colour is the shop?")
        configure(after)
        swapped = _ask(shell, environ, "--escalate", "which flour?")
        told = new.told
        again = _ask(shell, environ, "--escalate", "what else?")
        resumed = new.told
        configure(before)
        returned = _ask(shell, environ, "--escalate", "and you?")

    assert (first["agent"], swapped["agent"], again["agent"], returned["agent"]) == (before, after, after, before)
    for known in ("which oven?", "A stone oven.", "The shop is green.", "which flour?"):
        assert known in told
    if new.keeps_conversation:
        assert (swapped["mode"], _rules(swapped)) == ("fresh_start", ["primary_worked", "other_agent"])
        assert swapped["external_session"] == again["external_session"]
    else:
        assert (swapped["mode"], swapped["external_session"]) == ("returning", None)
    assert (again["mode"], _rules(again)) == ("continuation", ["no_primary_turns"])
    assert "Rye flour." in resumed
    if old.keeps_conversation:
        assert (returned["mode"], _rules(returned)) == ("fresh_start", ["no_primary_turns", "other_agent"])
        assert returned["external_session"] != first["external_session"]
    else:
        assert returned["mode"] == "continuation"
    for known in ("Rye flour.", "And salt."):
        assert known in old.told


def _configuration(shell: Shell, local: str, tables: str) -> Callable[[str], None]:
    primary = f'[agents.local]\nprovider = "openai"\nbase_url = "{local}"\nmodel = "small"\n'
    return lambda escalation: shell.configure(f'primary = "local"\nescalation = "{escalation}"\n{primary}{tables}')


def _ask(shell: Shell, environ: dict[str, str], *arguments: str) -> dict[str, Any]:
    result = shell.run("ask", "--json", *arguments, **environ)
    assert result.returncode == 0, result.stderr
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def _rules(document: dict[str, Any]) -> list[str]:
    return [reason["rule"] for reason in document["reasons"]]
