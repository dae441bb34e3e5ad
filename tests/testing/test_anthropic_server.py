"""The stand-in for the Messages API answers as scripted and keeps what it was sent."""

from __future__ import annotations

import http.client
import json
import threading
import urllib.error
import urllib.request

import pytest

from orchestrator.testing.anthropic_server import AnthropicServer, Break, CallTool, Fail, Foreign, Hang, Say


def post(server: AnthropicServer, path: str = "/v1/messages", **body: object) -> bytes:
    request = urllib.request.Request(server.url + path, json.dumps(body).encode(), {"content-type": "application/json"})  # noqa: S310 -- loopback
    with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310 -- loopback
        return response.read()


def events(data: bytes) -> list[dict[str, object]]:
    return [json.loads(line[6:]) for line in data.decode().splitlines() if line.startswith("data: ")]


def test_steps_answer_messages_in_turn_and_nothing_else():
    with AnthropicServer([Say("one"), CallTool("Bash", {"command": "ls"}, text="look")]) as server:
        post(server, "/v1/messages/count_tokens")
        first, second, third = (json.loads(post(server, model="m", messages=[])) for _ in range(3))

    assert first["content"] == [{"type": "text", "text": "one"}]
    assert [block["type"] for block in second["content"]] == ["text", "tool_use"]
    assert (second["stop_reason"], second["model"]) == ("tool_use", "m")
    assert third["content"][0]["text"] == "ok"
    assert [request.path for request in server.requests] == ["/v1/messages/count_tokens", *["/v1/messages"] * 3]


def test_stream_adds_up_to_the_answer():
    with AnthropicServer([CallTool("Bash", {"command": "ls"}, text="let me look")]) as server:
        told = events(post(server, stream=True))

    deltas = [event["delta"] for event in told if event["type"] == "content_block_delta"]
    assert "".join(delta.get("text", "") for delta in deltas) == "let me look"
    assert json.loads("".join(delta.get("partial_json", "") for delta in deltas)) == {"command": "ls"}
    assert told[-1] == {"type": "message_stop"}


def test_broken_stream_has_no_end():
    with AnthropicServer([Break("half")]) as server:
        told = events(post(server, stream=True))

    assert told[-1]["type"] == "content_block_delta"


def test_broken_document_has_no_end():
    with AnthropicServer([Break("half"), Say("whole")]) as server:
        with pytest.raises(http.client.IncompleteRead) as caught:
            post(server)
        again = json.loads(post(server))

    assert b'"text": "half"' in caught.value.partial
    assert again["content"][0]["text"] == "whole"


def test_document_that_hangs_comes_no_further_until_the_server_closes():
    server = AnthropicServer([Hang("half")])
    server.start()
    parts: list[bytes] = []

    def ask() -> None:
        with pytest.raises(http.client.IncompleteRead) as caught:
            post(server)
        parts.append(caught.value.partial)

    client = threading.Thread(target=ask)
    client.start()
    assert server.wait_for_messages(1, 10)
    server.close()
    client.join(10)

    assert b'"text": "half"' in parts[0]


def test_failure_has_the_form_of_the_api():
    with AnthropicServer([Fail(429, "rate_limit_error", "slow down", {"retry-after": "7"})]) as server:
        with pytest.raises(urllib.error.HTTPError) as caught:
            post(server)
        body = json.loads(caught.value.read())

    assert (caught.value.code, caught.value.headers["retry-after"]) == (429, "7")
    assert body == {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}


def test_close_lets_go_of_what_hangs():
    server = AnthropicServer([Hang()])
    server.start()

    def ask() -> None:
        with pytest.raises(OSError):  # noqa: PT011 -- which of the ways to lose a connection does not matter
            post(server, stream=True)

    client = threading.Thread(target=ask)
    client.start()
    assert server.wait_for_messages(1, 10)

    server.close()
    client.join(10)

    assert not client.is_alive()


def test_broken_stream_may_have_a_whole_block_before():
    with AnthropicServer([Break("half", whole="all of it")]) as server:
        told = events(post(server, stream=True))

    assert [event["index"] for event in told if event["type"] == "content_block_stop"] == [0]
    assert (told[-1]["type"], told[-1]["index"]) == ("content_block_delta", 1)


def test_foreign_answer_is_sent_as_it_is():
    with AnthropicServer([Foreign("<html>log in</html>")]) as server:
        assert post(server, stream=True) == b"<html>log in</html>"
