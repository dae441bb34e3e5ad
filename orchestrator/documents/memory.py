"""Remembered facts as documents have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.clock import format_time
from orchestrator.percepts import Archived, Edge, Percept

if TYPE_CHECKING:
    from orchestrator.documents.kinds import ArchivedObject, EdgeObject, PerceptObject


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
