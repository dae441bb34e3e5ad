"""The plan-diff document: two plans of a turn side by side, and how their texts differ (page 6)."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, cast

from orchestrator.documents.error import error_object
from orchestrator.documents.turn import reasons
from orchestrator.errors import EscaleraError
from orchestrator.messages import Reasoning, Text, ToolCall, compact_json
from orchestrator.modes import Mode
from orchestrator.planning.plan import Plan
from orchestrator.receipts import Receipt, Spans
from orchestrator.session import Turn

if TYPE_CHECKING:
    from orchestrator.documents.kinds.plans import BudgetParts, PlanDiffDocument, PlanSide


def plan_diff_document(
    session: str, before: PlanSide, after: PlanSide | None, *, texts: tuple[Plan, Plan | None], error: EscaleraError | None = None, notices: Sequence[str] = ()
) -> PlanDiffDocument:
    """`texts` are the plans whose texts are compared, in that order; the second is `None` where it could not be sent."""
    old, new = texts
    after_name = "" if after is None else after["what"]
    lines = () if new is None else difflib.unified_diff(list(_lines(old)), list(_lines(new)), before["what"], after_name, n=2, lineterm="")
    return {
        "format": "escalera.plan-diff/1",
        "session": session,
        "before": before,
        "after": after,
        "error": None if error is None else error_object(error),
        "notices": list(notices),
        "diff": list(lines),
    }


def side_of(plan: Plan, what: str) -> PlanSide:
    """A turn that is planned now."""
    budget, fitted = plan.budget, plan.fitted
    return {
        "what": what,
        "turn": plan.index,
        "role": plan.route.role,
        "agent": plan.agent.name,
        "mode": plan.mode,
        "reasons": reasons(plan.reasons),
        "limit_chars": budget.limit_chars,
        "parts": cast("BudgetParts", {str(name): size for name, size in budget.parts.items()}),
        "total_chars": budget.total_chars,
        "tokens_estimate": budget.tokens_estimate,
        "scope": plan.scope.name,
        "sent": list(fitted.sent),
        "dropped": [left.turn for left in fitted.dropped if left.why == "budget"],
        "shortened": list(fitted.shortened),
        "rounds_left_out": fitted.batches_left_out,
        "percepts": len(plan.texts.told),
        "percepts_withheld": len(plan.chosen.withheld),
    }


def side_of_turn(turn: Turn, receipt: Receipt) -> PlanSide:
    """A turn that was taken, as its receipt has it."""
    budget, history, percepts = receipt.report.budget, receipt.report.history, receipt.report.percepts
    return {
        "what": f"turn {turn.index}",
        "turn": turn.index,
        "role": turn.role,
        "agent": turn.agent,
        "mode": None if turn.mode is None else Mode(turn.mode),
        "reasons": reasons(turn.reasons),
        "limit_chars": budget.limit_chars,
        "parts": cast("BudgetParts", dict(budget.parts)),
        "total_chars": budget.total_chars,
        "tokens_estimate": budget.tokens_estimate,
        "scope": history.scope,
        "sent": _indexes(history.sent),
        "dropped": _indexes(history.dropped.get("budget", ())),
        "shortened": _indexes(history.shortened),
        "rounds_left_out": sum(count for _, count in history.cut),
        "percepts": percepts.count,
        "percepts_withheld": percepts.withheld,
    }


def _indexes(spans: Spans) -> list[int]:
    return [index for first, last in spans for index in range(first, last + 1)]


def _lines(plan: Plan) -> Iterator[str]:
    """Everything that is sent, a line at a time, each part under its name."""
    for block in plan.texts.blocks:
        yield f"--- {block.name}"
        yield from block.text.splitlines()
    own = plan.texts.conversation
    if own is not None:
        yield f"--- conversation: {own.action}"
        yield "--- context block"
        yield from own.context_block.splitlines()
    for message in plan.request.messages:
        for part in message.parts:
            yield f"--- {message.role}"
            if isinstance(part, Text | Reasoning):
                yield from part.text.splitlines()
            elif isinstance(part, ToolCall):
                yield f"{part.name} {compact_json(part.arguments)}"
            else:
                yield from part.content.splitlines()
