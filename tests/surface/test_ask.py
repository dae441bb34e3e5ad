"""Turns through the command line, against a scripted server on loopback."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from orchestrator.testing.openai_server import OpenAIServer, Reply, reply

from .conftest import Shell


def test_reply_to_a_question_resumes_with_the_agent_that_asked(shell: Shell, agents: Callable[[str], None]) -> None:
    with OpenAIServer(reply("Which colour?"), reply("Blue it is.")) as server:
        agents(server.url)
        first = shell.json("ask", "--escalate", "paint it", "--json")
        second = shell.json("ask", "blue", "--json")

    assert (first["mode"], first["state"]) == ("first", "waiting")
    assert (second["agent"], second["mode"], second["state"]) == ("strong", "resume", "routing")
    assert "Which colour?" in json.dumps(server.requests[1].body["messages"])


def test_the_budget_follows_what_the_provider_counts(shell: Shell, agents: Callable[[str], None]) -> None:
    with OpenAIServer(reply("Hi.", usage=(100, 2)), reply("Hi.", usage=(1000, 2))) as server:
        agents(server.url)
        window = ("--limits-context-window-tokens", "8000")
        before = shell.json(*window, "plan", "hello", "--json")["budget"]
        shell.json(*window, "ask", "hello " * 300, "--json")
        sent = sum(len(message["content"]) for message in server.requests[0].body["messages"])
        implausible = shell.json(*window, "plan", "hello", "--json")["budget"]
        shell.json(*window, "ask", "hello", "--json")
        after = shell.json(*window, "plan", "hello", "--json")["budget"]

    assert sent > 600, "a hundred tokens cannot be all of it"
    assert (before["limit_chars"], before["chars_per_token_measured"]) == (18_000, False)
    assert (implausible["limit_chars"], implausible["chars_per_token_measured"]) == (18_000, False)
    assert after["chars_per_token_measured"]
    assert after["limit_chars"] == int(len("helloHi.") + implausible["total_chars"] / 1000 * (6000 - 3))


def test_a_history_that_the_server_finds_too_long_is_fitted_to_what_it_takes(shell: Shell, agents: Callable[[str], None]) -> None:
    refusal = {"error": {"code": 400, "type": "exceed_context_size_error", "message": "too long", "n_prompt_tokens": 3000, "n_ctx": 1500}}
    overflow = Reply([json.dumps(refusal).encode()], status=400, headers={"content-type": "application/json"})
    with OpenAIServer(reply("a" * 4000), reply("b" * 4000), overflow, reply("Fine.")) as server:
        agents(server.url)
        shell.json("ask", "one", "--json")
        shell.json("ask", "two", "--json")
        document = shell.json("ask", "three", "--json")

    sizes = [sum(len(message["content"]) for message in request.body["messages"]) for request in server.requests]
    assert (document["outcome"], document["answer"], len(sizes)) == ("completed", "Fine.", 4)
    assert sizes[3] < sizes[2] / 2
    assert "context_window_tokens = 1500" in " ".join(document["notices"])


def test_new_never_goes_on_in_a_session_that_has_the_name(shell: Shell, agents: Callable[[str], None]) -> None:
    with OpenAIServer(reply("One."), reply("never")) as server:
        agents(server.url)
        shell.json("ask", "--name", "bakery", "first", "--json")
        result = shell.run("ask", "--new", "--name", "bakery", "second")

        assert (result.returncode, len(server.requests)) == (2, 1)
        assert "'bakery' is the name of session" in result.stderr


def test_a_reason_is_as_long_as_one_by_tag_at_most(shell: Shell, agents: Callable[[str], None]) -> None:
    agents("http://127.0.0.1:9")
    result = shell.run("ask", "--escalate", "--reason", "y" * 4001, "go")

    assert (result.returncode, "--reason has at most 4,000 characters" in result.stderr) == (2, True)


def test_failed_turn_is_a_turn_document_and_leaves_the_state(shell: Shell, agents: Callable[[str], None]) -> None:
    with OpenAIServer(Reply([b'{"error": {"message": "no such key"}}'], status=401, headers={"content-type": "application/json"})) as server:
        agents(server.url)
        document = shell.json("ask", "hello", "--json", code=1)

    assert (document["outcome"], document["error"]["type"], document["state"]) == ("failed", "AuthFailed", "routing")
    assert "no such key" in document["error"]["message"]


def test_files_go_with_the_prompt_under_their_names(shell: Shell, agents: Callable[[str], None]) -> None:
    (shell.cwd / "notes.md").write_text("\ufeffBuy ~~~~ flour.\n", encoding="utf-8")
    (shell.cwd / "empty.txt").touch()
    with OpenAIServer(reply("Done.")) as server:
        agents(server.url)
        shell.json("ask", "--json", "--file", "notes.md", "--file", "empty.txt", "what is missing?")

    notes, empty = (hashlib.sha256((shell.cwd / name).read_bytes()).hexdigest()[:16] for name in ("notes.md", "empty.txt"))
    assert server.requests[0].body["messages"][-1]["content"] == (
        f"what is missing?\n\nFile notes.md (19 bytes, sha256 {notes}):\n~~~~~\nBuy ~~~~ flour.\n~~~~~\n\nFile empty.txt (0 bytes, sha256 {empty}):\n(empty)"
    )


def test_in_later_turns_a_file_is_only_named_and_its_text_stays_with_its_turn(shell: Shell, agents: Callable[[str], None]) -> None:
    (shell.cwd / "notes.md").write_text("flour " * 2000, encoding="utf-8")
    with OpenAIServer(reply("Noted."), reply("Salt."), reply("Pepper.")) as server:
        agents(server.url)
        first = shell.json("ask", "--json", "--file", "notes.md", "read this")
        planned = shell.json("plan", "--json", "and now?")
        shell.json("ask", "--json", "and now?")
        shell.json("ask", "--escalate", "--json", "which one?")

    assert "flour flour" in server.requests[0].body["messages"][-1]["content"]
    for request in server.requests[1:]:
        assert "flour" not in json.dumps(request.body)
        assert "(The file notes.md, 12,000 bytes, sha256 " in json.dumps(request.body)
    assert planned["budget"]["parts"]["history"] < 1000
    turn = shell.json("session", "show", first["session"], "--json")["turns"][0]
    assert "flour flour" in turn["prompt"]
    exported = shell.run("session", "export").stdout
    assert "flour flour" in exported
    imported = shell.cwd / "imported.json"
    imported.write_text(json.dumps(json.loads(exported) | {"id": "imported"}))
    assert "flour" not in json.dumps(shell.json("plan", "--session-file", str(imported), "--json", "and now?")["history"]["messages"])


def test_what_is_piped_in_can_go_with_a_prompt(shell: Shell, agents: Callable[[str], None]) -> None:
    with OpenAIServer(reply("A tab.")) as server:
        agents(server.url)
        piped = shell.run("ask", "--file", "-", "why does it fail?", stdin="Makefile:3: missing separator\n")
        bare = shell.run("ask", "--file", "-", stdin="text")

    assert piped.returncode == 0
    sent = server.requests[0].body["messages"][-1]["content"]
    assert sent.startswith("why does it fail?\n\nFile standard input (30 bytes, sha256 ")
    assert sent.endswith("~~~\nMakefile:3: missing separator\n~~~")
    assert (bare.returncode, "the prompt has to be given" in bare.stderr) == (2, True)


def test_a_file_is_no_part_of_what_the_user_said(shell: Shell, agents: Callable[[str], None]) -> None:
    (shell.cwd / "notes.md").write_text("flour", encoding="utf-8")
    agents("http://127.0.0.1:9/v1")

    plan = shell.json("plan", "--escalate", "--file", "notes.md", "--json", "read this")

    orientation = next(block["text"] for block in plan["system"] if block["name"] == "orientation")
    assert "read this" in orientation
    assert "flour" not in orientation
    assert plan["budget"]["parts"]["prompt"] > len("read this")


@pytest.mark.parametrize(
    ("content", "said"), [(None, "cannot attach notes.md: No such file"), (b"caf\xe9", "is no UTF-8 text (byte 3)"), (b"a\0b", "holds a NUL character")]
)
def test_file_that_is_no_text_is_refused_before_anything_is_sent(shell: Shell, content: bytes | None, said: str) -> None:
    if content is not None:
        (shell.cwd / "notes.md").write_bytes(content)

    result = shell.run("ask", "--file", "notes.md", "what is missing?")

    assert (result.returncode, result.stdout) == (2, "")
    assert said in result.stderr
    assert not shell.home.exists()


def test_plan_without_a_prompt_shows_an_example(shell: Shell) -> None:
    assert shell.json("plan", "--json")["history"]["messages"][-1]["role"] == "user"


def test_a_session_of_another_directory_brings_that_directorys_project_file(shell: Shell, agents: Callable[[str], None]) -> None:
    with OpenAIServer(reply("One."), reply("Two."), reply("Three.")) as server:
        agents(server.url)
        there = replace(shell, cwd=shell.cwd.parent / "there")
        there.cwd.mkdir()
        (there.cwd / "escalera.toml").write_text("[limits]\nreturning_fresh_start_local_turns = 1\n")
        session = there.json("ask", "--escalate", "one", "--json")["session"]
        there.json("ask", "--primary", "two", "--json")
        planned = [place.json("plan", "--escalate", "--session", session, "three", "--json")["mode"] for place in (there, shell)]
        taken = shell.json("ask", "--escalate", "--session", session, "three", "--json")["mode"]

    assert (planned, taken) == (["fresh_start", "fresh_start"], "fresh_start")
