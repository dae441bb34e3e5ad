"""`escalera session show --turn N --plan`: a past turn explained, from what it was decided by."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.cli.output import Output
from orchestrator.errors import NotFound
from orchestrator.receipts import Receipt, Report, Spans, from_json, redecide
from orchestrator.session import Session, Turn
from orchestrator.store import Store


def receipt_at(store: Store, session: Session, turn: Turn) -> Receipt:
    """The turn's receipt. Raises `NotFound` where there is none that can be read."""
    data = store.receipts(session.id).get(turn.index)
    if data is None:
        raise NotFound(
            f"what turn {turn.index} of session {session.id[:8]} was decided by was not kept",
            hint="turns have it since this version; those of an imported document have it where the document does",
        )
    try:
        return from_json(data)
    except ValueError as problem:
        raise NotFound(f"what turn {turn.index} of session {session.id[:8]} was decided by cannot be read: {problem}") from problem


def explain(output: Output, turn: Turn, receipt: Receipt) -> None:
    """For people: who, which mode and why, what was looked at, what was sent and what was left out."""
    mode = f", mode {turn.mode}" if turn.mode else ""
    output.heading(f"turn {turn.index}: {turn.agent}, {turn.role.value}{mode}, {turn.outcome.value}")
    for reason in turn.routing if turn.mode else ():
        output.say(f"  went there by {reason.rule}: {reason.detail}")
    for reason in turn.reasons:
        output.say(f"  because {reason.rule}: {reason.detail}")
    for line in (*_looked_at(receipt), *_sent(receipt.report)):
        output.say(f"  {line}")
    again = redecide(receipt)
    if (again.role, again.agent, again.mode) != (turn.role, turn.agent, turn.mode):
        mode = f", mode {again.mode}" if again.mode else ""
        output.say(f"  decided again by what was kept, it would be {again.agent}, {again.role.value}{mode}")


def _looked_at(receipt: Receipt) -> Iterator[str]:
    for sensed in receipt.routing.signals:
        signal = sensed.signal
        detail = f": {signal.detail}" if signal.detail else ""
        yield f"signal {signal.name} {signal.weight:+g} times {receipt.rules.factors.get(signal.name, 1):g} ({sensed.plugin}){detail}"
    facts = receipt.facts
    if facts is not None:
        last = "never escalated" if facts.last_escalation is None else f"last escalation turn {facts.last_escalation} by {facts.last_escalation_agent!r}"
        need = "no need" if facts.need_turn is None else f"need of turn {facts.need_turn}, {'changed' if facts.need_changed else 'not changed'} since"
        yield f"facts: state {facts.state.value}, {last}, primary turns since {facts.primary_turns}, {need}"
        if facts.keeps_conversation:
            kept = ", ".join(f"{known.id[:8]} in {known.workspace}, up to turn {known.turn_index}" for known in facts.external_sessions)
            yield f"own conversations: {kept or 'none'}"
    limits = receipt.limits
    yield f"limits: returning_fresh_start_local_turns {limits.returning_fresh_start_local_turns}, context_budget_chars {limits.context_budget_chars}"
    if receipt.flags.fresh:
        yield "flags: --fresh"


def _sent(report: Report) -> Iterator[str]:
    need, brief, budget, history, percepts = report.need, report.brief, report.budget, report.history, report.percepts
    if need.status != "none":
        yield f"need: {need.status}" + (f", of turn {need.turn_index}, told as {need.label}" if need.label else "")
    if brief is not None:
        yield f"brief: {brief.chars:,} characters, from the {brief.source}"
    limit = "no limit" if budget.limit_chars is None else f"of {budget.limit_chars:,}"
    sizes = ", ".join(f"{name} {size:,}" for name, size in budget.parts.items())
    yield f"budget: {budget.total_chars:,} characters ({limit}), about {budget.tokens_estimate:,} tokens: {sizes}"
    yield f"history: {history.scope}, turns sent: {_runs(history.sent) or 'none'}"
    for why, turns in history.dropped.items():
        yield f"left out ({why}): turns {_runs(turns)}"
    for turn, count in history.cut:
        yield f"left out (budget): the oldest {count} rounds of tool calls in turn {turn}"
    if history.shortened:
        yield f"tool results shortened in turns {_runs(history.shortened)}"
    yield f"remembered facts told: {percepts.count}" + (f", {percepts.withheld} withheld" if percepts.withheld else "")


def _runs(spans: Spans) -> str:
    return ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in spans)
