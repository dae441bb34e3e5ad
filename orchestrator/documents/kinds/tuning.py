"""What `tune` found."""

from __future__ import annotations

from typing import Annotated, Literal

from typing_extensions import TypedDict

from orchestrator.documents.kinds.common import Count, Moment, Schema, Stated
from orchestrator.spending import CostLabel


class TuneMistake(TypedDict):
    """A turn that is decided otherwise than it was recorded, with the limits that it was recorded under."""

    session: Stated
    turn: Count
    recorded: str
    replayed: str


class TuneMissing(TypedDict):
    """A turn that cannot be replayed."""

    session: Stated
    turn: Count
    why: str


class SelfTest(TypedDict):
    """What replaying with the limits of then comes to: the error of every figure beside it."""

    decisions: Count
    """Turns that were replayed."""
    decisions_wrong: Count
    tokens_recorded: Count
    tokens_off_percent: Annotated[float, Schema(minimum=0)]
    """What the turns are off by, each in either direction, of all recorded tokens."""


class TuneTokens(TypedDict):
    """Tokens that the models read, estimated; each is in one class."""

    static: Count
    """Static text and tools that no cache holds."""
    orientation: Count
    percepts: Count
    prompt: Count
    history: Count
    cached: Count
    """Static text that is sent again, and what an agent's own conversation holds."""
    total: Count


class TuneLeftOut(TypedDict):
    """What would not be sent for lack of room, summed over the turns."""

    turns: Count
    tool_results_shortened: Count
    tool_rounds: Count
    percepts: Count


class TuneCost(TypedDict):
    """By the agents' `prices` as they are set now; null for unknown, never 0."""

    label: CostLabel
    usd: Annotated[float, Schema(minimum=0)] | None
    unknown_turns: Count


class TuneFigures(TypedDict):
    """What is sent, read, left out and paid for."""

    refused: Count
    """Turns that could not be sent, since what is never dropped is larger than the budget."""
    beyond_record: Count
    """Turns to which more remembered facts would have been told than are recorded; their figures are too small."""
    tokens: TuneTokens
    left_out: TuneLeftOut
    cost: TuneCost
    self_test: SelfTest


class TuneSetting(TuneFigures):
    """One value of a limit."""

    value: bool | float | str | None
    in_force: bool
    """Whether it is what is set now."""
    mode_changed: Count
    """Turns in another mode than with the limits that they were recorded under."""
    content_changed: Count
    """Turns that would have sent something else."""


class TuneSweep(TypedDict):
    """One limit at several values."""

    limit: Stated
    path: Stated
    """The setting that sets it."""
    settings: list[TuneSetting]
    cheapest: bool | float | str | None
    """The value with the least cost or, where no cost is known, the fewest tokens; of none that would refuse a turn."""
    by: Literal["cost", "tokens"]


class TuneApplied(TypedDict):
    """What was written, and how to undo it."""

    path: Stated
    value: bool | float | str | None
    file: Stated
    undo: Stated


class TuneDocument(TypedDict):
    """`tune --json`: what other limits would have done to recorded sessions."""

    format: Literal["escalera.tune/1"]
    agent: str | None
    since: Moment | None
    sessions: Count
    turns: Count
    """All that were looked at."""
    not_replayed: Count
    missing: list[TuneMissing]
    """Of those that cannot be replayed the first thousand."""
    self_test: SelfTest
    mistakes: list[TuneMistake]
    """Of the wrong decisions the first thousand."""
    then: TuneFigures
    """Replayed with the limits of then."""
    sweeps: list[TuneSweep]
    applied: TuneApplied | None
