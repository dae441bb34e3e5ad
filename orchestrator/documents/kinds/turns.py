"""A turn, an error, and what the server says of one."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from typing_extensions import TypedDict

from orchestrator.documents.kinds.common import Count, Schema, Stated
from orchestrator.messages import CostSource
from orchestrator.modes import Mode
from orchestrator.session import Outcome, Role, State


class ReasonObject(TypedDict):
    """Why a mode or an agent was chosen: a rule's name, and what it saw."""

    rule: Stated
    detail: str


class UsageObject(TypedDict):
    """Tokens and cost as the provider reported them; what it did not report is null, never 0."""

    input_tokens: Count | None
    output_tokens: Count | None
    cache_read_tokens: Count | None
    cache_write_tokens: Count | None
    reasoning_tokens: Count | None
    cost_usd: Annotated[float, Schema(minimum=0)] | None
    cost_source: CostSource | None
    cache_in_input: bool
    """Whether the cached tokens are among the input tokens."""


class ErrorObject(TypedDict):
    """What went wrong. `type` is a class of the error tree; the last six stand where that class has them."""

    type: Annotated[str, Schema(pattern="^[A-Z][A-Za-z]+$")]
    message: str
    hint: str | None
    retryable: bool
    agent: str | None
    retry_after: float | None
    which: NotRequired[Literal["first_byte", "idle", "turn"]]
    problems: NotRequired[dict[str, str]]
    """Of an answer: each field that does not fit, with what it must be."""
    limit: NotRequired[int | None]
    needed: NotRequired[int | None]
    parts: NotRequired[dict[str, int]]
    candidates: NotRequired[list[str]]


class TurnFields(TypedDict):
    """What became of one turn."""

    session: Stated
    turn: Count
    role: Role
    agent: Stated
    mode: Mode | None
    """Null for a primary turn."""
    reasons: list[ReasonObject]
    routing: list[ReasonObject]
    """Why this agent has the turn."""
    outcome: Outcome
    answer: str | None
    """Null where the turn was not completed."""
    partial: str | None
    """What had come of an answer that was not completed."""
    state: State
    usage: UsageObject | None
    model_requested: str | None
    model_served: str | None
    external_session: str | None
    """The conversation that the agent keeps on its own side."""
    notices: list[str]
    error: ErrorObject | None
    escalated_from: Count | None
    """The primary turn that handed over."""
    open_questions: list[Stated]
    """Questions of the agent that wait for a human though the turn has ended, by id."""
    artifacts: list[Stated]
    """What of the turn is kept as an artifact, by id."""


class TurnDocument(TurnFields):
    """`ask --json`."""

    format: Literal["escalera.turn/1"]


class ErrorDocument(TypedDict):
    """Any command with `--json` that could not do what it was asked; of `ask` only where no turn came to be."""

    format: Literal["escalera.error/1"]
    error: ErrorObject


class ProblemError(ErrorObject):
    """The same, with the two keys that clients of models look for."""

    code: str | None
    param: str | None


class ProblemDocument(TypedDict):
    """What the server answers instead of what was asked for: problem details (RFC 9457), and our error document."""

    format: Literal["escalera.error/1"]
    type: Stated
    title: Stated
    status: Annotated[int, Schema(minimum=400, maximum=599)]
    detail: str
    error: ProblemError
