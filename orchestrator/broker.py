"""The question broker: between the agents that ask and the human who answers, in this process or another (page 5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from orchestrator.answers import problems_of, refusal_of
from orchestrator.clock import Clock
from orchestrator.errors import AnswerInvalid, NotFound, QuestionClosed, StoreError
from orchestrator.lifetimes import begun
from orchestrator.providers import Answer, Cancel, Question
from orchestrator.questions import Given, QuestionState, StoredQuestion, is_due
from orchestrator.store import Store

POLL = 0.2
"""Seconds between two looks of a waiter at its question."""


@dataclass(frozen=True, slots=True)
class Terms:
    """How long a question stands, and is kept; those of its creation count for its whole life."""

    ttl: timedelta
    max_age: timedelta
    keep: timedelta


class Broker:
    """Questions of one store. `terms` gives those that count now."""

    def __init__(self, store: Store, clock: Clock, terms: Callable[[], Terms], new_id: Callable[[], str]) -> None:
        self._store, self._clock, self._terms, self._new_id = store, clock, terms, new_id

    def open(self, question: Question, *, expires_at: datetime | None = None) -> StoredQuestion:
        """Put a question, for as long as the settings say; `expires_at` only where the asker waits until then and no longer.

        Raises `StoreError`, and `ValueError` saying why it may not be put.
        """
        refusal = refusal_of(question)
        if refusal is not None:
            raise ValueError(refusal)
        terms = self._terms()
        life = begun(self._store.now(), ttl=terms.ttl, max_age=terms.max_age, expires_at=expires_at)
        stored = StoredQuestion(self._new_id(), question, life, terms.keep)
        self._store.add_question(stored)
        return stored

    def peek(self, ref: str) -> StoredQuestion:
        """The question as it stands; for whoever enforces its deadline, or shows it in a list. Raises `NotFound`, `Ambiguous`."""
        return self._store.peek_question(ref)

    def read(self, ref: str) -> StoredQuestion:
        """An item read, by which a pending question lives on. Where that cannot be stored, the deadline stays as it is stored."""
        stored = self._store.peek_question(ref)
        if stored.settled and not (stored.is_pending and stored.life.gains_by_touch(self._store.now())):
            return stored
        try:
            return self._store.read_question(stored.id)
        except StoreError:
            return stored

    def listed(self, *, session: str | None = None, pending: bool = True) -> Sequence[StoredQuestion]:
        """The open ones or all, oldest first; reads none of them."""
        return self._store.questions(session=session, pending=pending)

    def untold(self, session: str) -> Sequence[StoredQuestion]:
        """Those of which the agents of a session have something to learn, now or once they are answered; oldest first."""
        found = self._store.questions(session=session, untold=True)
        return [stored for stored in found if stored.is_pending or is_due(stored)]

    def answer(self, ref: str, answer: Answer) -> StoredQuestion:
        """Answer a question: of several answers exactly one counts.

        Raises `AnswerInvalid` (it stays pending), `QuestionClosed` (nothing changes, but that what was accepted late is kept), `NotFound`.
        """
        stored = self._store.peek_question(ref)
        problems = problems_of(stored.question, answer) if stored.is_pending else {}
        if problems:
            raise _invalid(stored, problems)
        stored, won = self._store.answer_question(stored.id, answer)
        if not won:
            raise _closed(stored, answer)
        return stored

    def wait(self, stored: StoredQuestion, question: Question, cancel: Cancel, *, stays: bool = False) -> Waiting:
        """What the asker waits with. `question` is its own, which it may withdraw; one that `stays` is there for others when the wait is cancelled."""
        return Waiting(self, self._store, self._clock, stored, question, cancel, stays=stays)

    def told(self, *questions: StoredQuestion) -> None:
        """Their askers know how they ended, and all that came late."""
        self._store.mark_questions_told([stored.id for stored in questions])

    def tidy(self) -> None:
        """Write down what has expired, and remove what was kept long enough; where that cannot be done now, another time."""
        with suppress(StoreError):
            self._store.settle_questions()


class Waiting:
    """The asker's side of one open question. It ends by an answer, expiry, or the asker's own wish, and always with an answer.

    Beside the stored deadline it holds one of the monotonic clock: a wall clock that is set back lets nobody wait for ever.
    """

    def __init__(self, broker: Broker, store: Store, clock: Clock, stored: StoredQuestion, question: Question, cancel: Cancel, *, stays: bool = False) -> None:
        self._broker, self._store, self._clock, self._question, self._cancel, self._stays = broker, store, clock, question, cancel, stays
        self.stored = stored
        """As it was seen last."""
        self._until = clock.monotonic() + (stored.life.expires_at - store.now()).total_seconds()
        self._looked: float | None = None

    @property
    def left(self) -> float:
        """Seconds until it expires, as far as is known; never negative."""
        return max(0.0, self._until - self._clock.monotonic())

    def until_it_ends(self) -> StoredQuestion:
        """Wait."""
        while (ended := self.ended()) is None:
            self._clock.sleep(min(POLL, max(0.01, self.left)), self._cancel.event)
        return ended

    def withdraw(self) -> StoredQuestion:
        """The asker wants no answer any more: how it ended."""
        return self._close(Answer("cancel", by="asker"))

    def ended(self) -> StoredQuestion | None:
        """How it ended, whoever ended it; `None` while it is open. No read of it: it would never end. Raises `Cancelled` where it stays open."""
        if self._stays:
            self._cancel.raise_if_set()
        if self._question.withdrawn.is_set() or self._cancel.is_set():
            return self.withdraw()
        now = self._clock.monotonic()
        if self._looked is not None and now - self._looked < POLL and now < self._until:
            return None
        self._looked = now
        self._see(lambda: self._broker.peek(self.stored.id))
        if not self.stored.is_pending and not self.stored.settled:
            self._see(lambda: self._store.read_question(self.stored.id))  # before the asker is told, so that everyone is told the same
        if not self.stored.is_pending:
            return self.stored
        return self._expire() if now >= self._until else None

    def read(self) -> StoredQuestion:
        """The human looks at it: it lives on."""
        self._see(lambda: self._broker.read(self.stored.id))
        return self.stored

    def answer(self, answer: Answer) -> StoredQuestion:
        """The human's answer, or what stands where somebody was quicker. Raises `AnswerInvalid`."""
        try:
            return self._broker.answer(self.stored.id, answer)
        except QuestionClosed:
            return self._broker.peek(self.stored.id)
        except (StoreError, NotFound):  # nobody else can answer it then
            return self._by_itself(QuestionState.ANSWERED, answer)

    def _close(self, answer: Answer) -> StoredQuestion:
        try:
            return self._store.answer_question(self.stored.id, answer)[0]
        except (StoreError, NotFound):
            return self._by_itself(QuestionState.ANSWERED, answer)

    def _expire(self) -> StoredQuestion:
        try:
            self._store.expire_question(self.stored.id, self.stored.life.expires_at)
            return self._store.peek_question(self.stored.id)
        except (StoreError, NotFound):
            return self._by_itself(QuestionState.EXPIRED, Answer("cancel", by="expiry"))

    def _see(self, look: Callable[[], StoredQuestion]) -> None:
        """Take in how it stands. A store that cannot be read at the moment says nothing new."""
        try:
            seen = look()
        except NotFound:  # its session was dropped
            seen = self._by_itself(QuestionState.ANSWERED, Answer("cancel", by="asker"))
        except StoreError:
            return
        self._until += (seen.life.expires_at - self.stored.life.expires_at).total_seconds()
        self.stored = seen

    def _by_itself(self, state: QuestionState, answer: Answer) -> StoredQuestion:
        """The end of a question where the store cannot be asked."""
        return replace(self.stored, state=state, given=Given(answer, self._store.now()))


def _invalid(stored: StoredQuestion, problems: dict[str, str]) -> AnswerInvalid:
    said = "; ".join(f"{name or 'the content'} {problem}" for name, problem in problems.items())
    hint = f"it stays open: `escalera questions show {stored.id[:8]}` says what it asks for"
    return AnswerInvalid(f"this does not answer question {stored.id[:8]}: {said}", problems=problems, hint=hint)


def _closed(stored: StoredQuestion, answer: Answer) -> QuestionClosed:
    kept = any(late.answer == answer for late in stored.late)
    hint = "what you answered is kept: `escalera ask --continue` sends it to the agent as a message" if kept else "what it was answered first stands"
    return QuestionClosed(f"question {stored.id[:8]} takes no answer any more: it is {stored.standing}", hint=hint)
