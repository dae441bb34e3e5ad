"""The provider: options, previews, timers, cancelling, repairs, and what is imported when."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import pytest
from escalera_bedrock.options import BedrockOptions
from escalera_bedrock.wire import dialled
from pydantic import ValidationError

from orchestrator.errors import Cancelled, TimedOut
from orchestrator.history.normalise import normalise
from orchestrator.messages import Message, Text, ToolCall, ToolResult
from orchestrator.plugins import PluginManager, installed_entry_points
from orchestrator.providers import Cancel, Request, Stop, Stopped, SystemBlock, Timeouts, Wire
from orchestrator.testing.bedrock_server import BedrockServer, Reply, error_frame, fail, say

from .conftest import CERTIFICATE, MODEL, REQUEST, TOOL, bedrock, nobody, play, run, run_with_retries, tls, warmed

NO_CACHING = "You invoked an unsupported model or your request did not allow prompt caching. See the documentation for more information."


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "escalera-bedrock"]


# -- options --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"model": ""},
        {"model": "m", "regoin": "us-east-1"},
        {"model": "m", "endpoint_url": "ftp://host"},
        {"model": "m", "endpoint_url": "http://key:secret@host"},
        {"model": "m", "inference": {"max_token": 5}},
        {"model": "m", "inference": {"max_tokens": 0}},
        {"model": "m", "inference": {"temperature": 2}},
        {"model": "m", "additional_fields": {"x": float("nan")}},
        {"model": "m", "additional_fields": {"x": {1, 2}}},
    ],
)
def test_options_that_cannot_be_used_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        BedrockOptions(**options)


def test_the_kind_is_found_by_its_entry_point() -> None:
    kind = PluginManager.load(installed_entry_points()).kind("bedrock")
    assert (kind.name, kind.options) == ("bedrock", BedrockOptions)


def test_nothing_of_boto3_is_imported_before_it_is_needed() -> None:
    script = """
import sys
from orchestrator.plugins import PluginManager, installed_entry_points
from orchestrator.providers import AgentContext, Request
from orchestrator.messages import Message, Text
kind = PluginManager.load(installed_entry_points()).kind("bedrock")
provider = kind.factory(kind.options(model="m"), AgentContext("a", "/", {}))
provider.capabilities, provider.model, provider.preview(Request("a", (), (Message("user", (Text("hi"),)),)))
print([name for name in ("boto3", "botocore", "urllib3") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# -- bodies ---------------------------------------------------------------------------------------


def test_a_whole_body_is_shown_as_it_is_sent() -> None:
    system = (
        SystemBlock("static", "You are here."),
        SystemBlock("orientation", "You come back."),
        SystemBlock("blank", " \n"),
        SystemBlock("percepts", "Facts."),
    )
    messages = (
        Message("user", (Text("find it"),)),
        Message("assistant", (Text("let me look"), ToolCall("t1", "search", {"q": "it"}))),
        Message("user", (ToolResult("t1", "nothing", is_error=True), Text("go on"))),
    )
    request = Request("strong", system, messages, tools=(TOOL,), max_output_tokens=500, timeouts=REQUEST.timeouts)
    options = {"inference": {"max_tokens": 900, "temperature": 0.5, "top_p": 0.9, "stop_sequences": ["END"]}, "additional_fields": {"thinking": {"type": "on"}}}

    with BedrockServer(say("ok")) as server:
        provider = bedrock(server.url, prompt_caching=True, **options)
        shown = provider.preview(request)
        run(provider, request)

    assert shown == {
        "operation": "ConverseStream",
        "model": MODEL,
        "region": "us-east-1",
        "endpoint_url": server.url,
        "headers": {"authorization": "***"},
        "body": server.requests[0].body,
    }
    assert server.requests[0].body == {
        "system": [{"text": "You are here."}, {"cachePoint": {"type": "default"}}, {"text": "You come back."}, {"text": "Facts."}],
        "messages": [
            {"role": "user", "content": [{"text": "find it"}]},
            {"role": "assistant", "content": [{"text": "let me look"}, {"toolUse": {"toolUseId": "t1", "name": "search", "input": {"q": "it"}}}]},
            {
                "role": "user",
                "content": [
                    {"toolResult": {"toolUseId": "t1", "content": [{"text": "nothing"}], "status": "error"}},
                    {"text": "go on"},
                    {"cachePoint": {"type": "default"}},
                ],
            },
        ],
        "toolConfig": {"tools": [{"toolSpec": {"name": "search", "description": "Search the web.", "inputSchema": {"json": dict(TOOL.parameters)}}}]},
        "inferenceConfig": {"maxTokens": 500, "temperature": 0.5, "topP": 0.9, "stopSequences": ["END"]},
        "additionalModelRequestFields": {"thinking": {"type": "on"}},
    }
    assert (server.requests[0].path, server.requests[0].model) == (f"/model/{MODEL.replace(':', '%3A')}/converse-stream", MODEL)
    json.dumps(shown)


def test_a_plain_body_has_nothing_that_nobody_asked_for() -> None:
    assert bedrock(None).preview(REQUEST)["body"] == {
        "messages": [{"role": "user", "content": [{"text": "hello"}]}],
        "system": [{"text": "You are here."}],
    }


def test_an_agent_without_tools_sends_none_and_says_so() -> None:
    provider = bedrock(None, tools=False)
    messages = normalise(
        (*REQUEST.messages, Message("assistant", (ToolCall("t1", "search", {"q": "x"}),)), Message("user", (ToolResult("t1", "y"),))), "bedrock"
    )
    body = provider.preview(replace(REQUEST, messages=messages, tools=(TOOL,)))["body"]
    assert provider.capabilities.takes_tools is False
    assert "toolConfig" not in body
    assert [next(iter(block)) for message in body["messages"] for block in message["content"]] == ["text"] * 3


# -- timers and cancelling ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "timeouts", "which"),
    [
        (Reply(before_head=threading.Event()), Timeouts(0.3, 5, 20), "first_byte"),
        (Reply(hold_open=True), Timeouts(0.3, 5, 20), "first_byte"),
        (Reply(say("a b").writes[:2], hold_open=True), Timeouts(5, 0.3, 20), "idle"),
        (Reply(say("a b").writes[:2], hold_open=True), Timeouts(None, None, 0.5), "turn"),
    ],
    ids=["no head", "no event", "silence", "too long"],
)
def test_timers_of_our_own_end_the_call_and_free_the_socket(reply: Reply, timeouts: Timeouts, which: str) -> None:
    with BedrockServer(say("before"), reply) as server:
        provider = warmed(server)
        started = time.monotonic()
        turn = run(provider, replace(REQUEST, timeouts=timeouts))
        assert server.client_gone.wait(2)
    assert isinstance(turn.error, TimedOut)
    assert (turn.error.which, turn.error.retryable, threads()) == (which, False, [])
    assert time.monotonic() - started < 4


@contextmanager
def silent(*, full: bool) -> Iterator[str]:
    """A port that takes connections and says nothing, or, where it is `full`, not even takes them."""
    with socket.socket() as listener, ExitStack() as waiting:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0 if full else 8)
        for _ in range(4 if full else 0):
            one = waiting.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize(
    ("full", "scheme", "length"),
    [
        pytest.param(True, "http", 1, id="dialling", marks=pytest.mark.skipif(sys.platform != "linux", reason="others refuse instead of stalling")),
        pytest.param(False, "https", 1, id="handshake"),
        pytest.param(False, "http", 16_000_000, id="sending"),
    ],
)
def test_a_call_that_stalls_before_it_is_sent_is_ended_by_our_timer(full: bool, scheme: str, length: int) -> None:
    request = replace(REQUEST, messages=(Message("user", (Text("x" * length),)),), timeouts=Timeouts(0.8, 9, 9))
    with silent(full=full) as address:
        started = time.monotonic()
        turn = run(bedrock(f"{scheme}://{address}"), request)
        assert time.monotonic() - started < 3
    assert isinstance(turn.error, TimedOut)
    assert (turn.error.which, threads()) == ("first_byte", [])


def test_an_endless_stream_ends_by_the_limit_of_the_turn() -> None:
    drip = say("x " * 20_000).writes
    with BedrockServer(say("before"), Reply(drip)) as server:
        turn = run(warmed(server), replace(REQUEST, timeouts=Timeouts(5, 5, 0.3)))
    assert isinstance(turn.error, TimedOut)
    assert turn.error.which == "turn"


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_bytes_that_make_no_event_are_silence(secure: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", str(CERTIFICATE))
    whole = say("a b").writes
    drip = [part for byte in whole[2] for part in (0.1, bytes([byte]))]
    with BedrockServer(say("before"), Reply([*whole[:2], *drip]), tls=tls() if secure else None) as server:
        turn = run(warmed(server), replace(REQUEST, timeouts=Timeouts(5, 0.4, 20)))
    assert isinstance(turn.error, TimedOut)
    assert (turn.error.which, turn.text) == ("idle", "a ")


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize(
    "reply", [Reply(before_head=threading.Event()), Reply(hold_open=True), Reply(say("a b").writes[:2], hold_open=True)], ids=["no head", "no event", "silence"]
)
def test_cancelling_releases_everything_within_two_seconds(reply: Reply, secure: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", str(CERTIFICATE))
    cancel, cancelled = Cancel(), list[float]()

    def cancel_once_asked() -> None:
        server.receiving.wait(10)
        cancelled.append(time.monotonic())
        cancel.set()

    with BedrockServer(reply, tls=tls() if secure else None) as server:
        canceller = threading.Thread(target=cancel_once_asked)
        canceller.start()
        turn = run(bedrock(server.url), cancel=cancel)
        assert server.client_gone.wait(2)
        canceller.join()
    assert isinstance(turn.error, Cancelled)
    assert threads() == []
    assert time.monotonic() - cancelled[0] < 2


def test_a_call_that_was_cancelled_before_is_not_made() -> None:
    cancel = Cancel()
    cancel.set()
    with BedrockServer(say("never")) as server:
        assert isinstance(run(bedrock(server.url), cancel=cancel).error, Cancelled)
        assert server.requests == []


def test_closing_the_iterator_frees_the_socket() -> None:
    with BedrockServer(Reply(say("a b").writes[:2], hold_open=True)) as server:
        events = bedrock(server.url).run(REQUEST, cancel=Cancel(), ask=nobody)
        next(events)
        events.close()
        assert server.client_gone.wait(2)
    assert threads() == []


def test_cancelling_while_dialling_a_host_that_does_not_answer() -> None:
    class Host:
        _dns_host, port, source_address, socket_options = "127.0.0.1", 0, None, ()

    stop = Stop()
    with silent(full=True) as address:
        Host.port = int(address.partition(":")[2])
        threading.Timer(0.2, stop.now).start()
        started = time.monotonic()
        with pytest.raises(Stopped):
            dialled(Host(), stop)  # type: ignore[arg-type]  # the four attributes that are used
        assert time.monotonic() - started < 2


def test_the_wire_has_what_each_frame_says() -> None:
    class Kept(Wire):
        def __init__(self) -> None:
            self.came = b""

        def received(self, data: str | bytes) -> None:
            self.came += data if isinstance(data, bytes) else data.encode()

    wire, frames = Kept(), [*say("a b").writes[:2], error_frame("internalFailure", "no more")]
    with BedrockServer(Reply(frames)) as server:
        run(bedrock(server.url), replace(REQUEST, wire=wire))
    head, *told = wire.came.decode().splitlines()
    assert head == "HTTP 200"
    assert [next(iter(json.loads(line))) for line in told] == ["messageStart", "contentBlockDelta", "internalFailure"]


# -- repairs --------------------------------------------------------------------------------------


def test_a_model_without_a_prompt_cache_is_asked_again_without_cache_points() -> None:
    with BedrockServer(fail(403, "AccessDeniedException", NO_CACHING), say("fine"), say("again")) as server:
        provider = bedrock(server.url, prompt_caching=True)
        turn, waits = run_with_retries(provider, replace(REQUEST, tools=(TOOL,)))
        run(provider)
    assert (turn.text, waits, len(server.requests)) == ("fine", [0.0], 3)
    assert ["cachePoint" in json.dumps(request.body) for request in server.requests] == [True, False, False]


def test_a_cache_point_behind_reasoning_is_taken_out_as_well() -> None:
    words = "Cache point cannot be inserted after reasoning block. Please remove the invalid cache point and try again."
    with BedrockServer(fail(400, "ValidationException", words), say("fine")) as server:
        assert run_with_retries(bedrock(server.url, prompt_caching=True))[0].text == "fine"


def test_a_model_that_refuses_results_beside_text_gets_them_apart_from_then_on() -> None:
    words = "messages.2.content: Conversation blocks and tool result blocks cannot be provided in the same turn."
    call = Message("assistant", (ToolCall("c1", "look", {}),))
    history = replace(REQUEST, messages=(Message("user", (Text("hi"),)), call, Message("user", (ToolResult("c1", "seen"), Text("go on")))), tools=(TOOL,))
    with BedrockServer(fail(400, "ValidationException", words), say("fine"), say("again")) as server:
        provider = bedrock(server.url)
        turn, _ = run_with_retries(provider, history)
        run(provider, history)
    kinds = [[(message["role"], *(next(iter(block)) for block in message["content"])) for message in request.body["messages"]] for request in server.requests]
    apart = [("user", "text"), ("assistant", "toolUse"), ("user", "toolResult"), ("assistant", "text"), ("user", "text")]
    assert (turn.text, kinds) == ("fine", [[*apart[:2], ("user", "toolResult", "text")], apart, apart])


def test_repairs_stay_within_the_limit_of_sends() -> None:
    with BedrockServer(fail(403, "AccessDeniedException", NO_CACHING), say("never")) as server:
        turn, _ = run_with_retries(bedrock(server.url, prompt_caching=True), attempts=0)
        assert (turn.error.type, len(server.requests)) == ("AuthFailed", 1)
        assert "prompt_caching = false" in turn.error.hint


def test_caching_that_was_never_asked_for_is_not_repaired() -> None:
    turn = play(fail(403, "AccessDeniedException", NO_CACHING))
    assert (turn.error.type, turn.error.repaired) == ("AuthFailed", False)


def test_too_many_output_tokens_are_told_with_the_number_that_would_be_given() -> None:
    words = "The maximum tokens you requested exceeds the model limit of 4096. Try again with a maximum tokens value that is lower than 4096."
    turn = play(fail(400, "ValidationException", words))
    assert (turn.error.type, turn.error.affordable_tokens) == ("InvalidRequest", 4096)


def test_the_lower_limit_of_output_tokens_is_sent() -> None:
    with BedrockServer(say("fine")) as server:
        run(bedrock(server.url, inference={"max_tokens": 64_000}), replace(REQUEST, max_output_tokens=4096))
    assert server.requests[0].body["inferenceConfig"]["maxTokens"] == 4096


def test_calls_of_two_threads_at_once_keep_their_connections_apart(scripted: Callable[..., BedrockServer]) -> None:
    go = threading.Event()
    first, second = say("slow one").writes, say("quick one")
    server = scripted(Reply([*first[:2], go, *first[2:]]), second)
    provider = bedrock(server.url)
    events = provider.run(REQUEST, cancel=Cancel(), ask=nobody)
    begun = next(events)
    quick = run(provider)
    go.set()
    rest = [event for event in events if hasattr(event, "parts")]
    assert (begun.text, quick.text, rest[0].parts[0].text) == ("slow ", "quick one", "slow one")
