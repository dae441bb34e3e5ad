"""The stand-in for the Bedrock runtime: its frames to the byte, its script, and what it keeps."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request

import pytest
from botocore.eventstream import EventStreamBuffer

from orchestrator.testing.bedrock_server import BedrockServer, Reply, call, cut_at, error_frame, fail, frame, frame_of, say, split, stream

PATH = "/model/us.vendor.model-v1%3A0/converse-stream"


def post(server: BedrockServer, path: str = PATH, **body: object) -> bytes:
    request = urllib.request.Request(server.url + path, json.dumps(body).encode(), {"content-type": "application/json"})  # noqa: S310 -- loopback
    with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310 -- loopback
        return response.read()


def events(data: bytes) -> list[tuple[str, dict[str, object]]]:
    """Frames as the AWS library reads them, which checks every length and checksum."""
    buffer = EventStreamBuffer()
    buffer.add_data(data)
    return [(message.headers.get(":event-type") or message.headers[":exception-type"], json.loads(message.payload)) for message in buffer]


def test_frames_are_those_of_the_published_test_vectors():
    assert frame({}).hex() == "000000100000000005c248eb7d98c8ff"
    assert frame({}, b"{'foo':'bar'}").hex() == "0000001d00000000fd528c5a7b27666f6f273a27626172277dc3653936"
    assert frame({"content-type": "application/json"}, b"{'foo':'bar'}").hex() == (
        "0000003d0000002007fd83960c636f6e74656e742d747970650700106170706c69636174696f6e2f6a736f6e7b27666f6f273a27626172277d8d9c08b1"
    )


def test_an_answer_is_read_back_by_the_aws_library():
    told = events(say("two words", usage={"inputTokens": 3, "outputTokens": 2}).content)

    assert [name for name, _ in told] == [
        "messageStart", "contentBlockDelta", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata",
    ]  # fmt: skip
    assert [content["delta"] for name, content in told if name == "contentBlockDelta"] == [{"text": "two "}, {"text": "words"}]
    assert told[-1][1]["usage"] == {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5}


def test_exceptions_and_unmodelled_errors_are_marked_as_such():
    buffer = EventStreamBuffer()
    buffer.add_data(frame_of({"throttlingException": {"message": "slow down"}}) + error_frame("InternalError", "sorry"))
    exception, error = buffer

    assert (exception.headers[":message-type"], exception.headers[":exception-type"]) == ("exception", "throttlingException")
    assert (error.headers[":message-type"], error.headers[":error-code"], error.payload) == ("error", "InternalError", b"")


def test_requests_take_the_script_in_turn_and_are_kept():
    with BedrockServer(say("one"), fail(429, "ThrottlingException", "wait", headers={"retry-after": "3"})) as server:
        first = events(post(server, messages=[]))
        with pytest.raises(urllib.error.HTTPError) as refused:
            post(server)
        with pytest.raises(urllib.error.HTTPError) as over:
            post(server)

    assert first[1][1]["delta"] == {"text": "one"}
    assert (refused.value.code, refused.value.headers["x-amzn-errortype"], refused.value.headers["retry-after"]) == (429, "ThrottlingException", "3")
    assert over.value.code == 418
    assert (server.requests[0].model, server.requests[0].body, server.requests[0].streams) == ("us.vendor.model-v1:0", {"messages": []}, True)


def test_the_same_answer_comes_in_one_document_where_no_stream_is_asked_for():
    with BedrockServer(call("look", {"at": "it"}, id="t1", text="let me")) as server:
        document = json.loads(post(server, PATH.removesuffix("-stream")))

    assert document["output"]["message"]["content"] == [{"text": "let me"}, {"toolUse": {"toolUseId": "t1", "name": "look", "input": {"at": "it"}}}]
    assert (document["stopReason"], document["usage"]["inputTokens"]) == ("tool_use", 10)


def test_bytes_can_be_split_and_cut_anywhere():
    whole = say("hello")

    with BedrockServer(split(whole, 7), cut_at(whole, 33)) as server:
        assert post(server) == whole.content
        assert post(server) == whole.content[:33]


def test_a_held_reply_ends_when_the_client_leaves():
    with BedrockServer(Reply([frame_of({"messageStart": {"role": "assistant"}})], hold_open=True)) as server:
        response = urllib.request.urlopen(urllib.request.Request(server.url + PATH, b"{}"), timeout=10)  # noqa: S310 -- loopback
        response.close()
        assert server.client_gone.wait(10)


def test_a_paused_reply_goes_on_when_the_test_says_so():
    go = threading.Event()
    first, second = (frame_of({name: {}}) for name in ("messageStart", "messageStop"))
    with BedrockServer(Reply([first, go, second])) as server, urllib.request.urlopen(urllib.request.Request(server.url + PATH, b"{}"), timeout=10) as response:  # noqa: S310 -- loopback
        begun = response.read(len(first))
        go.set()
        assert (begun, response.read()) == (first, second)


def test_a_stream_of_ones_own_events():
    assert events(stream({"messageStop": {"stopReason": "new"}}).content) == [("messageStop", {"stopReason": "new"})]
