"""Answers whose stream ends without its end, as the program tells them: with a result line that says success."""

from __future__ import annotations

import pytest
from escalera_claude_cli.transcript import Transcript
from escalera_claude_cli.verdict import Ending, judge

from orchestrator.errors import Incomplete


def streamed(*events):
    return [{"type": "stream_event", "event": event} for event in events]


def begins(identity="m1"):
    return streamed({"type": "message_start", "message": {"id": identity}})


def shows(said, index=0):
    start = {"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""}}
    return streamed(start, {"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": said}})


def whole(said, identity="m1", stop_reason=None):
    """A block that came whole; the stop reason of the message stands there only where it was not streamed."""
    block = said if isinstance(said, dict) else {"type": "text", "text": said}
    message = {"id": identity, "model": "m", "content": [block], "stop_reason": stop_reason}
    return [{"type": "assistant", "message": message}, *streamed({"type": "content_block_stop", "index": 0})]


def ends(stop_reason="end_turn", *, stop=True):
    return streamed({"type": "message_delta", "delta": {"stop_reason": stop_reason}}, *([{"type": "message_stop"}] if stop else []))


def result(said, **more):
    return [{"type": "result", "subtype": "success", "is_error": False, "result": said, "num_turns": 1, **more}]


CALL = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
LOOKED = [
    *(*begins("m0"), *whole("Let me look.", "m0"), *whole(CALL, "m0"), *ends("tool_use")),
    {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t1", "content": "notes"}]}},
]
TOOL_BEGINS = streamed({"type": "content_block_start", "index": 1, "content_block": CALL | {"input": {}}})
HALF = [*begins(), *shows("First half. "), *whole("First half. ")]


def verdict(*lines):
    transcript = Transcript()
    for line in lines:
        list(transcript.take(line))
    return judge(transcript, Ending(exit_code=0, stderr="", resumed=False, agent="claude", now=0.0))


@pytest.mark.parametrize(
    ("lines", "partial"),
    [
        ([*HALF, *result("First half. ", stop_reason=None)], "First half. "),
        ([*HALF, *shows("and more", 1), *result("First half. ", stop_reason=None)], "First half. and more"),
        ([*HALF, *TOOL_BEGINS, *result("First half. ", stop_reason=None)], "First half. "),
        ([*LOOKED, *HALF, *shows("and more", 1), *result("First half. ", stop_reason="tool_use")], "Let me look.\n\nFirst half. and more"),
        ([*begins("m0"), *ends(), *HALF, *result("First half. ", stop_reason="end_turn")], "First half. "),
        ([*begins(), *whole({"type": "thinking", "thinking": "hm"}), *result("", stop_reason=None)], ""),
        ([*HALF, *ends(None, stop=False), *result("First half. ", stop_reason=None)], "First half. "),
    ],
    ids=["after a block", "within the next", "within a call", "after a tool", "after an answer without a word", "after thinking", "no reason"],
)
def test_a_stream_without_its_end_is_incomplete_whatever_the_result_says(lines, partial):
    with pytest.raises(Incomplete) as caught:
        verdict(*lines)

    assert caught.value.partial == partial
    assert "broke off" in caught.value.message


@pytest.mark.parametrize(
    "lines",
    [
        [*HALF, *ends(), *result("First half. ", stop_reason="end_turn")],
        [*HALF, *ends(stop=False), *result("First half. ", stop_reason="end_turn")],
        [*begins(), *shows("Fir"), *whole("Another.", "m2", "end_turn"), *result("Another.", stop_reason="end_turn")],
        [*begins(), *shows("Fir"), *whole("Another.", "m1", "end_turn"), *result("Another.", stop_reason="end_turn")],
        [*HALF, *result("First half. ")],
        [*shows("First half. "), *whole("First half. "), *result("First half. ", stop_reason=None)],
        result("Unknown command: /foo", stop_reason=None),
        result("ok"),
    ],
    ids=["ended", "a reason is an end", "not streamed", "not streamed, same id", "older", "deltas alone", "a command", "nothing told"],
)
def test_an_answer_that_has_its_end_or_needs_none_is_whole(lines):
    assert verdict(*lines).reason == "stop"


@pytest.mark.parametrize(
    "words",
    [
        "API Error: Connection closed mid-response. The response above may be incomplete.",
        "API Error: Response stalled mid-stream. The response above may be incomplete.",
        "API Error: Connection closed while thinking, before producing a response. Try again.",
    ],
)
def test_a_connection_that_is_lost_behind_a_whole_block_is_incomplete_though_the_program_blames_the_server(words):
    blamed = {"type": "assistant", "error": "server_error", "message": {"model": "<synthetic>", "content": [{"type": "text", "text": words}]}}

    with pytest.raises(Incomplete) as caught:
        verdict(*HALF, blamed, *result(words, is_error=True, api_error_status=None))

    assert caught.value.partial == "First half. "


@pytest.mark.parametrize("stop_reason", ["brand_new", "pause_turn", None])
def test_an_end_for_an_unknown_reason_is_told(stop_reason):
    assert verdict(*HALF, *ends(stop_reason), *result("First half. ", stop_reason=stop_reason)).reason == "other"
