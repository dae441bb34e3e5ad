"""An answer on its way: the blocks that are complete, and the rest that still grows."""

from __future__ import annotations

import re

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


class Answer:
    """Cuts a stream of text into blocks of Markdown: at blank lines, outside code fences, and not before what is indented.

    All blocks and the rest together are the text. Work is linear in the text's length.
    """

    def __init__(self, shown: int) -> None:
        """`shown` is how many characters of the growing rest `tail` gives at most."""
        self._shown = shown
        self._block: list[str] = []
        self._line: list[str] = []
        self._fence: str | None = None
        self._after_blank = False
        self.tail = ""

    def feed(self, text: str) -> list[str]:
        """Take in a piece; the blocks that are complete now."""
        blocks = []
        for piece in text.splitlines(keepends=True) if "\n" in text else [text]:
            if self._after_blank and not self._line and piece and piece[0] not in " \t\n":
                blocks.append(self.rest())
            self._line.append(piece)
            self.tail = (self.tail + piece)[-self._shown :]
            if piece.endswith("\n"):
                self._end_line()
        return blocks

    def rest(self) -> str:
        """What is there of the block that is not complete; it is begun afresh."""
        rest = "".join([*self._block, *self._line])
        self._block, self._line, self._fence, self._after_blank, self.tail = [], [], None, False, ""
        return rest

    def _end_line(self) -> None:
        line = "".join(self._line)
        self._block.append(line)
        self._line = []
        fence = _FENCE.match(line)
        if self._fence is None:
            self._fence = fence[1] if fence else None
        elif fence and fence[1].startswith(self._fence) and not line.strip().strip(fence[1][0]):
            self._fence = None
        self._after_blank = self._fence is None and not line.strip()
