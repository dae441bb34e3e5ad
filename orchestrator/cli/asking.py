"""Asking the human at the terminal, in the middle of a turn; where there is none, saying no at once (page 5)."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from orchestrator.cli.output import write
from orchestrator.flat_schema import choices_of, wrong_field
from orchestrator.providers import Answer, Cancel, Question
from orchestrator.quoting import one_line
from orchestrator.terminal import clean

POLL = 0.1
"""Seconds between two looks at whether the question still stands."""


class Nobody:
    """Nobody is there to ask: every question is denied at once, said and kept for the turn document."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self.denied: list[str] = []

    def __call__(self, question: Question) -> Answer:
        denial = f"denied, since nobody could be asked: {one_line(question.message, 200)}"
        self.denied.append(denial)
        self._tell(denial)
        return Answer("cancel", by="nobody")


class AtTerminal:
    """Puts the question on the terminal and reads the answer, for as long as the agent waits for it and the turn runs."""

    denied: Sequence[str] = ()
    """What was denied because nobody could be asked."""

    def __init__(self, cancel: Cancel, quiet: Callable[[], AbstractContextManager[object]]) -> None:
        self._cancel = cancel
        self._quiet = quiet
        """Keeps everything else off the terminal while the human types."""

    def __call__(self, question: Question) -> Answer:
        with self._quiet():
            _forget_typed()
            write(sys.stderr, f"\n{clean(question.message)}\n")
            try:
                return self._form(question) if question.mode == "form" else self._confirm(question)
            except _NoAnswer as none:
                return Answer("cancel", by=none.by)

    def _confirm(self, question: Question) -> Answer:
        while True:
            said = self._line("[y]es or [n]o: ", question).strip().lower()
            if said in ("y", "yes"):
                return Answer("accept")
            if said in ("n", "no"):
                return Answer("decline")

    def _form(self, question: Question) -> Answer:
        fields = question.schema.get("properties")
        required = question.schema.get("required") or ()
        content: dict[str, Any] = {}
        for name, field in fields.items() if isinstance(fields, Mapping) else ():
            value = self._field(str(field.get("title") or name), field, question, required=name in required)
            if value is not None:
                content[name] = value
        return Answer("accept", content)

    def _field(self, title: str, field: Mapping[str, Any], question: Question, *, required: bool) -> object:
        several = field.get("type") == "array"
        choices = choices_of(field)
        for line in (*_told(field), *(f"  {number}. {choice}" for number, choice in enumerate(choices, 1))):
            write(sys.stderr, clean(line) + "\n")
        how = " (numbers, with commas between them)" if choices and several else " (a number)" if choices else ""
        while True:
            said = self._line(f"{clean(title)}{how}: ", question).strip()
            if not said and not required:
                return None
            try:
                value = _value(said, field, choices, several=several)
            except ValueError as error:
                write(sys.stderr, f"{error}\n")
                continue
            wrong = wrong_field(field, value)
            if wrong is None:
                return value
            write(sys.stderr, clean(f"this {wrong}\n"))

    def _line(self, prompt: str, question: Question) -> str:
        """A line that was typed. Raises `_NoAnswer` when the agent takes the question back, or the human ends the input or the turn."""
        write(sys.stderr, prompt)
        while not _typed():
            if question.withdrawn.is_set():
                raise _NoAnswer("asker")
            if self._cancel.is_set():
                raise _NoAnswer("human")
        line = _read()
        if not line:
            raise _NoAnswer("human")
        return line


class _NoAnswer(Exception):
    def __init__(self, by: str) -> None:
        super().__init__(by)
        self.by = by


def _forget_typed() -> None:
    """What was typed before the question stood there is no answer to it."""
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


def _told(field: Mapping[str, Any]) -> Iterator[str]:
    described = field.get("description")
    if isinstance(described, str):
        yield f"  {described}"


def _value(said: str, field: Mapping[str, Any], choices: Sequence[str], *, several: bool) -> object:
    """What was typed, as the field wants it. Raises `ValueError` saying what it wants."""
    if choices:
        chosen = [_choice(part.strip(), choices) for part in (said.split(",") if several else [said])]
        return chosen if several else chosen[0]
    kind = field.get("type")
    if kind == "boolean":
        if said.lower() not in ("y", "yes", "true", "n", "no", "false"):
            raise ValueError("yes or no?")
        return said.lower() in ("y", "yes", "true")
    if kind in ("integer", "number"):
        try:
            return int(said) if kind == "integer" else float(said)
        except ValueError:
            raise ValueError("this wants a number") from None
    if not said:
        raise ValueError("this cannot be empty")
    return said


def _choice(said: str, choices: Sequence[str]) -> str:
    """By number or by its own words."""
    if said.isdecimal() and 1 <= int(said) <= len(choices):
        return choices[int(said) - 1]
    match = [choice for choice in choices if choice.casefold() == said.casefold()]
    if not match:
        raise ValueError(f"choose from 1 to {len(choices)}")
    return match[0]
