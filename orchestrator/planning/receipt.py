"""The receipt of a plan: what it was decided by, and what it came to, without any of its texts."""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.clock import format_time
from orchestrator.modes import Flags
from orchestrator.planning.plan import Plan
from orchestrator.receipts import BriefReport, BudgetReport, HistoryReport, NeedReport, PerceptsReport, Receipt, Report, Spans
from orchestrator.session import NeedStatus, Role, need_label

_MOST_SPANS = 40
_MOST_IDS = 50
_LIMITS = frozenset({"percept_inject_max", "percept_inject_max_bytes"})
"""Why a fact is withheld that a larger limit would let through."""


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


def _report(plan: Plan) -> Report:
    budget, told, withheld = plan.budget, plan.texts.told, plan.chosen.withheld
    return Report(
        budget=BudgetReport(budget.limit_chars, {str(name): size for name, size in budget.parts.items()}, budget.total_chars, budget.tokens_estimate),
        history=_history(plan),
        percepts=PerceptsReport(tuple(percept.id[:8] for percept in told[:_MOST_IDS]), len(told), len(withheld), sum(why in _LIMITS for _, why in withheld)),
        need=_need(plan),
        brief=None if plan.brief is None else BriefReport(plan.brief.source, len(plan.brief.text), plan.brief.carried),
    )


def _need(plan: Plan) -> NeedReport:
    need = plan.need or plan.standing.shown_need
    if need is None:
        return NeedReport(plan.standing.need_status)
    status: NeedStatus = plan.standing.need_status if plan.need is None else "set"
    label = None if plan.need is None else need_label(need, plan.index)
    updated = None if need.updated_at is None else format_time(need.updated_at)
    return NeedReport(status, label, need.turn_index, need.source, len(need.text), need.during, updated)


def _history(plan: Plan) -> HistoryReport:
    left_out: dict[str, list[int]] = {}
    for turn, why in plan.fitted.dropped:
        left_out.setdefault(why, []).append(turn)
    return HistoryReport(
        scope=plan.scope.name,
        sent=_spans(plan.fitted.sent),
        dropped={why: _spans(turns) for why, turns in left_out.items()},
        shortened=_spans(plan.fitted.shortened),
        cut=plan.fitted.cut[-_MOST_SPANS:],
    )


def _spans(indexes: Iterable[int]) -> Spans:
    """Runs of indexes; the newest, where there are very many."""
    runs: list[tuple[int, int]] = []
    for index in sorted(indexes):
        if runs and index == runs[-1][1] + 1:
            runs[-1] = runs[-1][0], index
        else:
            runs.append((index, index))
    return tuple(runs[-_MOST_SPANS:])
