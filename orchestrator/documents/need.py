"""The need as documents show it: what it says, how it stands, how long it lives (pages 1 and 5)."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from orchestrator.lifetimes import idle_deadline, lifetime_fields
from orchestrator.session import Need, NeedStatus, need_label

if TYPE_CHECKING:
    from orchestrator.documents.kinds.plans import NeedFields


def need_fields(shown: Need | None, status: NeedStatus, *, pending: int, expiry_hours: float, now: datetime) -> NeedFields:
    """A need with its status, and its label for the turn that is pending; the text of one that was cleared is kept (page 6)."""
    if shown is None:
        return {"text": None, "status": status, "label": None, "turn_index": None, "source": None, **lifetime_fields(None, None, now)}
    return {
        "text": shown.text,
        "status": status,
        "label": need_label(shown, pending) if status == "set" else None,
        "turn_index": shown.turn_index,
        "source": shown.source,
        **lifetime_fields(idle_deadline(shown.updated_at, expiry_hours), shown.updated_at, now),
    }
