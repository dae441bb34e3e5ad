"""The receipt of a plan: what it was decided by, and what it came to, without any of its texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from orchestrator.modes import Flags
from orchestrator.planning.plan import Plan
from orchestrator.receipts import Json, Receipt
from orchestrator.session import Role, need_label

_MOST_SPANS = 40
_MOST_IDS = 50


def receipt_of(plan: Plan) -> Receipt:
    """Everything that the decision was taken by."""
    lost = any(reason.rule == "external_session_lost" for reason in plan.reasons)
    return Receipt(
        routing=plan.route_facts,
        rules=plan.rules,
        limits=plan.agent.limits,
        facts=plan.facts,
        flags=Flags(fresh=plan.wish.fresh),
        conversation_lost=lost and plan.route.role is Role.PRIMARY,
        report=_report(plan),
    )


def _report(plan: Plan) -> Json:
    report: Json = {
        "need": _need(plan),
        "brief": None if plan.brief is None else {"source": plan.brief.source, "chars": len(plan.brief.text)},
        "budget": {
            "limit_chars": plan.budget.limit_chars,
            "parts": dict(plan.budget.parts),
            "total_chars": plan.budget.total_chars,
            "tokens_estimate": plan.budget.tokens_estimate,
        },
        "history": _history(plan),
        "percepts": {
            "sent": [percept.id[:8] for percept in plan.texts.told[:_MOST_IDS]],
            "count": len(plan.texts.told),
            "withheld": len(plan.chosen.withheld),
        },
    }
    return {name: part for name, part in report.items() if part is not None}


def _need(plan: Plan) -> Json | None:
    if plan.need is None:
        return None if plan.standing.need_status == "none" else {"status": plan.standing.need_status}
    return {"status": "set", "label": need_label(plan.need, plan.index), "turn_index": plan.need.turn_index, "source": plan.need.source}


def _history(plan: Plan) -> Json:
    left_out: dict[str, list[int]] = {}
    for turn, why in plan.fitted.dropped:
        left_out.setdefault(why, []).append(turn)
    return {
        "scope": plan.scope.name,
        "sent": _spans(plan.fitted.sent),
        "dropped": {why: _spans(turns) for why, turns in left_out.items()},
        "shortened": _spans(plan.fitted.shortened),
        "cut": [list(one) for one in plan.fitted.cut[-_MOST_SPANS:]],
    }


def _spans(indexes: Iterable[int]) -> list[list[Any]]:
    """Runs of indexes, each by its first and last; the newest, where there are very many."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return runs[-_MOST_SPANS:]


def expanded(spans: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The indexes in such runs."""
    return tuple(index for first, last in spans for index in range(first, last + 1))
