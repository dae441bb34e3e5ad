"""A plugin with every hook, as the program finds and uses it from outside."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.dispatch.own_tools import OWN_SCHEMAS
from orchestrator.testing.openai_server import OpenAIServer, chunk, reply, sse

from ..sites import Site
from .conftest import Shell

CODE = """
from pathlib import Path
from orchestrator.hookspecs import Signal, hookimpl
from orchestrator.providers import ToolSchema
from orchestrator.tools import Tool

HERE = Path(__file__).parent
print("noise of a module")

def note(*parts):
    print("noise of a hook")
    with open(HERE / "seen", "a") as file:
        print(*parts, file=file)

@hookimpl
def escalera_template_folders():
    return [HERE / "texts"]

@hookimpl
def escalera_routing_signals(prompt):
    return [Signal("hard", 0.6, "it says so")] if "hard" in prompt else None

@hookimpl
def escalera_tools(agent, workspace):
    return [Tool(ToolSchema("list_files", "The files of the workspace.", {"type": "object", "properties": {}}), files)]

def files(arguments, context):
    print("noise of a tool")
    return " ".join(sorted(path.name for path in Path(context.workspace).iterdir()))

@hookimpl
def escalera_context(agent):
    return f"{agent} sits by the window"

@hookimpl
def escalera_count_tokens(text):
    return 1234

@hookimpl
def escalera_turn_started(turn):
    note("started", turn.index, turn.agent)

@hookimpl
def escalera_turn_ended(turn):
    note("ended", turn.index, turn.outcome.value, turn.answer)
"""


@pytest.fixture
def acme(shell: Shell, tmp_path: Path) -> Callable[[str], Shell]:
    def install(code: str) -> Shell:
        folder = tmp_path / "plugins"
        (folder / "texts").mkdir(parents=True)
        (folder / "texts" / "contributed.jinja").write_text("{{ plugin }} says: {{ text }}")
        Site(folder).install("acme", code)
        return replace(shell, more={"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"})

    return install


def test_every_hook_is_used(acme: Callable[[str], Shell], agents: Callable[[str], None], tmp_path: Path) -> None:
    with OpenAIServer() as server:
        agents(server.url, "[routing]\nthreshold = 1\nfactors = ['hard=2']\n")
        shell = acme(CODE)
        (shell.cwd / "one.txt").write_text("")
        call = {"index": 0, "id": "c1", "function": {"name": "list_files", "arguments": "{}"}}
        server.add(sse(chunk({"tool_calls": [call]}), chunk({}, finish_reason="tool_calls")), reply("one file"))

        plan = shell.json("plan", "a hard one", "--json")
        turn = shell.json("ask", "a hard one", "--json")

    assert (turn["agent"], turn["answer"]) == ("strong", "one file")
    assert plan["routing"] == [{"rule": "rules", "detail": "signals weigh 1.2, and 1 is enough: hard +1.2 (acme, it says so)"}]
    assert (plan["budget"]["tokens_estimate"], plan["budget"]["tokens_counted_by"]) == (1234, "plugin acme (acme 1.0)")
    (orientation,) = [block["text"] for block in plan["system"] if block["name"] == "orientation"]
    assert orientation.endswith("acme says: ~~~\nstrong sits by the window\n~~~")
    first, second = (request.body for request in server.requests if request.body)
    assert [tool["function"]["name"] for tool in first["tools"]] == ["current_need", "record_memory", *(own.name for own in OWN_SCHEMAS), "list_files"]
    assert second["messages"][-1]["content"] == "one.txt"
    assert (tmp_path / "plugins" / "seen").read_text() == "started 0 strong\nended 0 completed one file\n"


def test_the_list_names_hooks_and_what_they_give_wrongly(acme: Callable[[str], Shell], agents: Callable[[str], None]) -> None:
    agents("http://127.0.0.1:9/v1")
    shell = acme(CODE.replace('"list_files"', '"list files"').replace('HERE / "texts"', 'HERE / "gone"'))

    text = shell.run("plugins", "list")
    (found,) = [plugin for plugin in shell.json("plugins", "list", "--json")["plugins"] if plugin["name"] == "acme"]

    problems = [line.strip() for line in text.stdout.splitlines() if line.startswith("  problem: ")]
    assert (found["loaded"], found["problem"], found["kinds"]) == (True, None, [])
    assert "escalera_turn_ended" in found["hooks"]
    assert [f"problem: {problem}" for problem in found["hook_problems"]] == problems
    assert "which is no folder" in problems[0]
    assert "a tool whose name is not made of" in problems[1]
    assert len(problems) == 2
    assert "acme  acme 1.0  hooks: escalera_context, " in text.stdout


def test_what_a_hook_breaks_is_said_on_stderr_and_in_the_turn_document(acme: Callable[[str], Shell], agents: Callable[[str], None]) -> None:
    with OpenAIServer() as server:
        agents(server.url)
        shell = acme(CODE.replace('return f"{agent} sits by the window"', "raise ValueError('sk-secret')"))
        server.add(reply("fine"), reply("fine"))

        turn = shell.run("ask", "hello", "--json")
        read = shell.run("ask", "hello")

    assert (turn.returncode, read.returncode, read.stdout.strip()) == (0, 0, "fine")
    (notice,) = [notice for notice in json.loads(turn.stdout)["notices"] if notice.startswith("plugin ")]
    assert notice.startswith("plugin acme (acme 1.0): escalera_context broke: ValueError in acme.py, line ")
    assert read.stderr.count(notice) == 1
    assert "sk-secret" not in turn.stderr + turn.stdout + read.stderr


def test_factors_that_are_none_are_refused_with_their_source(shell: Shell, agents: Callable[[str], None]) -> None:
    agents("http://127.0.0.1:9/v1", "[routing]\nfactors = ['hard:2']\n")

    refused = shell.run("plan", "x")

    assert refused.returncode == 2
    assert "routing.factors (file:" in refused.stderr
    assert "'hard:2' is not usable; expected NAME=FACTOR" in refused.stderr


def test_templates_are_listed_shown_and_compared(acme: Callable[[str], Shell], agents: Callable[[str], None]) -> None:
    agents("http://127.0.0.1:9/v1")
    shell = acme(CODE)
    own, theirs = shell.home / "config" / "templates", shell.cwd / ".escalera" / "templates"
    for folder, name, text in ((own, "brief", "Mine: {{ brief }}"), (theirs, "brief", "Theirs: {{ brief }}"), (theirs, "contributed", "Theirs: {{ text }}")):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.jinja").write_text(text)

    before = shell.run("templates", "list").stdout.splitlines()
    shell.run("trust", "--yes")
    found = {one["name"]: one for one in shell.json("templates", "list", "--json")["templates"]}
    changed, same = shell.run("templates", "diff", "brief").stdout.splitlines(), shell.run("templates", "diff", "need")

    assert any(line.startswith("contributed  plugin acme: ") for line in before)
    assert (found["contributed"]["origin"], [one["origin"] for one in found["contributed"]["ignored"]]) == ("project", ["plugin"])
    assert (found["brief"]["origin"], [(one["origin"], one["problem"]) for one in found["brief"]["ignored"]]) == ("user", [("project", None)])
    assert found["not_shown"]["values"] == ["batches", "count"]
    assert shell.run("templates", "show", "brief.jinja").stdout == "Mine: {{ brief }}\n"
    assert changed[0] == "--- built-in brief"
    assert changed[-1] == "+Mine: {{ brief }}"
    assert (same.stdout, same.returncode) == ("", 0)
    unknown = shell.run("templates", "show", "breif")
    assert (unknown.returncode, "did you mean `brief`" in unknown.stderr) == (2, True)


@pytest.mark.trial("T103")
def test_t103_a_broken_override_is_one_notice_and_no_turn_is_lost(shell: Shell, agents: Callable[[str], None]) -> None:
    with OpenAIServer() as server:
        agents(server.url)
        own = shell.home / "config" / "templates"
        own.mkdir(parents=True)
        (own / "identity.jinja").write_text('You are {agent}.\nAnswer as {"value": "..."}. Literal {{x}} and { alone.')
        server.add(reply("fine"))

        turn = shell.run("ask", "hello")

    assert (turn.returncode, turn.stdout.strip()) == (0, "fine")
    (line,) = [line for line in turn.stderr.splitlines() if "identity.jinja" in line]
    assert f"template {own / 'identity.jinja'}, line 2" in line
    assert "'x' is not given; known are agent, others, role" in line
    assert "You are local, the primary agent" in json.dumps(server.requests[0].body)
