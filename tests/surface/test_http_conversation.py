"""One conversation with an agent that forgets everything between turns, over OpenAI's wire, through the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator.testing.openai_server import OpenAIServer, reply

from .backends import backend
from .conftest import Shell


@pytest.mark.parametrize("kind", ["openrouter", "openai"])
def test_one_conversation_through_all_modes(shell: Shell, tmp_path: Path, kind: str) -> None:
    with OpenAIServer(reply("The shop is green."), reply("The sign is blue.")) as local, backend(kind, tmp_path) as strong:
        primary = f'[agents.local]\nprovider = "openai"\nbase_url = "{local.url}"\nmodel = "small"\n'
        shell.configure(f'primary = "local"\nescalation = "{kind}"\n{primary}{strong.table}')
        strong.answers("A stone oven.", "Which flour?", "Rye it is.", "Welcome back.", "A letter, then.")
        shell.run("memory", "learn", "The user lives in Sevilla.")
        shell.run("need", "set", "open a small bakery")

        asked = [
            shell.json("ask", "--json", "--escalate", "--reason", "needs a plan", "which oven?"),
            shell.json("ask", "--json", "--escalate", "--", "--version"),
        ]
        asked.append(shell.json("ask", "--json", "rye"))
        shell.json("ask", "--json", "what colour is the shop?")
        shell.json("ask", "--json", "and the sign?")
        asked.append(shell.json("ask", "--json", "--escalate", "back to you"))
        shell.run("need", "set", "write a newsletter")
        asked.append(shell.json("ask", "--json", "--escalate", "what goes first?"))
        first, second, third, fourth, fifth = (body["messages"] for body in strong.bodies)

    assert [turn["mode"] for turn in asked] == ["first", "continuation", "resume", "returning", "fresh_start"]
    for messages in (first, second, third, fourth, fifth):
        static, orientation, percepts = (message["content"] for message in messages[:3])
        assert [message["role"] for message in messages[:4]] == ["system", "system", "system", "user"]
        assert static == first[0]["content"]
        assert "The user lives in Sevilla." in percepts
        assert "The user lives in Sevilla." not in orientation
    assert "needs a plan" in first[1]["content"]
    assert "open a small bakery" in first[1]["content"]
    assert said(second) == ["which oven?", "A stone oven.", "--version"]
    assert said(third) == ["which oven?", "A stone oven.", "--version", "Which flour?", "rye"]
    assert said(fourth)[:6] == ["which oven?", "A stone oven.", "--version", "Which flour?", "rye", "Rye it is."]
    assert any("The shop is green." in text for text in said(fourth))
    assert said(fourth)[-1] == "back to you"
    assert "write a newsletter" in fifth[1]["content"]
    assert "Welcome back." in fifth[1]["content"]
    assert said(fifth) == ["what goes first?"]


def said(messages: list[dict[str, Any]]) -> list[str]:
    return [message["content"] for message in messages if message["role"] != "system"]
