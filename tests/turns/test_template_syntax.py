"""T102 and T103 in whole turns: only template files are rendered; whatever else has braces in it reaches the agent as it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.messages import Text, ToolCall, ToolResult
from orchestrator.planning.case import Additions
from orchestrator.providers import Request
from orchestrator.testing.fake_provider import FakeProvider, calls, says

from ..conftest import OWN, TOOLS, Scene
from ..sites import Site

TRIALS = Path(__file__).parent.parent / "trials"
TEXTS: list[str] = json.loads((TRIALS / "T102.json").read_text("utf-8"))["texts"]
T103 = json.loads((TRIALS / "T103.json").read_text("utf-8"))

TOOL = """
from orchestrator.hookspecs import hookimpl
from orchestrator.providers import ToolSchema
from orchestrator.tools import Tool
@hookimpl
def escalera_tools():
    return [Tool(ToolSchema("x", "y", {{"type": "object"}}), lambda arguments, context: {text!r})]
@hookimpl
def escalera_context():
    return {text!r}
"""


@pytest.mark.trial("T102")
@pytest.mark.parametrize("text", TEXTS)
def test_t102_template_syntax_reaches_the_agent_unchanged_from_every_place(scene: Scene, site: Site, tmp_path: Path, text: str) -> None:
    (tmp_path / "prompt.md").write_text(text)
    local = FakeProvider(calls(ToolCall("c1", "x", {"q": text})), says(text), says("ok"), capabilities=TOOLS)
    strong = FakeProvider(says("ok"), capabilities=OWN)
    site.install("acme", TOOL.format(text=text))
    scene.additions = Additions(site.hooks(), project_instructions=text)
    scene.config = 'prompt_file = "prompt.md"\n'
    scene.cast(strong=strong, local=local)
    scene.remember(text, core=True)
    scene.save(name=text)

    scene.ask(text)
    scene.ask("and?")
    scene.ask("and?", escalate=True, reason=text)

    static, orientation, percepts = local.requests[0].system
    assert static.text.endswith(f"\n\n{text}"), "the agent's prompt file"
    assert f"~~~\n{text}\n~~~" in static.text, "the project's instructions"
    assert f"~~~\n{text}\n~~~" in orientation.text, "a plugin's text"
    assert text in percepts.text, "a remembered fact"
    assert local.requests[0].messages[-1].parts == (Text(text),), "the prompt"
    assert ToolResult("c1", text) in list(_parts(local.requests[1])), "a tool's result"
    assert {Text(text), ToolResult("c1", text)} <= {part for part in _parts(local.requests[2]) if not isinstance(part, ToolCall)}, "the history"
    assert [part.arguments for part in _parts(local.requests[2]) if isinstance(part, ToolCall)] == [{"q": text}]
    conversation = strong.requests[0].conversation
    assert conversation is not None
    assert f"## Why you have this turn\nIn the user's own words:\n~~~\n{text}\n~~~" in conversation.system_text, "the brief"
    for request in (*local.requests, *strong.requests):
        assert "49" not in repr(request)
        assert "xxx" not in repr(request)


@pytest.mark.trial("T103")
def test_t103_a_prompt_file_is_no_template_and_its_braces_stay(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "prompt.md").write_text(T103["prompt_file"])
    local = FakeProvider(says("ok"))
    scene.config = 'prompt_file = "prompt.md"\n'
    scene.cast(strong=FakeProvider(), local=local)

    scene.ask()

    assert local.requests[0].system[0].text.endswith(T103["prompt_file"])


def _parts(request: Request) -> Iterator[object]:
    return (part for message in request.messages for part in message.parts)
