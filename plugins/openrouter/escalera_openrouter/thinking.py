"""Reasoning that a model writes into its answer as `<think>…</think>`, told apart while it streams."""

from __future__ import annotations

import re
from typing import Literal

_OPEN = "<think>"
_CLOSE = "</think>"
_TAIL = 64
"""Characters in which an end stands that pieces have cut, with blanks behind it."""

Piece = tuple[Literal["text", "reasoning"], str]


_UNOPENED = re.compile(r"\n</think>[ \t]*(?:\r?\n|\Z)")


class UnopenedThinking:
    """Finds a `</think>` on a line of its own that nothing opened: a chat template may have opened it within the prompt."""

    def __init__(self) -> None:
        self._tail = "\n"
        self._over = False

    def is_closed_by(self, piece: str, *, last: bool = False) -> bool:
        """Whether it stands in the answer with this next piece, its line ended; a block that was opened in sight ends the search."""
        if self._over:
            return False
        text = self._tail + piece
        if "<" not in text:
            self._tail = text[-_TAIL:]
            return False
        found = None if _OPEN in text else _UNOPENED.search(text)
        closed = found is not None and (last or found[0].endswith("\n"))
        self._over = closed or _OPEN in text
        self._tail = text[-_TAIL:]
        return closed


def split_unopened(text: str) -> tuple[str, str]:
    """What was thought before the unopened end of it, and the answer behind."""
    found = _UNOPENED.search("\n" + text)
    return (text, "") if found is None else (text[: max(0, found.start() - 1)], text[found.end() - 1 :].lstrip())


class ThinkFilter:
    """Blocks count at the beginning of an answer only, where models put them; later the tag is text like any other."""

    def __init__(self) -> None:
        self._state: Literal["begin", "inside", "answer"] = "begin"
        self._held = ""
        self._seen = False

    @property
    def holds(self) -> bool:
        """Whether something came that is held back, or was only the mark of a block."""
        return self._seen or bool(self._held)

    def feed(self, text: str) -> list[Piece]:
        """What is certain by now, in order."""
        pieces: list[Piece] = []
        self._held += text
        while self._held:
            state = self._state
            if state == "begin":
                self._begin()
            elif state == "inside":
                self._inside(pieces)
            else:
                pieces.append(("text", self._held))
                self._held = ""
            if self._state == state:
                break
        return pieces

    def close(self) -> list[Piece]:
        """What was still held back when the answer ended."""
        rest, self._held = self._held, ""
        if self._state == "begin" and self._seen:
            rest = rest.lstrip()
        return [("reasoning" if self._state == "inside" else "text", rest)] if rest else []

    def _begin(self) -> None:
        stripped = self._held.lstrip()
        if stripped.startswith(_OPEN):
            self._state, self._held, self._seen = "inside", stripped[len(_OPEN) :], True
        elif not _OPEN.startswith(stripped):
            self._state, self._held = "answer", stripped if self._seen else self._held

    def _inside(self, pieces: list[Piece]) -> None:
        before, closed, after = self._held.partition(_CLOSE)
        if closed:
            self._state, self._held = "begin", after
        else:
            keep = next((n for n in range(len(_CLOSE) - 1, 0, -1) if before.endswith(_CLOSE[:n])), 0)
            before, self._held = before[: len(before) - keep], before[len(before) - keep :]
        if before:
            pieces.append(("reasoning", before))
