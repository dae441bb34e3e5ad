"""The real `claude` with many turns in one process: the same to its API as with a process for each."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import replace
from pathlib import Path

import pytest
from escalera_claude_cli import processes

from orchestrator.errors import Cancelled
from orchestrator.providers import Answer, Cancel, TextDelta
from orchestrator.testing.anthropic_server import CallTool, Hang, Say

from .conftest import ID, MARKED, Outcome, collect, nobody
from .real import CLAUDE, environ_of, needs_claude, real_provider, user_text

pytestmark = needs_claude

MODEL = "claude-sonnet-4-5"


class Chat:
    """Turns of one conversation; closed, it leaves no process."""

    def __init__(self, stage, home: Path, url: str, identity: str = ID, **more) -> None:
        self.stage, self.identity = stage, identity
        self.provider = real_provider(stage, home, url, **more)

    def __enter__(self) -> Chat:
        return self

    def __exit__(self, *_: object) -> None:
        self.provider.close()
        assert not self.children

    def says(self, prompt: str, *, action: str = "resume", ask=nobody, system_text: str = "Orientation.", model: str = MODEL) -> Outcome:
        return collect(self.provider.run(self.request(prompt, action=action, system_text=system_text, model=model), cancel=Cancel(), ask=ask))

    def request(self, prompt: str, *, action: str = "resume", system_text: str = "Orientation.", model: str = MODEL):
        served = None if action == "start" else model
        return self.stage.request(prompt, id=self.identity, action=action, system_text=system_text, model=served, context_block=f"[context of {prompt}]")

    @property
    def children(self) -> set[processes.Process]:
        return processes.marked({"_ESCALERA_EXTERNAL_SESSION": self.identity})


@pytest.fixture
def chat(stage, tmp_path):
    return lambda server, **more: Chat(stage, tmp_path / "home", server.url, **{"long_lived": True, "environ": {"ANTHROPIC_MODEL": MODEL}, **more})


def told(server) -> list[dict]:
    """What reached the model, but for the id of the conversation."""
    return [{key: value for key, value in request.body.items() if key != "metadata"} for request in server.messages]


def test_three_turns_in_one_process_are_the_same_to_the_model_as_in_three(chat, serve):
    turns = (("one", "start"), ("two", "resume"), ("three", "resume"))
    steps = (Say("First."), CallTool("Bash", {"command": "echo seen", "description": "x"}), Say("Second."), Say("Third."))
    warm, cold = serve(*steps), serve(*steps)
    children = set()
    with chat(warm, allowed_tools=("Bash(echo:*)",)) as talk:
        kept = []
        for prompt, action in turns:
            kept.append(talk.says(prompt, action=action))
            children |= talk.children
    with chat(cold, allowed_tools=("Bash(echo:*)",), identity=str(uuid.uuid4()), long_lived=False) as talk:
        fresh = [talk.says(prompt, action=action) for prompt, action in turns]
        assert not talk.children

    assert len(children) == 1
    assert [outcome.texts for outcome in kept] == [["First."], ["Second."], ["Third."]]
    assert [outcome.texts for outcome in fresh] == [outcome.texts for outcome in kept]
    for outcomes in (kept, fresh):
        assert [outcome.usage.cost_usd for outcome in outcomes] == pytest.approx([0.00033, 0.00066, 0.00033])
        assert [(outcome.usage.input_tokens, outcome.usage.output_tokens) for outcome in outcomes] == [(10, 20), (20, 40), (10, 20)]
    assert [outcome.finished for outcome in fresh] == [outcome.finished for outcome in kept]
    one, other = told(warm), told(cold)
    assert [body["system"] for body in one] == [body["system"] for body in other]
    assert [body["messages"] for body in one] == [body["messages"] for body in other]
    assert one == other


@pytest.mark.parametrize(
    ("named", "long_lived"),
    [("", True), ("", False), ("claude-opus-4-8[1m]", True)],
    ids=["its own default in one process", "its own default in a process each", "a variant in one process"],
)
def test_a_conversation_goes_on_with_the_variant_of_the_model_that_it_began_with(chat, serve, named, long_lived):
    """The message names the model without the variant that the program asked for: named so, it would have a smaller window."""
    server = serve(Say("First."), Say("Second."))
    with chat(server, environ={"ANTHROPIC_MODEL": named}, long_lived=long_lived) as talk:
        first = talk.says("one", action="start")
        before = talk.children
        second = talk.says("two", model=first.model)
        assert talk.children == before

    assert second.texts == ["Second."]
    assert second.model == first.model
    one, two = server.messages
    assert one.body["model"] == two.body["model"] == first.finished.model_served == second.finished.model_served
    assert {name: value for name, value in one.headers.items() if "beta" in name} == {name: value for name, value in two.headers.items() if "beta" in name}
    assert first.model.startswith(named)


def test_cancelled_in_the_middle_the_conversation_goes_on(chat, serve):
    server, cancel = serve(Say("First."), Hang("half an ans"), Say("Third.")), Cancel()
    with chat(server) as talk:
        talk.says("one", action="start")
        events = talk.provider.run(talk.request("two"), cancel=cancel, ask=nobody)
        while not isinstance(next(events), TextDelta):
            pass
        began = time.monotonic()
        cancel.set()
        with pytest.raises(Cancelled) as cancelled:
            list(events)
        assert time.monotonic() - began < 6
        assert cancelled.value.partial.startswith("half")
        assert not talk.children

        assert talk.says("three").texts == ["Third."]

    assert user_text(server.messages[-1].body) == "[context of three]\n\nthree"
    assert "First." in str(server.messages[-1].body["messages"])


def test_killed_between_turns_the_conversation_goes_on(chat, serve, tmp_path):
    server = serve(Say("First."), Say("Second."))
    with chat(server) as talk:
        talk.says("one", action="start")
        (child,) = talk.children
        while not any("First." in path.read_text() for path in (tmp_path / "home").rglob(f"{ID}.jsonl")):  # it writes a little later than it speaks
            time.sleep(0.01)
        os.kill(child.pid, signal.SIGKILL)

        assert talk.says("two").texts == ["Second."]

        assert talk.children
        assert child not in talk.children
    assert "First." in str(server.messages[-1].body["messages"])


def test_other_system_text_reaches_the_model_through_another_child(chat, serve):
    server = serve(Say("First."), Say("Second."))
    with chat(server) as talk:
        talk.says("one", action="start")
        before = talk.children

        assert talk.says("two", system_text="Orientation, changed.").texts == ["Second."]

        assert not before & talk.children
    assert server.messages[-1].body["system"][-1]["text"].endswith("Orientation, changed.")


def test_leave_of_one_turn_is_none_in_the_next(chat, serve, stage):
    touch = CallTool("Bash", {"command": "touch made.txt", "description": "x"})
    server, asked = serve(touch, Say("Made."), touch, Say("Not made.")), []

    def ask(question):
        asked.append(question)
        return Answer("accept" if len(asked) == 1 else "decline")

    with chat(server) as talk:
        assert talk.says("one", action="start", ask=ask).texts == ["Made."]
        before = talk.children
        (stage.workspace / "made.txt").unlink()
        second = talk.says("two", ask=ask)
        assert talk.children == before

    assert len(asked) == 2
    assert second.texts == ["Not made."]
    assert second.notices.count("denied") == 1
    assert not (stage.workspace / "made.txt").exists()


OURS = """
import os, sys, time
from escalera_claude_cli.options import ClaudeOptions
from escalera_claude_cli.provider import ClaudeProvider
from orchestrator.messages import Message, Text
from orchestrator.providers import AgentContext, Cancel, Conversation, Request
program, workspace, identity = sys.argv[1:]
provider = ClaudeProvider(ClaudeOptions(bin=program), AgentContext("claude", workspace, os.environ, (), True))
request = Request("claude", (), (Message("user", (Text("one"),)),), conversation=Conversation("start", identity, "You.", "[context]"), workspace=workspace)
list(provider.run(request, cancel=Cancel(), ask=lambda question: None))
print("ready", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_child_that_waits_goes_by_itself_when_we_are_killed(serve, stage, tmp_path, number):
    environ = {**os.environ, **environ_of(tmp_path / "home", serve(Say("First.")).url), "TMPDIR": str(tmp_path)}
    ours = subprocess.Popen([sys.executable, "-c", OURS, CLAUDE, str(stage.workspace), ID], stdout=subprocess.PIPE, env=environ)
    assert ours.stdout.readline() == b"ready\n"
    assert processes.marked(MARKED)

    ours.send_signal(number)
    ours.wait(10)
    ours.stdout.close()

    deadline = time.monotonic() + 5
    while processes.marked(MARKED) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not processes.marked(MARKED)


def test_hooks_and_servers_of_the_workspace_do_not_start_before_they_are_accepted_and_do_after(chat, serve, stage, tmp_path):
    """`.mcp.json` also counts in folders above; with `--print` Claude Code asks nobody whether the workspace is trusted."""
    server, marks = serve(*(Say(f"{number}.") for number in range(4))), tmp_path / "ran"
    hook = {"hooks": [{"type": "command", "command": f"echo hook >> {marks}"}]}
    (stage.workspace / ".claude").mkdir()
    (stage.workspace / ".claude" / "settings.json").write_text(json.dumps({"hooks": {"UserPromptSubmit": [hook]}}))
    servers = {"mcpServers": {"evil": {"command": "sh", "args": ["-c", f"echo server >> {marks}; cat > /dev/null"]}}}
    (stage.workspace.parent / ".mcp.json").write_text(json.dumps(servers))

    def says(prompt: str, action: str, *unaccepted: str) -> list[str]:
        list(talk.provider.run(replace(talk.request(prompt, action=action), unaccepted=unaccepted), cancel=Cancel(), ask=nobody))
        return sorted(marks.read_text().split()) if marks.exists() else []

    with chat(server) as talk:
        before = [says("one", "start", ".mcp.json"), says("two", "resume", ".mcp.json")]
        after = says("three", "resume")
        marks.unlink()
        again = says("four", "resume", ".mcp.json")

    assert before == [[], []]
    assert after == ["hook", "server"]
    assert again == []
