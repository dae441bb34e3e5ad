"""Questions as documents show them: what is asked, how long it stands, what became of it (page 5)."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from orchestrator.clock import format_time
from orchestrator.lifetimes import lifetime_fields
from orchestrator.questions import Given, StoredQuestion

if TYPE_CHECKING:
    from orchestrator.documents.kinds.questions import GivenObject, QuestionDocument, QuestionObject


def question_document(stored: StoredQuestion, now: datetime) -> QuestionDocument:
    """One question, as of now."""
    return {"format": "escalera.question/1", **question_object(stored, now)}


def question_object(stored: StoredQuestion, now: datetime) -> QuestionObject:
    """The same in an item and in a list."""
    question, life = stored.question, stored.life
    return {
        "id": stored.id,
        "session": question.session,
        "turn": question.turn,
        "agent": question.agent,
        "mode": question.mode,
        "message": question.message,
        "requested_schema": dict(question.schema),
        "url": question.url,
        "durable": question.durable,
        "created": format_time(life.created),
        "state": stored.state,
        "answer": None if stored.given is None else _given(stored.given),
        "late": [_given(given) for given in stored.late],
        **lifetime_fields(life.expires_at, life.last_touched, now),
    }


def _given(given: Given) -> GivenObject:
    answer = given.answer
    return {"action": answer.action, "content": dict(answer.content), "by": answer.by, "at": format_time(given.at)}
