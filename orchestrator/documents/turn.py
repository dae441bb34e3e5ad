"""The turn document: what became of one turn (page 6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from orchestrator.documents.error import error_object
from orchestrator.messages import Usage
from orchestrator.modes import Mode
from orchestrator.recording import Report
from orchestrator.session import TOLD, Reason
from orchestrator.workspaces import same_workspace

if TYPE_CHECKING:
    from orchestrator.documents.kinds.turns import ReasonObject, TurnDocument, UsageObject


def turn_document(report: Report, *, open_questions: Sequence[str] = ()) -> TurnDocument:
    """The report of a turn as `ask --json` prints it; `open_questions` are the ids of those that wait though it has ended."""
    turn, plan = report.turn, report.plan
    told = turn.outcome in TOLD
    return {
        "format": "escalera.turn/1",
        "session": report.session.id,
        "turn": turn.index,
        "role": turn.role,
        "agent": turn.agent,
        "mode": None if turn.mode is None else Mode(turn.mode),
        "reasons": reasons(turn.reasons),
        "routing": reasons(plan.route.reasons),
        "outcome": turn.outcome,
        "answer": turn.answer if told else None,
        "partial": None if told else turn.answer,
        "state": report.session.state,
        "usage": None if turn.usage is None else usage_object(turn.usage),
        "model_requested": turn.model_requested,
        "model_served": turn.model_served,
        "external_session": _external_session(report),
        "notices": list(report.notices),
        "error": None if report.error is None else error_object(report.error),
        "escalated_from": report.escalated_from,
        "open_questions": list(open_questions),
        "artifacts": [artifact.id for artifact in report.artifacts],
    }


def _external_session(report: Report) -> str | None:
    """The conversation that the agent keeps after this turn; while it has none to go on with, the one that was begun."""
    own = (known for known in report.session.external_sessions if known.agent == report.turn.agent)
    kept = (known.id for known in own if same_workspace(known.workspace, report.plan.workspace))
    begun = report.plan.request.conversation
    return next(kept, None if begun is None else begun.id)


def usage_object(usage: Usage) -> UsageObject:
    """Tokens and cost; what is not known is null."""
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "cost_usd": usage.cost_usd,
        "cost_source": usage.cost_source,
        "cache_in_input": usage.cache_in_input,
    }


def reasons(given: Sequence[Reason]) -> list[ReasonObject]:
    """Reasons as documents show them."""
    return [{"rule": reason.rule, "detail": reason.detail} for reason in given]
