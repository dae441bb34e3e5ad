"""Asking the human at the terminal, in the middle of a turn (page 5)."""

from __future__ import annotations

import math
import os
import select
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from orchestrator.answers import choices_of, fields_of, is_required, value_of
from orchestrator.broker import Waiting
from orchestrator.cli.keys import Keys, Line, key_by_key
from orchestrator.cli.output import write
from orchestrator.errors import AnswerInvalid
from orchestrator.providers import Answer, Question
from orchestrator.questions import StoredQuestion
from orchestrator.terminal import clean

POLL = 0.1
"""Seconds between two looks at whether something was typed."""


class AtTerminal:
    """Puts the question on the terminal and reads the answer, for as long as it is open.

    Each time it is prompted for, and each key that is pressed, counts as a read, so that it does not expire while somebody is at it.
    A text that was begun when it ends all the same is kept.
    """

    def __init__(self, quiet: Callable[[], AbstractContextManager[object]], *, moves: bool, draft: Callable[[str], None] | None = None) -> None:
        """`moves` says whether the cursor may be moved, so that the time that is left counts down where it stands.

        `draft` takes a text that was begun; without it, it is kept as an answer that came late.
        """
        self._quiet = quiet
        """Keeps everything else off the terminal while the human types."""
        self._moves, self._draft = moves, draft
        self._keys: Keys | None = None

    def __call__(self, waiting: Waiting) -> StoredQuestion:
        question = waiting.stored.question
        with self._quiet(), key_by_key() as self._keys:
            _forget_typed()
            write(sys.stderr, f"\n{clean(question.message)}\n" + (f"{clean(question.url)}\n" if question.url else ""))
            try:
                return self._asked(question, waiting)
            except _Ended as ended:
                _forget_typed()
                write(sys.stderr, f"\n({ended.how}{self._kept(ended, waiting)})\n")
                return ended.stored

    def _kept(self, ended: _Ended, waiting: Waiting) -> str:
        """Keep what was begun, and say where."""
        if not ended.typed.strip() or ended.said is None:
            return "; what you answered is kept: `escalera ask --continue` sends it" if ended.stored.late else ""
        if self._draft is not None:
            self._draft(ended.typed)
            return "; what you typed is the draft of your next message"
        ended.stored = waiting.answer(ended.said)
        if not ended.stored.late:
            return f"; you had typed: {ended.typed.strip()}"
        return f"; what you typed is kept, and `escalera ask --continue` sends it: {ended.typed.strip()}"

    def _asked(self, question: Question, waiting: Waiting) -> StoredQuestion:
        while True:
            answer = self._form(question, waiting) if question.mode == "form" else self._confirm(waiting)
            try:
                ended = waiting.answer(answer)
            except AnswerInvalid as error:
                write(sys.stderr, f"{clean(error.message)}\n")
                continue
            if ended.given is None or ended.given.answer != answer:
                raise _Ended(ended)
            return ended

    def _confirm(self, waiting: Waiting) -> Answer:
        while True:
            said = self._line("[y]es or [n]o: ", waiting)
            if said is None:
                return Answer("cancel")
            if said.lower() in ("y", "yes"):
                return Answer("accept")
            if said.lower() in ("n", "no"):
                return Answer("decline")

    def _form(self, question: Question, waiting: Waiting) -> Answer:
        content: dict[str, Any] = {}
        for name, field in fields_of(question).items():
            if not _is_due(field, content):
                continue
            for line in _told(field):
                write(sys.stderr, clean(line) + "\n")
            try:
                said, value = self._field(str(field.get("title") or name), field, waiting, required=is_required(question, name))
            except _Ended as ended:
                if field.get("type", "string") == "string" and not choices_of(field):
                    ended.said = Answer("accept", {**content, name: ended.typed.strip()})
                raise
            if not said:
                return Answer("cancel")
            if value is not None:
                content[name] = value
        return Answer("accept", content)

    def _field(self, title: str, field: Mapping[str, Any], waiting: Waiting, *, required: bool) -> tuple[bool, object]:
        """Whether something was said, and the value; `None` for a field that is left out."""
        choices, several = choices_of(field), field.get("type") == "array"
        how = " (numbers, with commas between them)" if choices and several else " (a number)" if choices else ""
        while True:
            said = self._line(f"{clean(title, keep_newlines=False)}{how}: ", waiting)
            if said is None:
                return False, None
            if not said and not required:
                return True, field.get("default")
            try:
                if not said and field.get("type", "string") == "string" and not choices:
                    raise ValueError("cannot be empty")
                return True, value_of(field, said)
            except ValueError as error:
                write(sys.stderr, f"this {clean(str(error))}\n")

    def _line(self, prompt: str, waiting: Waiting) -> str | None:
        """What was typed; `None` at the end of the input. Raises `_Ended` when the question ends otherwise."""
        ended = waiting.ended()
        if ended is not None:
            raise _Ended(ended)
        waiting.read()
        return self._typed_line(prompt, waiting) if self._keys is None else self._pressed_line(prompt, waiting, self._keys)

    def _pressed_line(self, prompt: str, waiting: Waiting, keys: Keys) -> str | None:
        """Key by key."""
        shown = _time_left(waiting.left, "a key")
        write(sys.stderr, f"{shown}\n{prompt}")
        line = Line(prompt, moves=self._moves)
        while True:
            if pressed := keys.pressed(POLL):
                waiting.read()
                line.take(pressed)
            if line.is_done:
                write(sys.stderr, "\n")
                return None if line.is_end else line.text.strip()
            ended = waiting.ended()
            if ended is not None:
                raise _Ended(ended, line.text)
            if self._moves and (now := _time_left(waiting.left, "a key")) != shown:
                shown = now
                line.write_above(shown)

    def _typed_line(self, prompt: str, waiting: Waiting) -> str | None:
        """As a whole, where its keys cannot be had."""
        write(sys.stderr, f"{_time_left(waiting.left, 'Enter')}\n{prompt}")
        while not _typed():
            ended = waiting.ended()
            if ended is not None:
                raise _Ended(ended)
        line = _read()
        return line.strip() if line else None


class _Ended(Exception):
    """The question has ended, and not by what was typed here."""

    def __init__(self, stored: StoredQuestion, typed: str = "") -> None:
        super().__init__()
        self.stored, self.typed = stored, typed
        """How it ended, and the line that was begun."""
        self.said: Answer | None = None
        """What that line would have answered, as far as it goes."""

    @property
    def how(self) -> str:
        given = self.stored.given
        if given is None or given.answer.by == "asker":
            return "the question was withdrawn"
        if given.answer.by == "expiry":
            return "nobody answered in time"
        return f"answered elsewhere: {given.answer.action}"


def _time_left(seconds: float, what: str) -> str:
    whole = math.ceil(seconds)
    return f"({whole // 60}:{whole % 60:02} left; {what} gives more time)"


def _forget_typed() -> None:
    """What was typed before the question stood there is no answer to it; nor is what was begun when it ended an answer to the next."""
    if os.name == "posix" and sys.stdin.isatty():
        import termios

        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def _typed() -> bool:
    """Whether a line can be read within the next moment; where that cannot be told, reading waits for it."""
    if os.name != "posix":
        return True
    return bool(select.select([sys.stdin], [], [], POLL)[0])


def _read() -> str:
    """One line; past Python's own buffer, in which a second line would lie where `_typed` cannot see it."""
    if os.name != "posix":
        return sys.stdin.readline()
    return os.read(sys.stdin.fileno(), 65536).decode("utf-8", "replace")


def _is_due(field: Mapping[str, Any], content: Mapping[str, Any]) -> bool:
    """Whether a field is asked for after what was said so far: `x-when` names the values of others with which it means something."""
    when = field.get("x-when")
    return not isinstance(when, Mapping) or all(isinstance(values, list | tuple) and content.get(name) in values for name, values in when.items())


def _told(field: Mapping[str, Any]) -> Iterator[str]:
    """What stands above the prompt for a field."""
    described = field.get("description")
    if isinstance(described, str):
        yield f"  {described}"
    for number, (_, words) in enumerate(choices_of(field), 1):
        yield f"  {number}. {words}"
