"""What a turn would send, and how two plans differ."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from typing_extensions import TypedDict

from orchestrator.documents.kinds.common import Count, Json, Schema, Stated
from orchestrator.documents.kinds.turns import ErrorObject, ReasonObject
from orchestrator.history.fit import Why
from orchestrator.history.scope import ScopeName
from orchestrator.lifetimes import Lifetime
from orchestrator.modes import Mode
from orchestrator.session import NeedSource, NeedStatus, Role, State


class NeedFields(Lifetime):
    """What the user is trying to do now; a need that was cleared keeps its text."""

    text: str | None
    status: NeedStatus
    label: Literal["current", "verify"] | None
    """How a need that is set is told: as it stands, or to be verified."""
    turn_index: Count | None
    source: NeedSource | None


class BlockObject(TypedDict):
    """One of the system texts."""

    name: Stated
    chars: Count
    text: str


class TextPart(TypedDict):
    """What was said."""

    type: Literal["text"]
    text: str


class ReasoningPart(TypedDict):
    """What a model thought aloud."""

    type: Literal["reasoning"]
    text: str
    model: str | None


class ToolCallPart(TypedDict):
    """A request to run a tool."""

    type: Literal["tool_call"]
    id: str
    name: str
    arguments: Json


class ToolResultPart(TypedDict):
    """What a tool gave back."""

    type: Literal["tool_result"]
    id: str
    content: str
    is_error: bool


PartObject = TextPart | ReasoningPart | ToolCallPart | ToolResultPart


class MessageObject(TypedDict):
    """A message in the form that belongs to no provider."""

    role: Literal["system", "user", "assistant"]
    parts: list[PartObject]


class LeftOutTurn(TypedDict):
    """A turn that is not sent; with `batches`, one that is sent without so many of its oldest rounds of tool calls."""

    turn: Count
    why: Why
    batches: NotRequired[Annotated[int, Schema(minimum=1)]]


class HistoryObject(TypedDict):
    """The history as it is sent; `messages` with the prompt, without the system texts."""

    scope: ScopeName
    sent: list[Count]
    shortened: list[Count]
    """Turns with tool results that were cut down."""
    dropped: list[LeftOutTurn]
    messages: list[MessageObject]


class WithheldPercept(TypedDict):
    """A remembered fact that is not told."""

    id: Stated
    why: Stated


class PerceptsObject(TypedDict):
    """The remembered facts by id."""

    sent: list[Stated]
    withheld: list[WithheldPercept]


class BudgetParts(TypedDict):
    """The size of each part in characters."""

    system: Count
    orientation: Count
    percepts: Count
    tools: Count
    prompt: Count
    history: Count


class BudgetObject(TypedDict):
    """What the turn may take and what it takes; a limit of null is none."""

    limit_chars: Count | None
    parts: BudgetParts
    total_chars: Count
    tokens_estimate: Count
    chars_per_token: float
    """What a window of tokens is turned into characters with."""
    chars_per_token_measured: bool
    """Whether the provider's own counts of the newest turns gave it, and corrected the estimate."""
    tokens_counted_by: str | None
    """The plugin that counted the tokens; null where they are an estimate."""


Delivery = Annotated[Json, Schema(anyOf=[{"required": ["argv", "stdin"]}, {"required": ["body"]}])]
"""What the provider would send: `{"argv", "system_prompt_file", "stdin"}` or `{"body"}`; secrets as `***`."""


class PlanDocument(TypedDict):
    """`plan --json`: what the next turn would be and would send."""

    format: Literal["escalera.plan/1"]
    session: Stated
    """`<new>` where the real turn would begin one."""
    turn: Count
    role: Role
    agent: Stated
    provider: Stated
    mode: Mode | None
    """Null for a primary turn."""
    reasons: list[ReasonObject]
    routing: list[ReasonObject]
    """Why this agent has the turn."""
    state: State
    need: NeedFields
    system: list[BlockObject]
    history: HistoryObject
    percepts: PerceptsObject
    budget: BudgetObject
    tools: list[str]
    """The names of those that the agent is offered."""
    notices: list[str]
    delivery: Delivery


class PlanSide(TypedDict):
    """One of two plans that are compared: how it was decided, and what it sends."""

    what: Stated
    """Which: `now`, `with LIMIT=VALUE`, `turn 7`."""
    turn: Count
    role: Role
    agent: Stated
    mode: Mode | None
    reasons: list[ReasonObject]
    limit_chars: Count | None
    parts: BudgetParts
    total_chars: Count
    tokens_estimate: Count
    scope: ScopeName
    sent: list[Count]
    dropped: list[Count]
    """Turns that are left out for the budget."""
    shortened: list[Count]
    rounds_left_out: Count
    percepts: Count
    percepts_withheld: Count


class PlanDiffDocument(TypedDict):
    """`plan --compare` and `plan --diff` with `--json`: `before` and what is another in `after`."""

    format: Literal["escalera.plan-diff/1"]
    session: Stated
    before: PlanSide
    after: PlanSide | None
    """Null where it could not be sent."""
    error: ErrorObject | None
    """Why it could not."""
    notices: list[str]
    diff: list[str]
    """The texts, as lines of a unified diff; empty where they are the same."""
