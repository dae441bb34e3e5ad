"""The lines of `ask --stream-json`."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from typing_extensions import TypedDict

from orchestrator.documents.kinds.common import Count, Json, Moment, QuestionMode, Schema, Stated
from orchestrator.documents.kinds.turns import ErrorObject, ReasonObject, TurnFields
from orchestrator.modes import Mode
from orchestrator.session import Role


class Line(TypedDict):
    """The first line of a stream names the format."""

    format: NotRequired[Literal["escalera.stream/1"]]


class TurnStarted(Line):
    """A turn was opened: who has it, in which mode, and why."""

    type: Literal["turn_started"]
    turn: Count
    role: Role
    agent: Stated
    mode: Mode | None
    reasons: list[ReasonObject]


class TextEvent(Line):
    """A piece of the answer, of the model's thoughts, or one notice."""

    type: Literal["text", "reasoning", "notice"]
    text: Stated


class ToolCallEvent(Line):
    """The agent asks for a tool."""

    type: Literal["tool_call"]
    id: str
    name: str
    arguments: Json


class ToolResultEvent(Line):
    """What the tool gave back for the call with the same id."""

    type: Literal["tool_result"]
    id: str
    content: str
    is_error: bool


class QuestionEvent(Line):
    """The agent wants something from the human."""

    type: Literal["question"]
    message: str
    mode: QuestionMode
    requested_schema: Json
    id: str | None
    """Null where it was denied at once, since nobody could be asked."""
    expiresAt: Moment | None


class RetryEvent(Line):
    """The call failed and is made again after `wait` seconds."""

    type: Literal["retry"]
    text: str
    error: str
    wait: Annotated[float, Schema(minimum=0)]
    attempt: Count


class WithdrawnEvent(Line):
    """All text since the last step is void: the answer is asked for again."""

    type: Literal["withdrawn"]


class TurnEvent(TurnFields):
    """The last line: the turn document."""

    type: Literal["turn"]
    format: Literal["escalera.turn/1"]


class ErrorEvent(TypedDict):
    """The only line where no turn came to be, or the last one where it broke off: the error document."""

    type: Literal["error"]
    format: Literal["escalera.error/1"]
    error: ErrorObject


StreamLine = TurnStarted | TextEvent | ToolCallEvent | ToolResultEvent | QuestionEvent | RetryEvent | WithdrawnEvent | TurnEvent | ErrorEvent
