"""Streams cut, shortened, mixed and spoilt at random, over real sockets: the same events, or an error of ours, and nothing that was not said."""

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
from escalera_openrouter.provider import OpenAIProvider

from orchestrator.errors import EmptyAnswer, Incomplete, Unavailable
from orchestrator.messages import Text, ToolCall, well_formed
from orchestrator.providers import Event, Finished, MessageDone, ReasoningDelta, TextDelta, Timeouts, UsageReport
from orchestrator.testing.openai_server import OpenAIServer, Reply, chunk

from .conftest import REQUEST, TRIALS, Turn, openai, openrouter, run, trial, trial_bytes

FUZZ = int(os.environ.get("ESCALERA_PROOF_FUZZ", "60"))
"""Streams of each kind of damage."""
CUT_STEP = int(os.environ.get("ESCALERA_PROOF_CUT_STEP", "37"))
"""Bytes from one truncation to the next; 1 is every byte."""

QUICK = replace(REQUEST, timeouts=Timeouts(60, 60, 120))


def called(index: int, call_id: str | None, name: str | None, arguments: Any) -> dict[str, Any]:
    told = {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
    return chunk({"tool_calls": [{key: value for key, value in told.items() if value is not None}]})


PARALLEL = [
    chunk({"role": "assistant", "reasoning_content": "think01 think02 "}),
    chunk({"reasoning_content": "think03"}),
    chunk({"content": "word01 ü 😀 "}),
    chunk({"content": "\u2028 word02 \x85"}),
    called(0, "call01", "tool01", ""),
    called(0, None, None, '{"arg01": "val'),
    called(1, "call02", "tool02", '{"arg02": ["value02", 7'),
    called(0, None, None, 'ue01 ü"}'),
    called(1, None, None, "]}"),
    chunk({}, finish_reason="tool_calls"),
    {"model": "fake", "choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 64}}},
]
PIECES = [
    called(0, "call01", "to", None),
    {"model": "fake", "choices": [], "usage": {"prompt_tokens": "100"}},
    called(0, None, "ol", ""),
    called(0, None, "01", '{"arg01": '),
    called(0, None, None, '"value01"}'),
    chunk({"content": {"type": "text", "text": {"value": "word01 "}}}),
    chunk({"content": [{"type": "text", "text": {"value": "word02"}}]}),
    chunk({}, finish_reason="tool_calls"),
    {"model": "fake", "choices": [], "usage": {"completion_tokens": 20}},
]
THINKS = [chunk({"content": piece}) for piece in ("<thi", "nk>think0", "1</th", "ink>\n\nword0", "1 wo", "rd02")] + [chunk({}, finish_reason="stop")]
PAIRS = [chunk({"content": piece}) for piece in ("word01 \ud83d", "\ude00 \ud800", " word02")] + [chunk({}, finish_reason="stop")]
DETAILS = [
    chunk({"content": "", "reasoning_details": [{"type": "reasoning.text", "text": piece, "index": 0, "format": "x"}]}, provider="P")
    for piece in ("think01 ", "think02")
]
ROUTED = [
    *DETAILS,
    chunk({"content": "", "reasoning_details": [{"type": "reasoning.encrypted", "data": "c2ln", "index": 1}]}),
    chunk({"content": "word01 "}, native_finish_reason=None),
    chunk({"content": "word02"}),
    chunk({"content": ""}, finish_reason="stop", usage={"prompt_tokens": 12, "completion_tokens": 3, "cost": 0.001}),
]


def written(*events: dict[str, Any], end: str = "\n", bom: bool = False, done: bool = True, ascii_only: bool = True) -> bytes:
    """A stream in one of the forms that servers give it, with comments among the events."""
    lines = [f": life{end}", *(f"data: {json.dumps(event, ensure_ascii=ascii_only)}{end}{end}" for event in events), *([f"data: [DONE]{end}{end}"] * done)]
    return ("\ufeff" * bom + "".join(lines)).encode()


WRITTEN = {
    "parallel": written(*PARALLEL, ascii_only=False),
    "crlf": written(*PARALLEL, end="\r\n", bom=True, ascii_only=False),
    "cr": written(*PARALLEL, end="\r", done=False),
    "pieces": written(*PIECES),
    "thinks": written(*THINKS),
    "pairs": written(*PAIRS),
    "routed": written(*ROUTED),
    "failed": written(*PARALLEL[:4], {"error": {"code": 502, "message": "upstream01"}}),
    "bare": written(*PARALLEL[:4], done=False) + b'{"error": {"message": "upstream01", "type": "server_error"}}\n',
    "indented": json.dumps({"error": {"code": 429, "message": "upstream01", "metadata": {"raw": "} {"}}}, indent=2).encode(),
    "listed": b" " + json.dumps([{"error": {"code": 429, "message": "upstream01"}}], indent=1).encode() + b"\n",
    "document": json.dumps({"choices": [{"message": {"content": "word01 } word02"}, "finish_reason": "stop"}]}, indent=2).encode(),
    "field": written(*PARALLEL[:4], done=False) + b'error: {"message": "upstream01"}\n\n',
    "named": written(*PARALLEL[:4], done=False) + b'event: error\ndata: {"message": "upstream01"}\n\n',
}


def in_trials() -> Iterator[tuple[str, bytes]]:
    """Every stream of the trials, alone in its file or among other data."""
    for path in sorted(TRIALS.glob("T*.sse")):
        yield path.stem, trial_bytes(path.name)
    for path in sorted(TRIALS.glob("T*.json")):
        for number, text in enumerate(_texts(trial(path.name))):
            if re.search(r"^data:", text, re.MULTILINE):
                yield f"{path.stem}-{number}", text.encode()


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)


STREAMS = {**WRITTEN, **dict(in_trials())}


def tried(server: OpenAIServer, agent: OpenAIProvider, pieces: Sequence[bytes], *, broken: bool = False) -> Turn:
    """One turn on that stream, each piece a chunk of HTTP, and so one read for the client; `broken`: the connection ends before the body does.

    What is raised beside the core's errors fails the test by itself.
    """
    server.replace(Reply([piece for piece in pieces if piece], chunked=True, broken=broken))
    return run(agent, QUICK)


def told(turn: Turn) -> tuple[Any, ...]:
    """What a turn came to, with what was shown joined: where the bytes were cut decides how deltas are."""
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
def test_the_events_are_the_same_wherever_the_bytes_are_cut(name: str) -> None:
    content, chance = STREAMS[name], random.Random(name)
    with OpenAIServer() as server:
        agent = openai(server.url)
        whole = told(tried(server, agent, [content]))
        assert told(tried(server, agent, [content[place : place + 1] for place in range(len(content))])) == whole
        for number in range(max(1, FUZZ // 50)):
            edges = sorted({0, len(content), *(chance.randrange(len(content)) for _ in range(chance.randint(1, 40)))})
            pieces = [content[a:b] for a, b in pairwise(edges)]
            assert told(tried(server, agent, pieces)) == whole, number


@pytest.mark.proof
@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_that_ends_at_any_byte_is_no_answer_or_the_whole_one(name: str) -> None:
    content = STREAMS[name]
    with OpenAIServer() as server:
        agent = openai(server.url)
        whole = tried(server, agent, [content])
        for place in range(0, len(content), CUT_STEP):
            turn = tried(server, agent, [content[:place]], broken=bool(place % 2))
            if turn.error is None:
                assert [same(event) for event in turn.events if isinstance(event, MessageDone)] == [
                    same(event) for event in whole.events if isinstance(event, MessageDone)
                ], place
                assert turn.finished is not None
                assert whole.finished is not None
                assert turn.finished.reason == whole.finished.reason, place
            else:
                assert (turn.parts, turn.finished) == ((), None), place
                assert turn.error.partial == turn.text, place
                shown = turn.text.removesuffix("\ufffd")  # half a character is shown as one that is missing
                assert whole.text.startswith(shown) or "<think>".startswith(shown), place
                nothing = isinstance(turn.error, EmptyAnswer | Unavailable) and not content[:place].lstrip(b"\xef\xbb\xbf").startswith((b"data: {", b"{"))
                assert isinstance(turn.error, Incomplete) or nothing or whole.error is not None, (place, turn.error)


ODD: tuple[Any, ...] = (None, True, 0, -1, 7, 1e308, 10**30, "", "x", " ", "\ud800", "\x00", [], {}, [None], [[]], {"": {}}, "stop", "tool_calls", "error")
GARBAGE = (
    b"data: {\n\n",
    b"data: [1, 2]\n\n",
    b"data: 7\n\n",
    b'data: "word99"\n\n',
    b"data: null\n\n",
    b"data:\n\n",
    b"event: error\n\n",
    b"id: 1\nretry: 5\n\n",
    b"\xff\xfe\x00\n",
    b"garbage without end",
    b": comment\n",
    b'{"choices": []}\n',
    b'data: {"choices": [{"index": 1, "delta": {"content": "word98"}, "finish_reason": "stop"}]}\n\n',
    b'data: {"choices": [{"delta": {"tool_calls": [{"function": {"arguments": {"deep": ' + b"[" * 900 + b"]" * 900 + b"}}}]}}]}\n\n",
    b'data: {"choices": [{"delta": {"tool_calls": [{"function": {"name": "tool03", "arguments": {"a": NaN}}}]}}]}\n\n',
    b"data: " + b"[" * 100_000 + b"\n\n",
    b"event: error\ndata: " + b"[" * 900 + b"]" * 900 + b"\n\n",
    b'data: {"error": ' + b'{"x": ' * 900 + b"1" + b"}" * 900 + b"}\n\n",
    b'data: {"choices": [{"delta": {"reasoning_details": 5, "content": "word97", "tool_calls": 7}}]}\n\n',
    b'data: {"choices": [{"delta": {"tool_calls": [{"function": {"name": "tool04", "arguments": "{\\"a\\": 1e999}"}}]}}]}\n\n',
    b"data: " + b"9" * 5000 + b"\n\n",
    b"{\n",
    b"[{\n",
    b'{\n  "choices": []\n}\n',
    b'data: {\n  "choices": []\n}\n\n',
    b"error: word96\n\n",
    b"Internal Server Error\n",
    b"event: ping\ndata: ping\n\n",
    b'data: {"choices": [{"delta": {"content": "word95"}, "finish_reason": "null"}]}\n\n',
    b'data: {"choices": [{"delta": {"content": "word94"}, "finish_reason": "normal"}]}\n\n',
)


def damaged(chance: random.Random) -> bytes:
    """A stream whose events come in another order, again, not at all, changed inside, or among garbage."""
    content = STREAMS[chance.choice(list(STREAMS))]
    events = re.split(rb"(?<=\n\n)|(?<=\r\r)|(?<=\r\n\r\n)", content)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(events))
        match chance.randrange(7):
            case 0:
                chance.shuffle(events)
            case 1:
                events.insert(chance.randrange(len(events)), events[place])
            case 2:
                del events[place]
                events = events or [b""]
            case 3:
                events.insert(place, chance.choice(GARBAGE))
            case 4:
                events[place] = events[place][: chance.randrange(len(events[place]) + 1)]
            case 5:
                spoilt = bytearray(events[place] or b"x")
                spoilt[chance.randrange(len(spoilt))] = chance.randrange(256)
                events[place] = bytes(spoilt)
            case _:
                events[place] = changed(events[place], chance)
    return b"".join(events)


def changed(event: bytes, chance: random.Random) -> bytes:
    """An event with one of its values replaced by an odd one."""
    name, _, data = event.partition(b":")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return event
    spots = list(_spots(document))
    if not spots:
        return event
    holder, key = chance.choice(spots)
    holder[key] = copy.deepcopy(chance.choice(ODD))
    return name + b": " + json.dumps(document).encode() + b"\n\n"


def _spots(value: Any) -> Iterator[tuple[Any, Any]]:
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from _spots(value[key])


@pytest.mark.proof
@pytest.mark.parametrize("kind", [openai, openrouter])
def test_damage_of_any_kind_ends_in_an_error_of_ours_or_in_what_was_said(kind: Any) -> None:
    chance = random.Random(17)
    with OpenAIServer() as server:
        agent = kind(server.url)
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
                    assert is_made_of(part.name, said), (number, content)
                    assert all(was_said(text, said) for text in _texts(part.arguments)), (number, content)
                if isinstance(part, Text):
                    assert part.text == turn.text
            assert (turn.error is None) == (turn.finished is not None), (number, content)
            if turn.error is None:
                assert b'"finish_reason": "' in content.replace(b'":"', b'": "'), (number, content)


def sayable(content: bytes) -> list[str]:
    """Every text that stands in the stream, in order, as it would be stored."""
    found: list[str] = []
    for match in re.finditer(r'"(?:[^"\\\x00-\x1f]|\\.)*"', content.decode("utf-8", "replace")):
        with suppress(ValueError):
            found.append(json.loads(match.group()))
    return found


def is_made_of(name: str, said: list[str]) -> bool:
    """Whether a name is one that stands there, or several one after the other, as servers cut them."""
    return re.fullmatch(f"({'|'.join(re.escape(well_formed(text)) for text in said if text)})+", name) is not None


def was_said(text: str, said: list[str]) -> bool:
    """Whether all of it stands there, in this order; what cannot be stored has another character in its place, and halves of characters may meet."""
    source = iter("".join(said))
    return all(character == "\ufffd" or character > "\uffff" or character in source for character in text)


def assert_storable(event: Event) -> None:
    """What a turn gives goes into a file and to the next provider as JSON: no half characters, no number that JSON has not."""
    values = {TextDelta: "text", ReasoningDelta: "text"}
    for text in [getattr(event, values[type(event)])] if type(event) in values else []:
        text.encode()
    if isinstance(event, MessageDone):
        for part in event.parts:
            told = [part.arguments, part.extra, part.id, part.name] if isinstance(part, ToolCall) else [part.text, part.extra]  # type: ignore[union-attr]
            json.dumps(told, allow_nan=False, ensure_ascii=False).encode()
    if isinstance(event, UsageReport):
        counts = (event.usage.input_tokens, event.usage.output_tokens, event.usage.cache_read_tokens)
        assert all(count is None or 0 <= count < 10**15 for count in counts)
    assert not isinstance(event, Finished) or event.reason in ("stop", "tool_calls", "length", "other")
