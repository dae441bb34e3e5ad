"""A plain model as a working agent: it writes and runs what it is allowed to, over HTTP and on Bedrock, and nothing else."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from orchestrator.testing.bedrock_server import BedrockServer, call, say
from orchestrator.testing.openai_server import OpenAIServer, Reply, chunk, reply, sse

from .conftest import Shell

TOOLS = {"read_file", "list_dir", "search", "write_file", "edit_file", "run"}


def calls(*tools: tuple[str, Mapping[str, Any]]) -> Reply:
    """An answer of an OpenAI-compatible model that calls tools."""
    made = [{"index": n, "id": f"c{n}", "function": {"name": name, "arguments": json.dumps(given)}} for n, (name, given) in enumerate(tools)]
    return sse(chunk({"tool_calls": made}), chunk({}, finish_reason="tool_calls"))


def results(server: OpenAIServer) -> list[str]:
    """What the tools gave the model, as it was last told."""
    return [message["content"] for message in server.requests[-1].body["messages"] if message["role"] == "tool"]


def offered(body: dict[str, Any]) -> set[str]:
    return {tool["function"]["name"] for tool in body.get("tools", ())} & TOOLS


def question_of(process: subprocess.Popen[str]) -> str:
    """The id of the next question that it waits for."""
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("waiting for an answer to question "):
            return line.split()[6].rstrip(":")
    raise AssertionError("nothing was asked")


@contextmanager
def local_model(shell: Shell, more: str = 'extra_tools = ["workspace"]') -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        shell.configure(f'primary = "local"\n[agents.local]\nprovider = "openai"\nbase_url = "{server.url}"\nmodel = "m"\n{more}\n')
        yield server


def test_a_model_writes_and_runs_once_the_user_has_answered_from_another_process_and_again_until_it_is_taken_back(shell: Shell) -> None:
    with local_model(shell) as server:
        server.add(calls(("write_file", {"path": "hello.sh", "content": "echo hello\n"}), ("run", {"command": "sh hello.sh"})), reply("done"))
        process = shell.start("ask", "--wait-questions", "--json", "make it")

        identity = question_of(process)
        assert not (shell.cwd / "hello.sh").exists()
        shown, answered = shell.each(("questions", "show", identity), ("questions", "answer", identity, "--accept", "decision=once"))
        assert "'local' wants to write a file in" in shown.stdout
        assert "    +echo hello\n" in shown.stdout
        assert answered.returncode == 0
        assert shell.run("questions", "answer", question_of(process), "--accept", "decision=always", "pattern==sh hello.sh").returncode == 0
        turn = json.loads(process.communicate(timeout=60)[0])

        assert (process.returncode, turn["outcome"], turn["answer"]) == (0, "completed", "done")
        assert (shell.cwd / "hello.sh").read_text() == "echo hello\n"
        assert results(server)[0] == "hello.sh made: +1 −0 lines"
        assert results(server)[1].endswith("]\nhello\n")

        server.add(calls(("run", {"command": "sh hello.sh"})), reply("again"))
        server.add(calls(("run", {"command": "sh hello.sh"})), reply("I could not"))
        allowed, kept, revoked, denied = shell.each(
            ("ask", "--json", "again"), ("permissions", "list", "--json"), ("permissions", "revoke", "--all", "--json"), ("ask", "--json", "once more")
        )

    assert (allowed.returncode, json.loads(allowed.stdout)["answer"]) == (0, "again")
    (permission,) = json.loads(kept.stdout)["permissions"]
    assert (permission["agent"], permission["workspace"], permission["session"], permission["effect"]) == ("local", str(shell.cwd.resolve()), None, "allow")
    assert json.loads(revoked.stdout)["permissions"] == [permission]
    assert denied.returncode == 5
    assert "wants to run a command" in json.loads(denied.stdout)["notices"][-1]
    assert "There is nobody who could be asked." in results(server)[-1]


def test_a_model_on_bedrock_is_told_why_not_and_that_nobody_answered(shell: Shell) -> None:
    with BedrockServer() as server:
        shell.configure('primary = "b"\n[agents.b]\nprovider = "bedrock"\nmodel = "m"\nregion = "us-east-1"\nextra_tools = ["write_file", "run"]\n')
        environ = {"AWS_ENDPOINT_URL_BEDROCK_RUNTIME": server.url, "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_EC2_METADATA_DISABLED": "true"}
        server.add(call("write_file", {"path": "a.txt", "content": "x"}), call("run", {"command": "touch made"}, id="tooluse_2"), say("I could not"))
        process = shell.start("--questions-ttl", "4s", "ask", "--wait-questions", "--json", "go", environ=environ)

        answered = shell.run("questions", "answer", question_of(process), "--accept", "decision=no", "because=put it into docs/")
        assert answered.returncode == 0, answered.stderr
        turn = json.loads(process.communicate(timeout=60)[0])

    assert (process.returncode, turn["outcome"]) == (0, "completed")
    told = [
        block["toolResult"]["content"][0]["text"] for message in server.requests[-1].body["messages"] for block in message["content"] if "toolResult" in block
    ]
    assert "said no to this, because:\n~~~\nput it into docs/\n~~~" in told[0]
    assert told[1].startswith("Nobody answered in time. Nobody refused either")
    assert any("the question was not answered: run touch made" in notice for notice in turn["notices"])
    assert {tool["toolSpec"]["name"] for tool in server.requests[0].body["toolConfig"]["tools"]} & TOOLS == {"write_file", "run"}
    assert list(shell.cwd.iterdir()) == []


def test_only_an_agent_whose_settings_name_them_is_offered_them_and_no_cloned_repository_can(shell: Shell) -> None:
    (shell.cwd / "escalera.toml").write_text('[agents.local]\nextra_tools = ["workspace"]\n[permissions]\nallow = ["run", "write"]\n')
    with local_model(shell, more=""):
        plan = ("plan", "--json", "go")
        before, _, trusted, after, listed, toolless = shell.each(
            plan,
            ("trust",),
            ("trust", "--yes"),
            plan,
            ("--set", 'agents.local.extra_tools=["workspce"]', *plan),
            ("--set", "limits.max_tool_iterations=0", *plan),
        )

    assert offered(json.loads(before.stdout)["delivery"]["body"]) == set()
    assert "agents.local.extra_tools" in before.stderr
    assert "permissions.allow" in before.stderr
    assert 'agents.local.extra_tools = ["workspace"]' in trusted.stdout
    assert 'permissions.allow = ["run", "write"]' in trusted.stdout
    assert offered(json.loads(after.stdout)["delivery"]["body"]) == TOOLS
    assert offered(json.loads(listed.stdout)["delivery"]["body"]) == set()
    assert "no plugin has 'workspce'; did you mean `workspace`?" in listed.stdout
    assert "agents.local.extra_tools has no effect: 'local' takes no tools" in toolless.stdout


def test_rules_of_the_settings_need_no_question_or_allow_none(shell: Shell) -> None:
    rules = 'extra_tools = ["workspace"]\n[permissions]\nallow = ["run(echo *)", "write"]\ndeny = ["write(locked/**)", "read(.env)"]'
    (shell.cwd / ".env").write_text("TOKEN=very-secret\n")
    with local_model(shell, more=rules) as server:
        server.add(
            calls(
                ("run", {"command": "echo hi"}),
                ("write_file", {"path": "a.txt", "content": "x"}),
                ("write_file", {"path": "locked/a.txt", "content": "x"}),
                ("read_file", {"path": ".env"}),
                ("search", {"pattern": "TOKEN"}),
            ),
            reply("done"),
        )
        turn = shell.json("ask", "--json", "go", code=0)

        ran, written, locked, secret, searched = results(server)
    assert turn["outcome"] == "completed"
    assert "hi\n" in ran or "There is nobody" in ran  # a rule for confined commands does not count where bubblewrap cannot be had
    assert written.startswith("a.txt made")
    assert "a rule of the user forbids this: write(locked/**)" in locked
    assert "read(.env)" in secret
    assert "very-secret" not in json.dumps(server.requests[-1].body)
    assert "nothing found" in searched
