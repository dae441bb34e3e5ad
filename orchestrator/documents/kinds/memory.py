"""Percepts, engrams, and what became of them."""

from __future__ import annotations

from typing import Annotated, Literal

from typing_extensions import TypedDict

from orchestrator.documents.kinds.common import Count, Json, Moment, Schema, Stated
from orchestrator.percepts import EdgeKind


class PerceptObject(TypedDict):
    """A remembered fact; `weight` in hundredths, a `workspace` of null is everywhere."""

    id: Stated
    content: Stated
    weight: Annotated[int, Schema(minimum=0, maximum=100)]
    core: bool
    scope: Literal["session", "global"]
    workspace: str | None
    session: str | None
    producer: Literal["user", "primary", "escalation", "system"]
    consumer: Stated
    subject: str | None
    trust: Literal["user", "agent", "tool_output"]
    source: Json | None
    """Where it was heard."""
    idle_seconds: Annotated[float, Schema(minimum=0)]
    created_at: Moment | None
    updated_at: Moment | None
    last_used_at: Moment | None


class EdgeObject(TypedDict):
    """A link between two facts, by their ids: `source` extends, updates, … `target`."""

    source: Stated
    target: Stated
    kind: EdgeKind


class EngramObject(TypedDict):
    """Facts with the same subject, by their ids; `weight` is the mean of theirs."""

    subject: Stated
    weight: Annotated[int, Schema(minimum=0, maximum=100)]
    percepts: list[Stated]


class PerceptsDocument(TypedDict):
    """`memory list --json`, heaviest first."""

    format: Literal["escalera.percepts/1"]
    percepts: list[PerceptObject]
    engrams: list[EngramObject]
    edges: list[EdgeObject]


class PerceptDocument(PerceptObject):
    """`memory learn`, `forget` and `restore` with `--json`."""

    format: Literal["escalera.percept/1"]
    stored: bool | None
    """After `learn`: false where the fact was known and was reinforced. Null after `forget`, true after `restore`."""


class ChosenPercept(TypedDict):
    """A fact that is told, and how well it fits: 1 for all where nothing was asked for, 0 for a core fact that does not fit."""

    id: Stated
    content: Stated
    score: Annotated[float, Schema(minimum=0)]


class LeftOutPercept(TypedDict):
    """A fact that is not told, and why."""

    id: Stated
    content: Stated
    why: Stated


class WhyDocument(TypedDict):
    """`memory why --json`, best first."""

    format: Literal["escalera.why/1"]
    agent: Stated
    chosen: list[ChosenPercept]
    withheld: list[LeftOutPercept]


class StalePercept(PerceptObject):
    """A fact that goes to the archive unless it is used; `seconds_left` of running time are left to it, null is for ever."""

    seconds_left: Annotated[float, Schema(minimum=0)] | None


class StaleDocument(TypedDict):
    """`memory stale --json`: global facts that are not core, the next to go first. Days of null: nothing goes for its age."""

    format: Literal["escalera.stale/1"]
    archive_after_days: float | None
    percepts: list[StalePercept]


class ArchivedObject(PerceptObject):
    """A fact that left the store, with the links that touched it."""

    archived_at: Moment | None
    reason: Stated
    idle_days: Annotated[float, Schema(minimum=0)]
    edges: list[EdgeObject]


class ArchiveDocument(TypedDict):
    """`memory archive --json`, in the order of leaving."""

    format: Literal["escalera.archive/1"]
    archived: list[ArchivedObject]


class ConsolidatedDocument(TypedDict):
    """`memory consolidate --json`: what one pass did, facts by their ids."""

    format: Literal["escalera.consolidated/1"]
    pruned: list[Stated]
    promoted: list[Stated]
    merged: list[Stated]
    archived: list[Stated]
    capped: list[Stated]
    problem: Stated | None
    """Why the archive could not be written."""


class SkippedLine(TypedDict):
    """What an import left out."""

    line: Annotated[int, Schema(minimum=1)]
    why: Stated


class ImportedDocument(TypedDict):
    """`memory import --json`: how many facts are new, how many were known, and what was left out."""

    format: Literal["escalera.imported/1"]
    stored: Count
    known: Count
    skipped: list[SkippedLine]


class MemoryDocument(TypedDict):
    """`memory export`: everything that is remembered, of all sessions, and what is in the archive."""

    format: Literal["escalera.memory/1"]
    percepts: list[PerceptObject]
    edges: list[EdgeObject]
    archived: list[ArchivedObject]
