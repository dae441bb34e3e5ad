"""`python -m bench.wire`: how fast answers are read, beside `httpx-sse` and a plain `json.loads` of the same documents, in one run."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import botocore.parsers
import botocore.session
import httpx
from botocore.eventstream import EventStream
from escalera_bedrock.answer import Answer as BedrockAnswer
from escalera_claude_cli.lines import LineReader
from escalera_claude_cli.transcript import Transcript
from escalera_openrouter.answer import Answer
from escalera_openrouter.sse import EventParser
from httpx_sse import EventSource

from orchestrator.testing.bedrock_server import frame_of
from orchestrator.testing.openai_server import chunk

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WORDS = ("the ", "quick ", "survey ", "of ", "a ", "long ", "road — ", "shows ", "how ", "many ", "stones ", "lie ", "\n")
EVENTS = 20_000
BIG = 64 * 1024
"""Bytes of one read where much is waiting."""


@dataclass(frozen=True)
class Wire:
    """One kind of stream: its bytes as they are read, the JSON in them, and ways to read it, ours first."""

    name: str
    pieces: Sequence[bytes]
    documents: Sequence[str]
    readers: dict[str, Callable[[Sequence[bytes]], int]]

    @property
    def megabytes(self) -> float:
        return sum(map(len, self.pieces)) / 1e6


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7, help="measurements per figure, taken in turns; the median is printed")
    parser.add_argument("--events", type=int, default=EVENTS, help="events of each stream")
    arguments = parser.parse_args()
    header = ("stream", "MB", "reader", "MB/s", "of json.loads", "of httpx-sse")
    print(" | ".join(f"{name:>22}" for name in header))
    for wire in _wires(arguments.events):
        speeds = _measured(wire, arguments.runs)
        for name, speed in speeds.items():
            other = f"{speed / speeds['httpx-sse']:.2f}" if "httpx-sse" in speeds else "-"
            cells = (wire.name, f"{wire.megabytes:.1f}", name, f"{speed:.0f}", f"{speed / speeds['json.loads']:.2f}", other)
            print(" | ".join(f"{cell:>22}" for cell in cells))


def _measured(wire: Wire, runs: int) -> dict[str, float]:
    """MB/s of each way to read it: they take turns, so that all have the same weather."""
    readers: dict[str, Callable[[], int]] = {name: lambda read=read: read(wire.pieces) for name, read in wire.readers.items()}  # type: ignore[misc]
    readers["json.loads"] = lambda: sum(json.loads(document) is not None for document in wire.documents)
    times: dict[str, list[float]] = {name: [] for name in readers}
    for _ in range(runs):
        for name, read in readers.items():
            began = time.perf_counter()
            if read() < len(wire.documents):
                raise SystemExit(f"{name} lost events of {wire.name}")
            times[name].append(time.perf_counter() - began)
    return {name: wire.megabytes / statistics.median(taken) for name, taken in times.items()}


def _wires(events: int) -> Iterator[Wire]:
    documents = [json.dumps(chunk({"content": WORDS[number % len(WORDS)]})) for number in range(events)]
    lines = [f"data: {document}\n\n".encode() for document in documents]
    sse = {"our reader": _our_sse, "httpx-sse": _httpx_sse, "our reader and answer": _our_answer}
    yield Wire("SSE, an event a read", lines, documents, sse)
    yield Wire("SSE, 64 KB a read", _cut(b"".join(lines), BIG), documents, sse)
    yield Wire("SSE, CRLF", _cut(b"".join(lines).replace(b"\n", b"\r\n"), BIG), documents, sse)
    long = [json.dumps(chunk({"content": "".join(WORDS) * 400})) for _ in range(events // 200)]
    yield Wire("SSE, 30 KB an event", _cut("".join(f"data: {document}\n\n" for document in long).encode(), 4096), long, sse)

    deltas = [{"contentBlockIndex": 0, "delta": {"text": WORDS[number % len(WORDS)]}, "p": "abcdefghijklmnop"} for number in range(events)]
    frames = b"".join(frame_of({"contentBlockDelta": delta}) for delta in deltas)
    yield Wire("event stream", _cut(frames, BIG), [json.dumps(delta) for delta in deltas], {"botocore": _botocore, "botocore and answer": _bedrock})

    said = [json.dumps({"type": "stream_event", "session_id": "s", "uuid": "u" * 36, "event": _text_delta(number)}) for number in range(events)]
    cli = {"our reader": _our_lines, "our reader and turn": _transcript}
    yield Wire("CLI lines", _cut("".join(f"{line}\n" for line in said).encode(), BIG), said, cli)
    big = [json.dumps({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t", "content": "aGVsbG8h" * 250_000}]}})] * 4
    yield Wire("CLI lines of 2 MB", _cut("".join(f"{line}\n" for line in big).encode(), BIG), big, cli)


def _cut(content: bytes, size: int) -> list[bytes]:
    return [content[a:b] for a, b in pairwise([*range(0, len(content), size), len(content)])]


def _text_delta(number: int) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": WORDS[number % len(WORDS)]}}


def _our_sse(pieces: Iterable[bytes]) -> int:
    parser = EventParser()
    return sum(1 for piece in pieces for _ in parser.feed(piece))


def _our_answer(pieces: Iterable[bytes]) -> int:
    parser, answer = EventParser(), Answer(where="here", model="m", new_id=str, now=lambda: NOW)
    return sum(1 for piece in pieces for event in parser.feed(piece) for _ in answer.data(event.data, event.name))


def _httpx_sse(pieces: Iterable[bytes]) -> int:
    response = httpx.Response(200, headers={"content-type": "text/event-stream; charset=utf-8"}, content=iter(pieces))
    return sum(1 for _ in EventSource(response).iter_sse())


def _botocore(pieces: Iterable[bytes]) -> int:
    return sum(1 for _ in _converse_events(pieces))


def _bedrock(pieces: Iterable[bytes]) -> int:
    answer = BedrockAnswer(where="here", model="m", new_id=str)
    return sum(1 for event in _converse_events(pieces) for _ in answer.event(event))


class _Raw:
    """What botocore reads a stream from."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = pieces

    def stream(self) -> Iterator[bytes]:
        yield from self._pieces

    def close(self) -> None:
        """Nothing is held."""


def _converse_events(pieces: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    yield from EventStream(_Raw(pieces), _STREAM, _PARSER, "ConverseStream")


_STREAM = botocore.session.get_session().get_service_model("bedrock-runtime").operation_model("ConverseStream").output_shape.members["stream"]
_PARSER = botocore.parsers.create_parser("rest-json")._event_stream_parser


def _our_lines(pieces: Iterable[bytes]) -> int:
    reader = LineReader()
    return sum(1 for piece in pieces for _ in reader.feed(piece))


def _transcript(pieces: Iterable[bytes]) -> int:
    reader, transcript = LineReader(), Transcript()
    return sum(1 for piece in pieces for line in reader.feed(piece) for _ in transcript.take(line))


if __name__ == "__main__":
    main()
