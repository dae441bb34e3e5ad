"""The receipt document: what a past turn was decided by (page 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from orchestrator.documents.turn import reasons
from orchestrator.modes import Mode
from orchestrator.receipts import Receipt, as_json
from orchestrator.session import Turn

if TYPE_CHECKING:
    from orchestrator.documents.kinds.receipts import ReceiptDocument, ReceiptObject


def receipt_document(session: str, turn: Turn, receipt: Receipt) -> ReceiptDocument:
    """The turn's decision as it is stored, and beside it what it was taken by."""
    return {
        "format": "escalera.receipt/1",
        "session": session,
        "turn": turn.index,
        "role": turn.role,
        "agent": turn.agent,
        "mode": None if turn.mode is None else Mode(turn.mode),
        "reasons": reasons(turn.reasons),
        "routing": reasons(turn.routing),
        "outcome": turn.outcome,
        "receipt": cast("ReceiptObject", as_json(receipt)),
    }
