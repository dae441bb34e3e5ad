"""What turns have used and cost."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from typing_extensions import TypedDict

from orchestrator.documents.kinds.common import Count, Schema
from orchestrator.spending import CostLabel
from orchestrator.store import UsageKey


class CostObject(TypedDict):
    """What some turns cost, under one label; unknown is null, never 0."""

    label: CostLabel
    usd: Annotated[float, Schema(minimum=0)] | None
    turns: Count


class UsageFigures(TypedDict):
    """Tokens and cost of some turns; what nobody reported is null."""

    turns: Count
    input_tokens: Count | None
    """All that was sent, with what came from the cache and what went into it."""
    output_tokens: Count | None
    cache_read_tokens: Count | None
    cache_write_tokens: Count | None
    reasoning_tokens: Count | None
    cache_read_share: Annotated[float, Schema(minimum=0)] | None
    cost_usd: Annotated[float, Schema(minimum=0)] | None
    """The sum of what is known."""
    cost_label: CostLabel
    """The least sure label in that sum."""
    unknown_turns: Count
    """Turns whose cost nobody knows."""
    costs: list[CostObject]


class UsageRow(UsageFigures):
    """One agent, model, session or day: the key that `by` names."""

    agent: NotRequired[str | None]
    model: NotRequired[str | None]
    session: NotRequired[str | None]
    name: NotRequired[str | None]
    """The session's."""
    day: NotRequired[str | None]


class UsageDocument(TypedDict):
    """`usage --json`."""

    format: Literal["escalera.usage/1"]
    by: UsageKey
    usage: list[Annotated[UsageRow, Schema(anyOf=[{"required": keys} for keys in (["agent"], ["model"], ["session", "name"], ["day"])])]]
    totals: UsageFigures
