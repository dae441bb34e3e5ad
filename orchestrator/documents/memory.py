"""Remembered facts as documents have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from orchestrator.clock import format_time
from orchestrator.percepts import Archived, Consolidated, Edge, Engram, Percept, Stale

if TYPE_CHECKING:
    from orchestrator.documents.kinds.memory import (
        ArchivedObject,
        ArchiveDocument,
        ConsolidatedDocument,
        EdgeObject,
        PerceptDocument,
        PerceptObject,
        PerceptsDocument,
        StaleDocument,
    )


def percepts_document(percepts: Sequence[Percept], engrams: Sequence[Engram], edges: Sequence[Edge]) -> PerceptsDocument:
    """A list, with the links that are between those in it."""
    shown = {percept.id for percept in percepts}
    return {
        "format": "escalera.percepts/1",
        "percepts": [percept_object(percept) for percept in percepts],
        "engrams": [{"subject": engram.subject, "weight": engram.weight, "percepts": list(engram.percepts)} for engram in engrams],
        "edges": [edge_object(edge) for edge in edges if {edge.source, edge.target} <= shown],
    }


def percept_document(percept: Percept, *, stored: bool | None) -> PerceptDocument:
    return {"format": "escalera.percept/1", **percept_object(percept), "stored": stored}


def stale_document(found: Sequence[Stale], archive_after_days: float | None) -> StaleDocument:
    """`archive_after_days` is `None` where nothing goes for its age."""
    ages = archive_after_days is not None
    return {
        "format": "escalera.stale/1",
        "archive_after_days": archive_after_days,
        "percepts": [{**percept_object(one.percept), "seconds_left": one.seconds_left if ages else None} for one in found],
    }


def archive_document(found: Sequence[Archived]) -> ArchiveDocument:
    return {"format": "escalera.archive/1", "archived": [archived_object(one) for one in found]}


def consolidated_document(done: Consolidated) -> ConsolidatedDocument:
    return {
        "format": "escalera.consolidated/1",
        "pruned": list(done.pruned),
        "promoted": list(done.promoted),
        "merged": list(done.merged),
        "archived": list(done.archived),
        "capped": list(done.capped),
        "problem": done.problem,
    }


def percept_object(percept: Percept) -> PerceptObject:
    return {
        "id": percept.id,
        "content": percept.content,
        "weight": percept.weight,
        "core": percept.core,
        "scope": percept.scope,
        "workspace": percept.workspace,
        "session": percept.session,
        "producer": percept.producer,
        "consumer": percept.consumer,
        "subject": percept.subject,
        "trust": percept.trust,
        "source": None if percept.source is None else dict(percept.source),
        "idle_seconds": percept.idle_seconds,
        "created_at": None if percept.created_at is None else format_time(percept.created_at),
        "updated_at": None if percept.updated_at is None else format_time(percept.updated_at),
        "last_used_at": None if percept.last_used_at is None else format_time(percept.last_used_at),
    }


def edge_object(edge: Edge) -> EdgeObject:
    return {"source": edge.source, "target": edge.target, "kind": edge.kind}


def archived_object(one: Archived) -> ArchivedObject:
    return {
        **percept_object(one.percept),
        "archived_at": None if one.archived_at is None else format_time(one.archived_at),
        "reason": one.reason,
        "idle_days": one.idle_days,
        "edges": [edge_object(edge) for edge in one.edges],
    }
