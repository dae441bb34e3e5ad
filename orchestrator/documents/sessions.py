"""Sessions as lists and short answers show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.clock import format_time
from orchestrator.session import Session, State, Turn
from orchestrator.store import Receipt, SearchHit, SessionSummary

if TYPE_CHECKING:
    from orchestrator.documents.kinds.sessions import HitObject, HitsDocument, NeedDocument, SessionObject, SessionRefDocument, SessionsDocument
    from orchestrator.documents.session import SessionDocument


def sessions_document(summaries: Sequence[SessionSummary]) -> SessionsDocument:
    return {"format": "escalera.sessions/1", "sessions": [_session_object(summary) for summary in summaries]}


def shown_document(session: Session, turns: Sequence[Turn], receipts: Mapping[int, Receipt], need: NeedDocument) -> SessionDocument:
    """The session document with those turns, and the need as it stands now."""
    from orchestrator.documents.session import SessionDocument, session_document

    return SessionDocument({**session_document(session, turns, receipts), "need_now": need})


def hits_document(hits: Sequence[SearchHit]) -> HitsDocument:
    return {"format": "escalera.hits/1", "hits": [_hit_object(hit) for hit in hits]}


def session_ref_document(session: Session, *, export: Path | None = None) -> SessionRefDocument:
    """The session that was made, changed or removed; `export` is the file that keeps it then."""
    kept = None if export is None else str(export)
    return {"format": "escalera.session-ref/1", "id": session.id, "name": session.name, "workspace": session.workspace, "export": kept}


def _session_object(summary: SessionSummary) -> SessionObject:
    return {
        "id": summary.id,
        "name": summary.name,
        "workspace": summary.workspace,
        "created_at": None if summary.created_at is None else format_time(summary.created_at),
        "updated_at": None if summary.updated_at is None else format_time(summary.updated_at),
        "state": State(summary.state),
        "turns": summary.turns,
        "need": summary.need,
        "in_use": summary.in_use,
    }


def _hit_object(hit: SearchHit) -> HitObject:
    return {"session": hit.session, "name": hit.name, "workspace": hit.workspace, "turn": hit.turn, "snippet": hit.snippet}
