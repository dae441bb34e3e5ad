"""Turns through the command line, against a scripted server on loopback."""

from __future__ import annotations

import json
from collections.abc import Callable

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


def test_failed_turn_is_a_turn_document_and_leaves_the_state(shell: Shell, agents: Callable[[str], None]) -> None:
    with OpenAIServer(Reply([b'{"error": {"message": "no such key"}}'], status=401, headers={"content-type": "application/json"})) as server:
        agents(server.url)
        document = shell.json("ask", "hello", "--json", code=1)

    assert (document["outcome"], document["error"]["type"], document["state"]) == ("failed", "AuthFailed", "routing")
    assert "no such key" in document["error"]["message"]
