"""Event streams cut, shortened, mixed and spoilt at random, through the real boto3: the same events, or an error of ours, and nothing that was not said."""

from __future__ import annotations

import copy
import json
import os
import random
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from escalera_bedrock.provider import BedrockProvider

from orchestrator.errors import Incomplete
from orchestrator.messages import Reasoning, Text, ToolCall, well_formed
from orchestrator.providers import Event, MessageDone, ReasoningDelta, TextDelta, Timeouts, UsageReport
from orchestrator.testing.bedrock_server import BedrockServer, Reply, error_frame, frame, frame_of, metadata, say

from .conftest import REQUEST, Turn, bedrock, run, trial

FUZZ = int(os.environ.get("ESCALERA_PROOF_FUZZ", "60"))
"""Streams of each kind of damage."""
CUT_STEP = int(os.environ.get("ESCALERA_PROOF_CUT_STEP", "37"))
"""Bytes from one truncation to the next; 1 is every byte."""

QUICK = replace(REQUEST, timeouts=Timeouts(60, 60, 120))


def delta(index: int, **told: Any) -> dict[str, Any]:
    return {"contentBlockDelta": {"contentBlockIndex": index, "delta": told}}


def begun(index: int, call_id: str, name: str) -> dict[str, Any]:
    return {"contentBlockStart": {"contentBlockIndex": index, "start": {"toolUse": {"toolUseId": call_id, "name": name}}}}


STOP = {"messageStop": {"stopReason": "end_turn"}}
PARALLEL = (
    {"messageStart": {"role": "assistant"}},
    delta(0, reasoningContent={"text": "think01 "}),
    delta(0, reasoningContent={"text": "think02"}),
    delta(0, reasoningContent={"signature": "c2ln"}),
    delta(1, text="word01 ü 😀 "),
    delta(1, text="\u2028 word02"),
    begun(2, "call01", "tool01"),
    begun(3, "call02", "tool02"),
    delta(2, toolUse={"input": '{"arg01": "val'}),
    delta(3, toolUse={"input": '{"arg02": [7, '}),
    delta(2, toolUse={"input": 'ue01 ü"}'}),
    delta(3, toolUse={"input": '"value02"]}'}),
    {"contentBlockStop": {"contentBlockIndex": 2}},
    {"contentBlockStop": {"contentBlockIndex": 3}},
    {"messageStop": {"stopReason": "tool_use"}},
    metadata({"inputTokens": 12, "outputTokens": 7, "cacheReadInputTokens": 100, "cacheWriteInputTokens": 3}),
)
PAIRS = (delta(0, text="word01 \ud83d"), delta(0, text="\ude00 \ud800"), delta(0, text=" word02"), STOP, metadata())
SCRIPTS: dict[str, Sequence[dict[str, Any]]] = {
    "words": say("word01 word02 word03").events or (),
    "parallel": PARALLEL,
    "pairs": PAIRS,
    "redacted": (delta(0, reasoningContent={"redactedContent": b"\x00\xff"}), delta(1, text="word01"), STOP, metadata()),
    "limit": (delta(0, text="word01"), {"messageStop": {"stopReason": "max_tokens"}}, metadata()),
    "T36": trial("T36.json")["turn1_events"],
    **{f"T33-{number}": case["events"] for number, case in enumerate(trial("T33.json")["cases"])},
}
STREAMS = {name: b"".join(frame_of(event) for event in events) for name, events in SCRIPTS.items()}
STREAMS["unknown"] = frame_of(delta(0, text="word01")) + frame({":message-type": "exception", ":exception-type": "newException"}, b'{"message": "upstream01"}')
STREAMS["unmodelled"] = frame_of(delta(0, text="word01")) + error_frame("InternalFailure", "upstream01")


@pytest.fixture(scope="module")
def server() -> Iterator[BedrockServer]:
    with BedrockServer() as server:
        yield server


@pytest.fixture
def agent(server: BedrockServer) -> BedrockProvider:
    return bedrock(server.url)


def tried(server: BedrockServer, agent: BedrockProvider, pieces: Sequence[bytes], *, broken: bool = False) -> Turn:
    """One call on that stream, each piece a chunk of HTTP. What is raised beside the core's errors fails the test by itself."""
    server.replace(Reply([piece for piece in pieces if piece], broken=broken))
    return run(agent, QUICK)


def told(turn: Turn) -> tuple[Any, ...]:
    """What a call came to, with what was shown joined."""
    rest = [same(event) for event in turn.events if not isinstance(event, TextDelta | ReasoningDelta)]
    error = (turn.error.type, turn.error.message, turn.error.partial) if turn.error is not None else None
    return turn.text, turn.reasoning, rest, error


def same(event: Event) -> Event:
    """Without the ids that are made up for calls that have none."""
    if not isinstance(event, MessageDone):
        return event
    return replace(event, parts=tuple(replace(part, id="") if isinstance(part, ToolCall) else part for part in event.parts))


@pytest.mark.proof
@pytest.mark.parametrize("name", STREAMS)
def test_the_events_are_the_same_wherever_the_bytes_are_cut(server: BedrockServer, agent: BedrockProvider, name: str) -> None:
    content, chance = STREAMS[name], random.Random(name)
    whole = told(tried(server, agent, [content]))
    assert told(tried(server, agent, [content[place : place + 1] for place in range(len(content))])) == whole
    for number in range(max(1, FUZZ // 30)):
        edges = sorted({0, len(content), *(chance.randrange(len(content)) for _ in range(chance.randint(1, 40)))})
        assert told(tried(server, agent, [content[a:b] for a, b in pairwise(edges)])) == whole, number


@pytest.mark.proof
@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_that_ends_at_any_byte_is_no_answer_or_the_whole_one(server: BedrockServer, agent: BedrockProvider, name: str) -> None:
    content = STREAMS[name]
    whole = tried(server, agent, [content])
    for place in range(0, len(content), CUT_STEP):
        turn = tried(server, agent, [content[:place]], broken=bool(place % 2))
        if turn.error is None:
            assert (turn.parts, turn.finished) == (whole.parts, whole.finished), place
            assert turn.finished is not None
        else:
            assert (turn.parts, turn.finished) == ((), None), place
            assert turn.error.partial == turn.text, place
            assert whole.text.startswith(turn.text.removesuffix("\ufffd")), place
            assert isinstance(turn.error, Incomplete) or whole.error is not None, (place, turn.error)


ODD: tuple[Any, ...] = (None, True, 0, -1, 7, 1e308, 10**30, "", "x", "\ud800", "\x00", [], {}, [None], {"": {}}, "end_turn", "tool_use", float("inf"))
HEAD = {":event-type": "contentBlockDelta", ":message-type": "event", ":content-type": "application/json"}
NESTED = '{"a":' * 900 + "1" + "}" * 900
GARBAGE = (
    b"\x00" * 16,
    b"garbage",
    b"HTTP/1.1 500 oh\r\n\r\n",
    frame(HEAD, b"{"),
    frame(HEAD, b"[1]"),
    frame(HEAD, b"null"),
    frame(HEAD, b""),
    frame(HEAD, b"\xff\xfe"),
    frame(HEAD, b"[" * 100_000),
    frame(HEAD, NESTED.encode()),
    frame({**HEAD, ":event-type": "brandNew"}, b'{"text": "word99"}'),
    frame({":message-type": "exception", ":exception-type": "brandNewException"}, b"{}"),
    frame({":message-type": "exception", ":exception-type": "throttlingException"}, b"no json"),
    frame({":message-type": "exception", ":exception-type": "modelTimeoutException"}, b'{"message": ["word98"]}'),
    frame_of(metadata({"inputTokens": 0, "outputTokens": 0})),
    frame({":message-type": "odd"}, b"{}"),
    frame({}, b"{}"),
    error_frame("", ""),
    frame_of(begun(5, "", "")),
    *(frame_of(begun(5, "call05", "tool05")) + frame_of(delta(5, toolUse={"input": text})) for text in ('{"a": NaN}', '{"a": 1e999}', NESTED)),
)


def damaged(chance: random.Random) -> bytes:
    """A stream whose events come in another order, again, not at all, changed inside, or among garbage."""
    events = copy.deepcopy(list(SCRIPTS[chance.choice(list(SCRIPTS))]))
    frames: list[bytes] = []
    for _ in range(chance.randint(0, 3)):
        if not events:
            break
        place = chance.randrange(len(events))
        match chance.randrange(4):
            case 0:
                chance.shuffle(events)
            case 1:
                events.insert(chance.randrange(len(events)), events[place])
            case 2:
                del events[place]
            case _:
                holder, key = chance.choice(list(_spots(events[place])))
                holder[key] = copy.deepcopy(chance.choice(ODD))
    frames = [frame_of(event) for event in events]
    for _ in range(chance.randint(0, 2)):
        frames.insert(chance.randint(0, len(frames)), chance.choice(GARBAGE))
    content = bytearray(b"".join(frames))
    if content and chance.random() < 0.3:
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    return bytes(content)


def _spots(value: Any) -> Iterator[tuple[Any, Any]]:
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        if not isinstance(value[key], dict | list) or "contentBlockIndex" not in value[key]:
            yield value, key
        yield from _spots(value[key])


@pytest.mark.proof
def test_damage_of_any_kind_ends_in_an_error_of_ours_or_in_what_was_said(server: BedrockServer, agent: BedrockProvider) -> None:
    chance = random.Random(17)
    for number in range(FUZZ * 4):
        content = damaged(chance)
        turn = tried(server, agent, [content], broken=chance.random() < 0.2)
        said = sayable(content)
        for event in turn.events:
            assert_storable(event)
        assert was_said(turn.text, said), (number, content)
        assert was_said(turn.reasoning, said), (number, content)
        for part in turn.parts:
            if isinstance(part, ToolCall):
                assert part.name in map(well_formed, said), (number, content)
            if isinstance(part, Text):
                assert sorted(part.text) == sorted(turn.text) or sum(isinstance(other, Text) for other in turn.parts) > 1, (number, content)
        assert (turn.error is None) == (turn.finished is not None), (number, content)
        assert turn.error is not None or b"messageStop" in content, (number, content)


def sayable(content: bytes) -> list[str]:
    """Every text that stands in the stream, as it would be stored."""
    found: list[str] = []
    for match in re.finditer(r'"(?:[^"\\\x00-\x1f]|\\.)*"', content.decode("utf-8", "replace")):
        with suppress(ValueError):
            found.append(json.loads(match.group()))
    return found


def was_said(text: str, said: list[str]) -> bool:
    """Whether all that it is made of stands there; blocks may come mixed, so the order says nothing, and halves of characters may meet."""
    return _units(text) <= {*_units("".join(said)), "\ufffd".encode("utf-16-le")}


def _units(text: str) -> set[bytes]:
    content = text.encode("utf-16-le", "surrogatepass")
    return {content[place : place + 2] for place in range(0, len(content), 2)}


def assert_storable(event: Event) -> None:
    """What a turn gives goes into a file and to the next provider as JSON: no half characters, no number that JSON has not."""
    if isinstance(event, TextDelta | ReasoningDelta):
        event.text.encode()
    if isinstance(event, MessageDone):
        for part in event.parts:
            told: list[object] = [part.extra]
            if isinstance(part, ToolCall):
                told += [dict(part.arguments), part.id, part.name]
            elif isinstance(part, Text | Reasoning):
                told += [part.text]
            json.dumps(told, allow_nan=False, ensure_ascii=False).encode()
    if isinstance(event, UsageReport):
        counts = (event.usage.input_tokens, event.usage.output_tokens, event.usage.cache_read_tokens)
        assert all(count is None or 0 <= count < 10**15 for count in counts)
