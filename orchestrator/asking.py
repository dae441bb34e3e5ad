"""Asking the human in the middle of a turn: whoever is here, whoever answers from another process, or – where nobody is there – nobody (page 5)."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import suppress
from typing import Literal, Protocol

from orchestrator.answers import fields_of
from orchestrator.broker import Broker, Waiting
from orchestrator.clock import format_time
from orchestrator.dispatch.desk import Shown, Watch
from orchestrator.errors import StoreError
from orchestrator.providers import Answer, Cancel, Question
from orchestrator.questions import StoredQuestion
from orchestrator.quoting import one_line

_MOST_NAMED = 6
"""Fields that the command which answers a question names."""

Human = Callable[[Waiting], StoredQuestion]
"""Puts an open question to the human who is here; gives it when it has ended, whoever ended it."""


class Notify(Protocol):
    """Tells the user, who may be looking elsewhere, that somebody asks."""

    def __call__(self, event: Literal["question"], *, session: str, agent: str, text: str) -> None: ...


class Asking:
    """What the turns of one command ask through."""

    def __init__(self, broker: Broker, cancel: Cancel, *, human: Human | None, waits: bool, watch: Watch, notify: Notify | None = None) -> None:
        """`human` is whoever is here to be asked, if somebody is; `waits` says to wait for an answer from elsewhere where nobody is."""
        self._broker, self._cancel, self._human, self._waits, self._watch, self._notify = broker, cancel, human, waits, watch, notify
        self.denied: list[str] = []
        """What was denied because nobody could be asked."""
        self.left: list[StoredQuestion] = []
        """Questions that stay open when the turn has ended."""

    @property
    def exit_code(self) -> int:
        """Of a turn that came to its end (page 6)."""
        return 75 if self.left else 5 if self.denied else 0

    def __call__(self, question: Question) -> Answer:
        if self._human is None and not self._waits and not question.durable:
            return self._nobody(question)
        try:
            stored = self._broker.open(question)
        except ValueError as refusal:
            self._tell(f"a question of {question.agent!r} was not put, since {refusal}")
            return Answer("cancel", by="refused")
        except StoreError as error:
            self._tell(f"a question cannot be kept, so nobody can be asked it: {error.message}")
            return self._nobody(question)
        self._show(question, stored)
        if self._human is None and not self._waits:
            return self._later(stored)
        ended = self._ended(stored, question)
        if not ended.late:  # what came late is told in another turn
            with suppress(StoreError):
                self._broker.told(ended)
        return Answer("cancel", by="asker") if ended.given is None else ended.given.answer

    def take_up(self, stored: StoredQuestion) -> None:
        """Put one that was left open, or wait for its answer, where that can be done here."""
        if self._human is not None or self._waits:
            self._ended(stored, stored.question, stays=True)

    def _ended(self, stored: StoredQuestion, question: Question, *, stays: bool = False) -> StoredQuestion:
        if self._notify is not None:
            self._notify("question", session=question.session or "", agent=question.agent, text=question.message)
        waiting = self._broker.wait(stored, question, self._cancel, stays=stays)
        return self._elsewhere(waiting) if self._human is None else self._human(waiting)

    def _nobody(self, question: Question) -> Answer:
        self._show(question, None)
        denial = f"denied, since nobody could be asked: {one_line(question.message, 200)}"
        self.denied.append(denial)
        self._tell(denial)
        return Answer("cancel", by="nobody")

    def _later(self, stored: StoredQuestion) -> Answer:
        """Leave it open: the agent is told to end its turn, and gets the answer as a message."""
        self.left.append(stored)
        return Answer("cancel", by="later")

    def _elsewhere(self, waiting: Waiting) -> StoredQuestion:
        stored = waiting.stored
        self._tell(f"waiting for an answer to question {stored.id[:8]}: {one_line(stored.question.message, 200)} ({how_to_answer(stored)})")
        return waiting.until_it_ends()

    def _show(self, question: Question, stored: StoredQuestion | None) -> None:
        known = {"id": None, "expiresAt": None} if stored is None else {"id": stored.id, "expiresAt": format_time(stored.life.expires_at)}
        self._watch(Shown("question", question.message, {"mode": question.mode, "requested_schema": dict(question.schema), **known}))

    def _tell(self, text: str) -> None:
        self._watch(Shown("notice", text))


def left_open(stored: StoredQuestion) -> str:
    """What is said of a question that waits for its answer when the turn has ended."""
    return f"question {stored.id[:8]} waits for an answer: {how_to_answer(stored)}; then `escalera ask --continue` goes on"


def how_to_answer(stored: StoredQuestion) -> str:
    """The command that answers it."""
    names = list(fields_of(stored.question))
    # A stranger chose these names, and the command is there to be copied.
    content = "".join(f" {shlex.quote(one_line(name, 40))}=…" for name in names) if len(names) <= _MOST_NAMED else " '{…}'"
    return f"escalera questions answer {stored.id[:8]} --accept{content}, --decline or --cancel"
