"""The turn document: what became of one turn (page 6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from orchestrator.documents.error import error_object
from orchestrator.escalation import Report
from orchestrator.session import Outcome, Reason


def turn_document(report: Report) -> dict[str, Any]:
    """The report of a turn as `ask --json` prints it."""
    turn, plan = report.turn, report.plan
    conversation = plan.request.conversation
    return {
        "format": "escalera.turn/1",
        "session": report.session.id,
        "turn": turn.index,
        "role": turn.role.value,
        "agent": turn.agent,
        "mode": turn.mode,
        "reasons": reasons(turn.reasons),
        "routing": reasons(plan.route.reasons),
        "outcome": turn.outcome.value,
        "answer": turn.answer if turn.outcome in (Outcome.COMPLETED, Outcome.ESCALATED) else None,
        "partial": turn.answer if turn.outcome not in (Outcome.COMPLETED, Outcome.ESCALATED) else None,
        "state": report.session.state.value,
        "usage": None if turn.usage is None else asdict(turn.usage),
        "model_requested": turn.model_requested,
        "model_served": turn.model_served,
        "external_session": None if conversation is None else conversation.id,
        "notices": list(report.notices),
        "error": None if report.error is None else error_object(report.error),
        "escalated_from": report.escalated_from,
    }


def reasons(given: Sequence[Reason]) -> list[dict[str, str]]:
    """Reasons as documents show them."""
    return [{"rule": reason.rule, "detail": reason.detail} for reason in given]
