"""Questions, and what waits for their answers."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from orchestrator.documents.kinds.common import Count, Json, Moment, QuestionMode, Stated
from orchestrator.lifetimes import Lifetime
from orchestrator.questions import QuestionState


class GivenObject(TypedDict):
    """An answer; `by` is `human`, or `expiry` or `asker` where a question was cancelled without one."""

    action: Literal["accept", "decline", "cancel"]
    content: Json
    by: Stated
    at: Moment


class QuestionObject(Lifetime):
    """What an agent asks a human. A withdrawn question is answered: cancelled by its `asker`."""

    id: Stated
    session: str | None
    turn: Count | None
    agent: str
    mode: QuestionMode
    message: str
    requested_schema: Json
    url: str | None
    durable: bool
    """Whether the answer may also come when the turn has ended."""
    created: Moment
    state: QuestionState
    answer: GivenObject | None
    late: list[GivenObject]
    """Answers that came too late, and are kept."""


class QuestionsDocument(TypedDict):
    """`questions list --json`, oldest first."""

    format: Literal["escalera.questions/1"]
    questions: list[QuestionObject]


class QuestionDocument(QuestionObject):
    """`questions show` and `answer` with `--json`, and each line of `questions watch --json`."""

    format: Literal["escalera.question/1"]


class ContinuationObject(Lifetime):
    """A token, which nothing lengthens: each answer brings a new one."""

    token: Stated


class WaitingDocument(TypedDict):
    """What the server answers while a turn waits for a question: with the token, another request goes on with it."""

    format: Literal["escalera.waiting/1"]
    session: Stated
    turn: Count
    question: QuestionObject
    continuation: ContinuationObject
