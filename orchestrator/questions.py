"""Questions as they are kept: what was asked by whom, how long it stands, and what became of it (page 5)."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from orchestrator.lifetimes import Lifespan
from orchestrator.providers import Answer, Question


class QuestionState(StrEnum):
    """Where a question stands; a withdrawn one is answered, by its asker."""

    PENDING = "pending"
    ANSWERED = "answered"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Given:
    """An answer, and when it was given."""

    answer: Answer
    at: datetime


@dataclass(frozen=True, slots=True)
class StoredQuestion:
    """A question in the store. It has an answer exactly where it is no longer pending: an expired one was cancelled by `expiry`."""

    id: str
    question: Question
    """With session, turn and agent; its `withdrawn` is the asker's own and not kept."""
    life: Lifespan
    keep: timedelta
    """How long it is kept once it is answered or expired."""
    state: QuestionState = QuestionState.PENDING
    given: Given | None = None
    late: tuple[Given, ...] = field(default=())
    """What humans answered when it was closed already: refused, and kept to be sent as a message."""
    told: bool = False
    """Whether the asker knows how it ended, and everything that came late."""

    settled: bool = field(default=True, compare=False)
    """Whether its end is written down. Until then it is overdue, or its asker gone, and another process may still be the first to end it."""

    @property
    def is_pending(self) -> bool:
        return self.state is QuestionState.PENDING

    @property
    def standing(self) -> str:
        """Its state in words that say whose doing it was."""
        if self.given is None:
            return self.state.value
        if self.state is QuestionState.EXPIRED:
            return "expired"
        by = self.given.answer.by
        return "withdrawn by its asker" if by == "asker" else f"answered already ({self.given.answer.action} by {by})"


def is_due(stored: StoredQuestion) -> bool:
    """Whether a message to the agent is due: an answer or the end of a durable question, or an answer that came late."""
    if stored.is_pending or stored.told:
        return False
    return bool(stored.late) or (stored.question.durable and stored.given is not None and stored.given.answer.by != "asker")
