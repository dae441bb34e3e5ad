"""Whatever a model, a tool or a file name holds: no control reaches the terminal but ours."""

from __future__ import annotations

import io
import json
import os
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.cli.output import write
from orchestrator.cli.talk.conversation import Standing
from orchestrator.cli.talk.screen import last_lines
from orchestrator.cli.talk.status import status_line
from orchestrator.cli.talk.view import Bare, Coloured, Ink, View
from orchestrator.dispatch.desk import Shown
from orchestrator.session import State
from orchestrator.terminal import clean

COUNT = int(os.environ.get("ESCALERA_PROOF_BYTES", "400"))
"""Random byte strings; 10,000 for the whole proof."""
PAYLOADS: list[str] = json.loads((Path(__file__).parents[2] / "trials" / "T104.json").read_text("utf-8"))["payloads"]
OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
HOSTILE = [
    "&#27;]52;c;ZXZpbA==&#7; &#13;hidden &#x202e;back &#x9b;31m",
    "[here](https://example.com/\x1b]8;;evil\x07 'title\x1b[2J')",
    "![img](\x1b[31m) <b>\x1b[31m</b> `\x1b[2J`",
    "```\x1b]0;title\x07\n\x1b[2J\n```",
    "```python\nprint('\x1b[2J')\n```",
    "| a\x1b[2J | b |\n| --- | --- |\n| \x9b31m | \x07 |",
    "# \x1b]0;title\x07\n\n- \u202eevil\n\n> quoted \x1bPq\x1b\\",
]


def noise(seed: int) -> str:
    """Bytes as a model might send them: text of Markdown and escape codes among anything."""
    chance = random.Random(seed)
    pieces = [chance.randbytes(chance.randrange(40)), *(chance.choice(MATERIAL) for _ in range(chance.randrange(12)))]
    chance.shuffle(pieces)
    codec, errors = chance.choice([("utf-8", "surrogateescape"), ("utf-8", "replace"), ("latin-1", "strict"), ("utf-16-le", "replace")])
    return b"".join(pieces).decode(codec, errors)


_MARKS = [b"\n", b"\n\n", b"**", b"```", b"# ", b"- ", b"|", b"&#155;", b"\x1b", b"\x9b"]
MATERIAL = [*(payload.encode("utf-8", "surrogatepass") for payload in (*PAYLOADS, *HOSTILE)), *_MARKS]


def everything(ink: Ink, text: str) -> str:
    """All that a chat puts on the terminal of a turn that is made of that text only."""
    put: list[str] = []
    view = View(ink, put.append, lambda: 80, lambda: 0.0)
    data = {"agent": text, "role": "primary", "mode": text}
    shown = [
        Shown("turn_started", data=dict(data)),
        *(Shown("text", text[start : start + 3]) for start in range(0, len(text), 3)),
        Shown("reasoning", text),
        Shown("tool_call", data={"id": text, "name": text, "arguments": {text: [text]}}),
        Shown("tool_result", text, {"id": text, "is_error": True}),
        Shown("notice", text),
        Shown("retry", text),
        Shown("text", text),
    ]
    for one in shown:
        view.show(one)
        put.append("\n".join(last_lines(clean(view.tail), 80, 20)))
        put.append(clean(view.activity("utf-8"), keep_newlines=False))
    view.end()
    standing = Standing(session=text, agent=text, pinned=True, state=State.WAITING, need=text, spent=None)
    return "\n".join([*put, ink.strong(text), ink.faint(view.reasoning), status_line(standing, asks=True, width=80)])


@pytest.mark.proof
@pytest.mark.parametrize("ink", [Bare(), Coloured()], ids=["bare", "coloured"])
def test_random_bytes_drive_nothing(ink: Ink) -> None:
    for seed in range(COUNT):
        shown = everything(ink, noise(seed))
        found = OBEYED.findall(COLOURS.sub("", shown) if isinstance(ink, Coloured) else shown)
        assert not found, (seed, found)


@pytest.mark.proof
def test_random_bytes_reach_a_stream_only_as_what_it_can_carry() -> None:
    for encoding in ("utf-8", "ascii", "latin-1"):
        for seed in range(COUNT):
            stream = io.TextIOWrapper(io.BytesIO(), encoding)
            write(stream, clean(noise(seed)))
            assert not OBEYED.search(stream.buffer.getvalue().decode(encoding))  # type: ignore[attr-defined]  # a BytesIO


@pytest.mark.trial("T104")
@pytest.mark.parametrize("payload", [*PAYLOADS, *HOSTILE])
def test_t104_markdown_is_laid_out_without_a_code_of_its_author(payload: str) -> None:
    shown = everything(Coloured(), payload)

    assert not OBEYED.search(COLOURS.sub("", shown))
    assert "\x1b]8" not in shown


def test_links_are_told_with_their_address_and_never_made() -> None:
    shown = Coloured().block("see [here](https://example.com/path)", 80)

    assert "https://example.com/path" in shown
    assert "\x1b]8" not in shown


@pytest.mark.parametrize("width", [0, 1, 20, 39, 80, 200])
def test_the_status_line_fits(width: int) -> None:
    line: Callable[[str | None], str] = lambda need: status_line(Standing("s" * 90, "a" * 90, True, State.WAITING, need, None), asks=True, width=width)  # noqa: E731
    assert len(line("n" * 500)) <= width
    assert len(line(None)) <= width
