"""What a turn was decided and sent with."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from typing_extensions import TypedDict

from orchestrator.documents.kinds.common import Count, Json, Moment, Schema, Stated
from orchestrator.documents.kinds.plans import BudgetParts
from orchestrator.documents.kinds.turns import ReasonObject
from orchestrator.history.fit import Why
from orchestrator.history.scope import ScopeName
from orchestrator.modes import Mode
from orchestrator.session import NeedSource, NeedStatus, Outcome, Role


class BriefSize(TypedDict):
    """The brief as it was told: whose it was, and how long."""

    source: Literal["user", "primary", "prompt"]
    chars: Count
    carried: NotRequired[bool]
    """Whether an escalation turn has told it before."""


class NeedPlace(TypedDict):
    """The need as it stood, or the last one as it was when it went; its text is told in the turn that set it."""

    status: NeedStatus
    label: NotRequired[Literal["current", "verify"]]
    turn_index: NotRequired[Count]
    source: NotRequired[NeedSource]
    chars: NotRequired[Count]
    during: NotRequired[bool]
    """Whether a turn set it itself."""
    updated_at: NotRequired[Moment]


Spans = list[Annotated[list[Count], Schema(minItems=2, maxItems=2)]]
"""Runs of turns, each by its first and its last."""


class ReceiptBudget(TypedDict):
    """What the turn might take, and what it took as it was planned."""

    limit_chars: Count | None
    parts: BudgetParts
    total_chars: Count
    tokens_estimate: Count


class ReceiptHistory(TypedDict):
    """Which turns were sent, and which were not and why."""

    scope: ScopeName
    sent: Spans
    dropped: dict[Why, Spans]
    shortened: Spans
    cut: Spans
    """Turns that were sent without so many of their oldest rounds of tool calls."""


class ReceiptPercepts(TypedDict):
    """The remembered facts that were told, by the beginnings of their ids, and how many were and were not."""

    sent: list[Stated]
    count: Count
    withheld: Count
    over: NotRequired[Count]
    """How many of the withheld ones a limit kept back."""


class ReceiptReport(TypedDict):
    """What was planned to be sent: sizes and places, no texts."""

    need: NeedPlace
    brief: NotRequired[BriefSize]
    budget: ReceiptBudget
    history: ReceiptHistory
    percepts: ReceiptPercepts


class ReceiptObject(TypedDict):
    """What a turn was decided by. `facts` are those of the mode; a primary turn has none. An absent key is false, null or empty."""

    version: Count
    routing: Json
    """What was chosen, who asked, who has the roles, and the signals."""
    rules: Json
    limits: dict[str, float | bool | None]
    facts: NotRequired[Json]
    flags: dict[str, bool]
    conversation_lost: NotRequired[bool]
    report: ReceiptReport


class ReceiptDocument(TypedDict):
    """`session show --turn N --plan --json`: a past turn, explained."""

    format: Literal["escalera.receipt/1"]
    session: Stated
    turn: Count
    role: Role
    agent: Stated
    mode: Mode | None
    reasons: list[ReasonObject]
    routing: list[ReasonObject]
    outcome: Outcome
    receipt: ReceiptObject
