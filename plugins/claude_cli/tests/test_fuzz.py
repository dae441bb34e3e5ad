"""Output of the program cut, shortened, mixed and spoilt at random: the same events, or an error of ours, and nothing that was not said.

Most of it goes through the turn with a child that is only played, a sample through a real process.
"""

from __future__ import annotations

import copy
import json
import os
import queue
import random
import re
import threading
from collections import deque
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
from escalera_claude_cli.child import EndOfOutput
from escalera_claude_cli.lines import LineReader
from escalera_claude_cli.repeat_log import RepeatLog
from escalera_claude_cli.timing import Timing
from escalera_claude_cli.turn import _Turn

from orchestrator.dispatch.events import is_event
from orchestrator.errors import Incomplete
from orchestrator.messages import Text, ToolCall, well_formed
from orchestrator.providers import Answer, Cancel, MessageDone, ReasoningDelta, TextDelta

from .conftest import collect

FUZZ = int(os.environ.get("ESCALERA_PROOF_FUZZ", "60"))
"""Outputs of each kind of damage."""
CUT_STEP = int(os.environ.get("ESCALERA_PROOF_CUT_STEP", "37"))
"""Bytes from one truncation to the next; 1 is every byte."""

RECORDINGS = Path(__file__).parent / "recordings"
DATA = Path(__file__).parent / "data"
EXITS = json.loads((RECORDINGS / "exits.json").read_text())
OUTPUTS = {path.stem: path.read_bytes() for folder in (RECORDINGS, DATA) for path in sorted(folder.glob("*.ndjson")) if ".stdin" not in path.name}


class Played:
    """What a turn knows of its child: output that comes in these pieces, and an end."""

    result = None
    stays = False

    def __init__(self, pieces, exit_code=0, stderr=""):
        reader = LineReader()
        said = [item for piece in pieces for item in reader.feed(piece)]
        self._output = deque([*said, *reader.rest(), EndOfOutput])
        self._exit_code, self._stderr = exit_code, stderr
        self.repeats = RepeatLog("")

    def next_output(self, timeout):
        if not self._output:
            raise queue.Empty
        return self._output.popleft()

    def wait(self, timeout):
        return None if len(self._output) > 1 else self._exit_code

    def stderr(self):
        return self._stderr

    def withdrawal(self, request_id):
        return threading.Event()

    def send(self, line):
        json.loads(line)

    def close_input(self):
        pass


def played(stage, pieces, **ending):
    """A turn of a child that says this; what is raised beside the core's errors fails the test by itself."""
    ask = lambda question: Answer("accept")  # noqa: E731  # one expression
    return collect(_Turn(stage.request(), Played(pieces, **ending), Timing(), Cancel(), ask, environ={}).events())


def told(outcome):
    error = outcome.error
    return outcome.events, (type(error), error.message, error.partial) if error else None


def done(outcome):
    return [event for event in outcome.events if isinstance(event, MessageDone)]


@pytest.mark.proof
@pytest.mark.parametrize("name", OUTPUTS)
def test_the_events_are_the_same_wherever_the_bytes_are_cut(stage, name):
    content, chance = OUTPUTS[name], random.Random(name)
    whole = told(played(stage, [content]))
    assert told(played(stage, [content[place : place + 1] for place in range(len(content))])) == whole
    for number in range(max(1, FUZZ // 20)):
        edges = sorted({0, len(content), *(chance.randrange(len(content)) for _ in range(chance.randint(1, 40)))})
        assert told(played(stage, [content[start:end] for start, end in pairwise(edges)])) == whole, number


@pytest.mark.proof
@pytest.mark.parametrize("name", OUTPUTS)
def test_output_that_ends_at_any_byte_is_no_answer_or_the_whole_one(stage, name):
    content = OUTPUTS[name]
    whole = played(stage, [content])
    for place in range(0, len(content), CUT_STEP):
        outcome = played(stage, [content[:place]], exit_code=(0, -9, 1)[place % 3])
        if outcome.error is None:
            assert (done(outcome), outcome.finished) == (done(whole), whole.finished), place
            assert outcome.finished is not None
        else:
            assert outcome.finished is None
            assert done(outcome) == done(whole)[: len(done(outcome))], place
            assert isinstance(outcome.error, Incomplete) or not outcome.error.partial or whole.error is not None, (place, outcome.error)


def test_a_real_process_that_ends_early_is_heard_the_same(stage):
    chance = random.Random(5)
    for number in range(max(4, FUZZ // 10)):
        name = chance.choice([name for name in OUTPUTS if b"control_request" not in OUTPUTS[name]])
        content = OUTPUTS[name][: chance.randrange(len(OUTPUTS[name]))]
        path = stage.folder / "cut.ndjson"
        path.write_bytes(content)
        pieces = chance.randint(1, 400)
        outcome = stage.turn(
            f"""
            heard()
            said = open({str(path)!r}, "rb").read()
            for start in range(0, len(said), {pieces}):
                say(said[start:start + {pieces}])
            """
        )
        assert told(outcome) == told(played(stage, [content])), (number, name, len(content))


ODD = (None, True, 0, -1, 7, 1e308, float("inf"), float("nan"), 10**30, "", "x", "\ud800", "\x00", [], {}, [None], {"": {}}, "result", "success", False)
GARBAGE = (
    b"",
    b"\xff\xfe\x00",
    b"npm WARN deprecated",
    b"[1, 2]",
    b"7",
    b'"word99"',
    b"null",
    b"{",
    b"\x1b]0;title\x07",
    b"[" * 100_000,
    b"[" * 900 + b"]" * 900,
    b'{"type": "assistant", "message": {"content": [{"type": "tool_use", "id": "t", "name": "n", "input": ' + b'{"a":' * 900 + b"1" + b"}" * 903 + b"]}}",
    b"9" * 5000,
    b'{"type": "result"}',
    b'{"type": ["result"]}',
    b'{"type": "control_request", "request_id": 7, "request": {"subtype": "can_use_tool"}}',
    b'{"type": "control_request"}',
)


def damaged(chance):
    """The lines of an output in another order, again, not at all, changed inside, or among garbage."""
    lines = OUTPUTS[chance.choice(list(OUTPUTS))].split(b"\n")
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(lines))
        match chance.randrange(7):
            case 0:
                chance.shuffle(lines)
            case 1:
                lines.insert(chance.randrange(len(lines)), lines[place])
            case 2:
                del lines[place]
                lines = lines or [b""]
            case 3:
                lines.insert(place, chance.choice(GARBAGE))
            case 4:
                lines[place] = lines[place][: chance.randrange(len(lines[place]) + 1)]
            case 5:
                spoilt = bytearray(lines[place] or b"x")
                spoilt[chance.randrange(len(spoilt))] = chance.randrange(256)
                lines[place] = bytes(spoilt)
            case _:
                lines[place] = changed(lines[place], chance)
    return b"\n".join(lines)


def changed(line, chance):
    """A line with one of its values replaced by an odd one."""
    with suppress(ValueError, IndexError, RecursionError):
        document = json.loads(line)
        holder, key = chance.choice(list(spots(document)))
        holder[key] = copy.deepcopy(chance.choice(ODD))
        return json.dumps(document).encode()
    return line


def spots(value):
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from spots(value[key])


@pytest.mark.proof
def test_damage_of_any_kind_ends_in_an_error_of_ours_or_in_what_was_said(stage):
    chance = random.Random(17)
    for number in range(FUZZ * 10):
        content = damaged(chance)
        outcome = played(stage, [content], exit_code=chance.choice((0, 1, -9, None)), stderr=chance.choice(("", "oh \x1b[31m no")))
        said = sayable(content)
        for event in outcome.events:
            assert is_event(event), (number, event)
            if isinstance(event, TextDelta | ReasoningDelta):
                assert event.text in said, (number, content)
        for part in (part for event in done(outcome) for part in event.parts):
            if isinstance(part, Text):
                assert part.text in said or part.text in {text.strip() for text in said}, (number, content)
            if isinstance(part, ToolCall):
                assert {part.id, part.name} <= {*said, ""}, (number, content)
        assert (outcome.error is None) == (outcome.finished is not None), (number, content)
        assert outcome.error is not None or b'"result"' in content, (number, content)


def sayable(content):
    """Every text that stands in the output, as it would be stored."""
    found = set()
    for match in re.finditer(r'"(?:[^"\\\x00-\x1f]|\\.)*"', content.decode("utf-8", "replace")):
        with suppress(ValueError):
            found.add(well_formed(json.loads(match.group())))
    return found
