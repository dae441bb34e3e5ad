"""Several processes in one session at once."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable

from orchestrator.testing.openai_server import OpenAIServer, Reply, reply

from .conftest import Shell


def held(text: str) -> tuple[Reply, threading.Event]:
    """An answer that ends only when the event is set."""
    go, whole = threading.Event(), reply(text)
    return Reply([*whole.writes[:1], go, *whole.writes[1:]]), go


def test_the_second_waits_and_both_turns_are_whole_and_in_order(shell: Shell, agents: Callable[[str], None]) -> None:
    first_reply, go = held("first answer")
    with OpenAIServer(first_reply, reply("second answer")) as server:
        agents(server.url)
        first = shell.start("ask", "--json", "first prompt")
        assert server.receiving.wait(30)
        second = shell.start("ask", "--stream-json", "second prompt")
        listed, shown = shell.each(["session", "list", "--json"], ["session", "show", "--json"])
        assert len(server.requests) == 1
        go.set()
        documents = [
            json.loads(process.communicate(timeout=60)[0].splitlines()[-1] if process is second else process.communicate()[0]) for process in (first, second)
        ]

    assert json.loads(listed.stdout)["sessions"][0]["in_use"] is True
    assert [turn["outcome"] for turn in json.loads(shown.stdout)["turns"]] == ["open"]
    assert [(document["turn"], document["answer"], document["outcome"]) for document in documents] == [
        (0, "first answer", "completed"),
        (1, "second answer", "completed"),
    ]
    assert "first answer" in json.dumps(server.requests[1].body["messages"])
    assert [(turn["prompt"], turn["outcome"]) for turn in shell.json("session", "show", "--json")["turns"]] == [
        ("first prompt", "completed"),
        ("second prompt", "completed"),
    ]


def test_one_that_will_not_wait_is_told_and_may_still_read(shell: Shell, agents: Callable[[str], None]) -> None:
    slow, go = held("first answer")
    with OpenAIServer(slow, reply("new answer")) as server:
        agents(server.url)
        first = shell.start("ask", "--json", "first prompt")
        assert server.receiving.wait(30)
        results = shell.each(
            ["--session-wait", "0s", "ask", "second prompt"],
            ["--session-wait", "1s", "ask", "--json", "second prompt"],
            ["--session-wait", "0s", "need", "set", "--json", "open a bakery"],
            ["session", "drop", "--json", shell.stored()["sessions"][0][1]],
            ["session", "show", "--json"],
            ["plan", "--json", "what next?"],
            ["session", "export"],
            ["need", "show", "--json"],
        )
        assert shell.run("ask", "--new", "elsewhere").stdout == "new answer\n"
        go.set()
        assert json.loads(first.communicate(timeout=60)[0])["answer"] == "first answer"

    plain, *refused = results[:4]
    assert (plain.returncode, plain.stdout, plain.stderr.count("\n")) == (4, "", 1)
    assert all(word in plain.stderr for word in ("in use by another process", "--session-wait", "--new"))
    for result in refused:
        assert result.returncode == 4
        assert json.loads(result.stdout)["error"]["type"] == "SessionInUse"
    assert [result.returncode for result in results[4:]] == [0] * 4, results
    assert json.loads(results[5].stdout)["turn"] == 1
    assert [len(shell.json("session", "show", session["id"], "--json")["turns"]) for session in shell.json("session", "list", "--json")["sessions"]] == [1, 1]


def test_four_at_once_take_their_turns(shell: Shell, agents: Callable[[str], None]) -> None:
    with OpenAIServer(*(reply(f"answer {number}") for number in range(5))) as server:
        agents(server.url)
        assert shell.run("ask", "--name", "bakery", "prompt").returncode == 0
        running = [shell.start("ask", "--json", "--name", "bakery", f"prompt {number}") for number in range(4)]
        documents = [json.loads(process.communicate(timeout=60)[0]) for process in running]

    turns = shell.json("session", "show", "bakery", "--json")["turns"]
    assert [turn["index"] for turn in turns] == list(range(5))
    assert sorted(document["turn"] for document in documents) == [1, 2, 3, 4]
    for number, document in enumerate(documents):
        assert turns[document["turn"]]["prompt"] == f"prompt {number}"
        assert turns[document["turn"]]["steps"][0]["text"] == document["answer"]
    sent = [len([message for message in request.body["messages"] if message["role"] == "assistant"]) for request in server.requests]
    assert sent == [0, 1, 2, 3, 4]


def test_the_first_turns_of_a_home_at_once_make_one_store_and_one_session(shell: Shell, agents: Callable[[str], None]) -> None:
    with OpenAIServer(*(reply("hello") for _ in range(3))) as server:
        agents(server.url)
        running = [shell.start("ask", "--json", f"prompt {number}") for number in range(3)]
        for process in running:
            out, err = process.communicate(timeout=60)
            assert (process.returncode, err, json.loads(out)["answer"]) == (0, "", "hello")

    prompts = [turn[6] for turn in shell.stored()["turns"]]
    assert sorted(prompts) == ["prompt 0", "prompt 1", "prompt 2"]
    assert len(shell.stored()["sessions"]) == 1
    assert not list((shell.home / "data").glob("*damaged*"))
