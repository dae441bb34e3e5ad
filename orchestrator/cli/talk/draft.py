"""The draft of a prompt, and which of it the user typed: only that names files to attach."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer
from prompt_toolkit.document import Document
from prompt_toolkit.history import History


class Draft(Buffer):
    """Knows of each character whether it was typed or completed here. All else counts as a stranger's: what was pasted, recalled, or undone.

    A paste without a line break and without an `@` is the user's, so that a path can be pasted behind an `@` that was typed.
    """

    def __init__(self, *, completer: Completer, history: History) -> None:
        self.own = ""
        """The text, with a line break in the place of every character that is not the user's."""
        self._known = ""
        self._typing = False
        super().__init__(completer=completer, complete_while_typing=True, history=history, multiline=True, on_text_changed=self._follow)

    def paste(self, text: str) -> None:
        with self._by_user(typing="\n" not in text.strip("\n") and "@" not in text):
            super().insert_text(text)

    def bring_back(self, text: str, own: str) -> None:
        """Put this, with what of it is the user's, in front of what is there."""
        if self.text.strip():
            text, own = f"{text}\n{self.text}", f"{own}\n{self.own}"
        self.document = Document(text, len(text))
        self.own = own

    def reset(self, document: Document | None = None, append_to_history: bool = False) -> None:
        super().reset(document, append_to_history)
        self._known, self.own = self.text, "\n" * len(self.text)

    def insert_text(self, data: str, overwrite: bool = False, move_cursor: bool = True, fire_event: bool = True) -> None:
        """Of a key, or of what a completion adds."""
        with self._by_user():
            super().insert_text(data, overwrite, move_cursor, fire_event)

    def go_to_completion(self, index: int | None) -> None:
        with self._by_user():
            super().go_to_completion(index)

    def yank_nth_arg(self, n: int | None = None, _yank_last_arg: bool = False) -> None:
        """A word of an earlier prompt, which may have been pasted."""
        before = self.own, self._known
        super().yank_nth_arg(n, _yank_last_arg)
        self.own, self._known = before
        self._follow(self)

    @contextmanager
    def _by_user(self, *, typing: bool = True) -> Iterator[None]:
        self._typing = typing
        try:
            yield
        finally:
            self._typing = False

    def _follow(self, _buffer: Buffer) -> None:
        """What stayed is whose it was; what came in between is the user's while that types."""
        old, new = self._known, self.text
        start = _shared(old, new)
        end = _shared(old[start:][::-1], new[start:][::-1])
        came = new[start : len(new) - end]
        self.own = self.own[:start] + (came if self._typing else "\n" * len(came)) + self.own[len(old) - end :]
        self._known = new


def _shared(one: str, other: str) -> int:
    """How many characters both begin with; by halves, since a draft may be a pasted book and each key asks."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
