"""How foreign text is set into a prompt of ours, so that it stays recognisable as somebody else's."""

from __future__ import annotations

import re

from orchestrator.messages import well_formed
from orchestrator.tags import neutralise

CUT = " […] "
"""Stands where text was left out."""

_FENCE_LINE = re.compile(r"~{3,}")
_SUSPECT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_LINE_ENDS = re.compile(r"\r\n?|[\u2028\u2029]")
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor, clearing
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x80-\x9f]*(?:\x07|\x1b\\|\x9c)"  # OSC, DCS and the like, only when terminated
    r"|\x1b[ -/]*[0-OQ-WYZ`-~]"  # the other two-character codes
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)


def fenced(text: str) -> str:
    """The text between two lines of tildes that it cannot close itself, with tag look-alikes made harmless; blank stays blank."""
    text = neutralise(well_formed(text)).strip("\n")
    if not text.strip():
        return ""
    runs = _FENCE_LINE.findall(text) if "~~~" in text else ()
    fence = "~" * (max(map(len, runs), default=2) + 1)
    return f"{fence}\n{text}\n{fence}"


def one_line(text: str, limit: int) -> str:
    """The text on one line of at most `limit` characters, for names and headings: no line of it can pose as one of ours."""
    line = " ".join(neutralise(well_formed(text[: 4 * limit])).split())
    return line if len(line) <= limit else line[: max(0, limit - 1)].rstrip() + "…"[:limit]


def clipped(text: str, limit: int) -> str:
    """The text in at most `limit` characters, head and tail kept and the cut marked."""
    if len(text) <= limit:
        return text
    kept = limit - len(CUT)
    if kept < 2:
        return text[: max(0, limit - 1)] + "…"[:limit]
    tail = kept // 3
    return text[: kept - tail] + CUT + text[len(text) - tail :]


def plain(text: str) -> str:
    """The text without terminal escapes and control characters, lines ending in `\\n`; an unterminated code swallows nothing."""
    if text.isprintable():
        return text
    text = well_formed(text)
    return _ESCAPES.sub("", _LINE_ENDS.sub("\n", text)) if _SUSPECT.search(text) else text
