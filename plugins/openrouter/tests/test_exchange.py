"""Cancelling, timers and failing connections, on real sockets."""

from __future__ import annotations

import base64
import gzip
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from escalera_openrouter.provider import OpenAIProvider

from orchestrator.errors import Cancelled, ConfigError, EmptyAnswer, Incomplete, ProtocolError, ProviderError, TimedOut, Unavailable
from orchestrator.exchange import GRACE
from orchestrator.messages import Message, Text
from orchestrator.providers import Cancel, Finished, Request, TextDelta, Timeouts, UsageReport
from orchestrator.testing.openai_server import OpenAIServer, Reply, chunk, reply, sse

from .conftest import REQUEST, Turn, dispatched, nobody, openai, play, run

Start = Callable[..., OpenAIServer]


def readers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "escalera-http"]


@contextmanager
def full_backlog() -> Iterator[str]:
    """A port that no longer takes connections: dialling it stalls."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(address)
        yield f"http://127.0.0.1:{address[1]}"
        for one in waiting:
            one.close()


@contextmanager
def mute() -> Iterator[str]:
    """A port that takes connections, reads nothing and says nothing."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(8)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def cancelled_when(ready: threading.Event, provider: OpenAIProvider, request: Request = REQUEST) -> tuple[ProviderError | None, float]:
    """Cancel a turn once it is where the test wants it: what it raised, and how long it took from then."""
    cancel, at = Cancel(), [0.0]

    def press() -> None:
        ready.wait(10)
        at[0] = time.monotonic()
        cancel.set()

    presser = threading.Thread(target=press)
    presser.start()
    turn = run(provider, request, cancel)
    took = time.monotonic() - at[0]
    presser.join()
    return turn.error, took


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse instead of stalling when a backlog is full")
def test_cancel_frees_a_call_that_is_dialling() -> None:
    ready = threading.Event()
    ready.set()
    with full_backlog() as url:
        error, took = cancelled_when(ready, openai(url))
    assert isinstance(error, Cancelled)
    assert took < 2
    assert not readers()


def test_cancel_frees_a_call_that_waits_for_headers(scripted: Start) -> None:
    server = scripted(Reply(before_head=threading.Event()))
    error, took = cancelled_when(server.receiving, openai(server.url))
    assert isinstance(error, Cancelled)
    assert took < 1
    assert not readers()
    assert server.client_gone.wait(2)


def test_cancel_frees_a_call_in_the_middle_of_its_answer(scripted: Start) -> None:
    server = scripted(Reply([*sse(chunk({"content": "half"}), done=False).writes], hold_open=True))
    cancel = Cancel()
    events = iter(openai(server.url).run(REQUEST, cancel=cancel, ask=nobody))
    assert next(events) == TextDelta("half")
    threading.Timer(0.05, cancel.set).start()
    started = time.monotonic()
    with pytest.raises(Cancelled) as raised:
        next(events)
    assert time.monotonic() - started < 1
    assert raised.value.partial == "half"
    assert not readers()
    assert server.client_gone.wait(2)


def test_a_turn_that_is_cancelled_already_sends_nothing(scripted: Start) -> None:
    server = scripted(reply("x"))
    cancel = Cancel()
    cancel.set("over")
    assert isinstance(run(openai(server.url), REQUEST, cancel).error, Cancelled)
    assert not server.requests


def test_closing_the_iterator_frees_everything(scripted: Start) -> None:
    server = scripted(Reply([*sse(chunk({"content": "half"}), done=False).writes], hold_open=True))
    events = openai(server.url).run(REQUEST, cancel=Cancel(), ask=nobody)
    next(iter(events))
    events.close()  # type: ignore[attr-defined]
    assert not readers()
    assert server.client_gone.wait(2)


@pytest.mark.parametrize(
    ("script", "timeouts", "which"),
    [
        (Reply(before_head=threading.Event()), Timeouts(0.2, 5, 5), "first_byte"),
        (Reply(hold_open=True), Timeouts(0.2, 5, 5), "first_byte"),
        (Reply([b": life\n\n"], hold_open=True), Timeouts(5, 0.2, 5), "idle"),
        (Reply([b": life\n\n"], hold_open=True), Timeouts(None, None, 0.3), "turn"),
    ],
    ids=["no headers", "no body", "silent", "too long"],
)
def test_each_timer_ends_the_call_by_its_name(script: Reply, timeouts: Timeouts, which: str) -> None:
    turn = play(script, request=replace(REQUEST, timeouts=timeouts))
    assert isinstance(turn.error, TimedOut)
    assert turn.error.which == which
    assert not readers()


LARGE = replace(REQUEST, messages=(Message("user", (Text("x" * 16_000_000),)),))


@pytest.mark.parametrize("timeouts", [Timeouts(0.4, 9, 9), Timeouts(None, None, 0.4)], ids=["first_byte", "turn"])
@pytest.mark.parametrize(
    ("stalls", "scheme", "request_"),
    [
        pytest.param(
            full_backlog, "http", REQUEST, id="dialling", marks=pytest.mark.skipif(sys.platform != "linux", reason="others refuse instead of stalling")
        ),
        pytest.param(mute, "https", REQUEST, id="handshake"),
        pytest.param(mute, "http", LARGE, id="sending"),
    ],
)
def test_a_call_that_stalls_before_it_is_sent_is_ended_by_our_timer(stalls: Callable[[], Any], scheme: str, request_: Request, timeouts: Timeouts) -> None:
    with stalls() as url:
        started = time.monotonic()
        turn = run(openai(url.replace("http", scheme)), replace(request_, timeouts=timeouts))
        assert time.monotonic() - started < 3
    assert isinstance(turn.error, TimedOut)
    assert turn.error.which == ("turn" if timeouts.first_byte is None else "first_byte")
    assert turn.error.hint is not None
    assert turn.error.which in turn.error.hint
    assert not readers()


def test_the_turn_timer_ends_an_answer_that_never_pauses() -> None:
    endless = Reply([b": life\n\n"] * 200_000)
    turn = play(endless, request=replace(REQUEST, timeouts=Timeouts(5, 5, 0.2)))
    assert isinstance(turn.error, TimedOut)
    assert turn.error.which == "turn"


def test_a_refused_connection_names_the_server_and_what_to_do() -> None:
    with OpenAIServer() as server:
        url = server.url
    turn = run(openai(url))
    assert isinstance(turn.error, Unavailable)
    assert url.removesuffix("/v1") in turn.error.message
    assert "refused" in turn.error.message
    assert turn.error.hint is not None
    assert "running" in turn.error.hint
    assert turn.error.agent == "local"


def test_a_name_that_is_not_known_is_unavailable() -> None:
    turn = run(openai("http://no-such-host.invalid"))
    assert isinstance(turn.error, Unavailable)
    assert "no-such-host.invalid" in turn.error.message


def test_plain_http_where_tls_was_expected_is_explained() -> None:
    with OpenAIServer(reply("x")) as server:
        turn = run(openai(server.url.replace("http:", "https:")))
    assert isinstance(turn.error, Unavailable)
    assert "TLS" in turn.error.message


def test_a_server_that_closes_without_an_answer_is_unavailable() -> None:
    assert isinstance(play(Reply(refuse=True)).error, Unavailable)


def test_a_reset_in_the_answer_is_incomplete_and_before_it_unavailable() -> None:
    partial = sse(chunk({"content": "half"}), done=False).writes
    turn = play(Reply([*partial, b"data: {"], reset=True))
    assert isinstance(turn.error, Incomplete)
    assert turn.error.partial == "half"


def test_a_stream_that_just_ends_is_incomplete_with_or_without_its_marker() -> None:
    for done in (True, False):
        turn = play(sse(chunk({"content": "half"}), done=done))
        assert isinstance(turn.error, Incomplete)
        assert turn.error.partial == "half"


CALL = {"index": 0, "id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
DOWN = {"error": {"code": 502, "message": "upstream died"}}


@pytest.mark.parametrize(
    "delta",
    [
        {"tool_calls": [CALL]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"a'}}]},
        {"reasoning_details": [{"type": "reasoning.encrypted", "data": "abc", "index": 0}]},
        {"content": "<thin"},
        {"content": "<think>"},
        {"content": "\ud83d"},
        {"refusal": "I wi"},
    ],
    ids=["tool call", "part of one", "encrypted reasoning", "held back", "mark of a block", "half a character", "refusal"],
)
@pytest.mark.parametrize("last", [DOWN, chunk({}, finish_reason="error")], ids=["error", "finish reason"])
def test_nothing_is_sent_again_once_something_of_the_answer_came_though_nothing_was_shown(delta: dict[str, Any], last: dict[str, Any]) -> None:
    with OpenAIServer(*[sse(chunk(delta), last)] * 6) as server:
        answered = dispatched(openai(server.url))
        assert (len(server.requests), answered.sends) == (1, 1)


@pytest.mark.parametrize("delta", [None, {}, {"role": "assistant", "content": ""}, {"content": None, "tool_calls": [], "reasoning": ""}])
def test_a_chunk_with_nothing_in_it_is_no_answer_yet(delta: dict[str, Any] | None) -> None:
    with OpenAIServer(*[sse(chunk(delta), DOWN)] * 6) as server:
        dispatched(openai(server.url))
        assert len(server.requests) == 4


def frames(*chunks: dict[str, Any]) -> list[bytes]:
    return [*sse(*chunks, done=False).writes]  # type: ignore[list-item]  # no pauses among them


def said(text: str, finish_reason: str | None = None) -> bytes:
    return frames(chunk({"content": text}, finish_reason=finish_reason))[0]


END = frames(chunk({}, finish_reason="stop"))[0]
DONE = b"data: [DONE]\n\n"
LONG = GRACE + 0.5
"""Seconds of silence, longer than what is waited for behind an end."""


@pytest.mark.parametrize(
    "writes",
    [
        [said("one ", "null"), LONG, said("two", "null"), END, DONE],
        [said("one ", "normal"), said("two"), END, DONE],
        [said("one ", "stop"), 0.1, said("t", "stop"), LONG, said("wo", "stop"), DONE],
        [said("one ", "stop"), said("two", "stop")],
        [said("one ", "stop"), said("two"), DONE],
        [said("one ", "stop"), said("two"), END],
    ],
    ids=["null", "unknown", "in every chunk", "in every chunk, without a mark", "too early", "too early, and again"],
)
def test_a_reason_to_end_that_more_follows_ends_nothing(writes: list[bytes | float]) -> None:
    turn = play(Reply(writes))
    assert (turn.error, turn.text, turn.finished) == (None, "one two", Finished("stop", "fake"))


@pytest.mark.parametrize("reason", ["stop", "normal"])
def test_a_connection_that_breaks_where_every_chunk_names_a_reason_is_incomplete(reason: str) -> None:
    turn = play(Reply([said("one ", reason), said("two", reason)], chunked=True, broken=True))
    assert isinstance(turn.error, Incomplete)
    assert turn.error.partial == "one two"


def test_an_unknown_reason_alone_waits_for_the_end_of_the_stream() -> None:
    turn = play(Reply([said("one", "normal")], hold_open=True), request=replace(REQUEST, timeouts=Timeouts(5, 0.3, 5)))
    assert isinstance(turn.error, TimedOut)
    assert (turn.error.which, turn.error.partial) == ("idle", "one")


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"{}", Incomplete),
        (b"data: {}\n", Incomplete),
        (b'{"error":"x"}', Unavailable),
        (b"data: [DONE]\n\n", EmptyAnswer),
        (b"oh", ProtocolError),
        (b"", ProtocolError),
    ],
)
def test_a_short_body_that_has_ended_is_not_waited_for(body: bytes, kind: type[ProviderError]) -> None:
    turn = play(Reply([body], headers={}), request=replace(REQUEST, timeouts=Timeouts(5, 5, 5)))
    assert type(turn.error) is kind


WHOLE = {"choices": [{"index": 0, "message": {"content": 'a } "quoted" answer \\'}, "finish_reason": "stop"}]}


@pytest.mark.parametrize("chunked", [False, True], ids=["plain", "chunked"])
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("size", [7, 10_000])
def test_a_whole_json_answer_ends_the_turn_though_the_socket_stays_open(chunked: bool, indent: int | None, size: int) -> None:
    content = json.dumps(WHOLE, indent=indent).encode()
    pieces = [content[place : place + size] for place in range(0, len(content), size)]
    script = Reply(pieces, headers={"content-type": "application/json"}, hold_open=True, chunked=chunked)
    started = time.monotonic()
    turn = play(script, request=replace(REQUEST, timeouts=Timeouts(5, None, None)))
    assert time.monotonic() - started < GRACE + 2
    assert (turn.error, turn.text) == (None, 'a } "quoted" answer \\')


@pytest.mark.parametrize(
    ("kind", "lines", "delta"),
    [
        ("application/json", 1, {"content": "Hel"}),
        ("application/json", 1, {"role": "assistant", "content": "Hel", "refusal": None}),
        ("application/json", 2, {"content": "Hel"}),
        ("application/x-ndjson", 1, {"content": "Hel"}),
    ],
)
def test_lines_of_json_that_end_before_the_answer_does_are_no_whole_answer(kind: str, lines: int, delta: dict[str, Any]) -> None:
    line = json.dumps({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}) + "\n"
    turn = play(Reply([(line * lines).encode()], headers={"content-type": kind}))
    assert isinstance(turn.error, Incomplete if lines == 1 else Incomplete | ProtocolError)
    assert turn.parts == ()


def test_a_whole_answer_in_the_form_of_a_piece_is_one_where_it_says_that_it_ends() -> None:
    whole = {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "Hello"}, "finish_reason": "stop"}]}
    assert play(Reply([json.dumps(whole).encode()], headers={"content-type": "application/json"})).text == "Hello"


def test_a_whole_json_answer_counts_though_the_connection_broke_behind_it() -> None:
    script = Reply([json.dumps(WHOLE).encode()], headers={"content-type": "application/json"}, chunked=True, broken=True)
    assert play(script).outcome == "ok"


@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize(
    ("end", "partial"),
    [
        ('"one', "one"),
        ('"one two\\', "one two"),
        ('"one \\u00e', "one "),
        ('"one \\n\\"', 'one \n"'),
        ('"one"}, "finish', "one"),
        ('"<think>hm</think>so', "so"),
        ("", ""),
    ],
)
def test_a_json_answer_that_breaks_off_keeps_its_text(broken: bool, end: str, partial: str) -> None:
    body = '{"choices": [{"message": {"role": "assistant", "content": ' + end
    turn = play(Reply([body.encode()], headers={"content-type": "application/json"}, chunked=True, broken=broken))
    assert isinstance(turn.error, Incomplete)
    assert (turn.error.partial, turn.text) == (partial, partial)


def test_usage_before_a_failure_is_told_once() -> None:
    counted = {"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 2}}
    for last in (DOWN, chunk({}, finish_reason="error"), {"choices": "?"}):
        turn = play(sse(counted, last))
        (report,) = [event for event in turn.events if isinstance(event, UsageReport)]
        assert (turn.outcome != "ok", report.usage.input_tokens) == (True, 12)


def test_a_marker_alone_is_an_empty_answer() -> None:
    assert isinstance(play(sse()).error, EmptyAnswer)


def test_the_environments_proxy_is_not_used_for_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert play(reply("direct")).text == "direct"


def test_the_environments_proxy_is_used_for_other_hosts(monkeypatch: pytest.MonkeyPatch, scripted: Start) -> None:
    proxy = scripted(reply("by proxy"))
    for name in ("NO_PROXY", "no_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
    assert run(openai("http://model.invalid")).text == "by proxy"
    assert proxy.requests[0].path == "http://model.invalid/v1/chat/completions"


@pytest.fixture
def behind(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Turn]:
    """A turn with a host that is reached through this proxy."""

    def behind_(proxy: str) -> Turn:
        for name in ("NO_PROXY", "no_proxy", "http_proxy"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HTTP_PROXY", proxy)
        return run(openai("http://model.invalid"))

    return behind_


def test_a_proxys_password_may_hold_any_character(behind: Callable[[str], Turn], scripted: Start) -> None:
    proxy = scripted(reply("one"), reply("two"))
    assert behind(f"http://us%20er:püss@127.0.0.1:{proxy.port}").text == "one"
    assert behind(f"http://us%20er:p%C3%BCss@127.0.0.1:{proxy.port}").text == "two"
    told = {request.headers["proxy-authorization"] for request in proxy.requests}
    assert told == {"Basic " + base64.b64encode("us er:püss".encode()).decode()}


@pytest.mark.parametrize("proxy", ["ftp://user:secret@127.0.0.1:9", "socks://127.0.0.1:9", "socks4://127.0.0.1:9", "http://", "http://\x01"])
def test_a_proxy_that_cannot_be_used_is_named_as_that(behind: Callable[[str], Turn], proxy: str) -> None:
    with pytest.raises(ConfigError) as caught:
        behind(proxy)
    assert "ALL_PROXY" in (caught.value.hint or "")
    assert "secret" not in caught.value.message


@pytest.mark.parametrize("key", ["", "sk-of-its-own"])
def test_every_header_goes_out_once_and_the_users_own_wins_but_for_a_key_of_its_own(scripted: Start, key: str) -> None:
    server = scripted(reply("x"))
    own = {"User-Agent": "mine", "CONTENT-TYPE": "application/json; charset=utf-8", "Accept": "text/event-stream", "Authorization": "Basic abcd"}
    provider = openai(server.url, headers=own, **({"api_key": key} if key else {}))
    run(provider)
    (request,) = server.requests
    sent = {name: request.headers[name.lower()] for name in own}
    assert sent == own | ({"Authorization": f"Bearer {key}"} if key else {})
    shown = [name.lower() for name in provider.preview(REQUEST)["headers"]]
    assert len(shown) == len(set(shown))


def test_httpx_comes_without_its_command_line() -> None:
    script = "import sys, escalera_openrouter.exchange; print([name for name in ('httpx', 'rich', 'httpx._main') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "['httpx']\n"


def test_an_answer_that_was_compressed_unasked_is_unpacked() -> None:
    plain = reply("a few words")
    packed = Reply([gzip.compress(b"".join(plain.writes))], headers={**plain.headers, "content-encoding": "gzip"})
    assert play(packed).text == "a few words"
