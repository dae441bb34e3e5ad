"""What a session is without its last turns."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from orchestrator.session import EarlierTurns, Outcome, Role, Session, State, Turn, TurnLog, ends_with_question
from orchestrator.standing import cleared_need


def last_exchange(log: TurnLog) -> tuple[Turn, ...]:
    """The last turn, and before it the one that it continues: what came of the user's last message. Empty where there is none."""
    last = next(log.newest_first(outcomes=None), None)
    if last is None:
        return ()
    begun = None if last.continues is None else log.get(last.continues)
    return (last,) if begun is None else (begun, last)


def session_without(exchange: tuple[Turn, ...], session: Session, log: TurnLog, *, now: datetime, before: Session | None, after: Session | None) -> Session:
    """The header as it was before that exchange. What was changed since then by other means stays.

    `before` and `after` are the headers with which it began and ended, where this process saw both; else they are
    concluded from the turns. An agent's own conversation knows what was undone, so none of the agents goes on in it.
    """
    agents = {turn.agent for turn in exchange}
    session = replace(session, external_sessions=tuple(known for known in session.external_sessions if known.agent not in agents))
    if before is not None and after is not None:
        restored = {name: getattr(before, name) for name in ("state", "need", "last_need", "brief") if getattr(session, name) == getattr(after, name)}
        return replace(session, **restored)
    if session.need is not None and session.need.during and session.need.turn_index >= exchange[0].index:
        session = cleared_need(session, now)
    return replace(session, state=_state(EarlierTurns(log, exchange[0].index)))


def session_before(index: int, session: Session, log: TurnLog) -> Session:
    """The header of a copy that ends before that turn, concluded from the turns that are left.

    What only later ones, or the time between, can have put there is not in it.
    """
    need, last = session.need, session.last_need
    return replace(
        session,
        state=_state(EarlierTurns(log, index)),
        need=None if need is None or need.turn_index >= index else need,
        last_need=None if last is None or last.need.turn_index >= index else last,
        brief=None,
    )


def _state(log: TurnLog) -> State:
    """Whether the last turn that is left waits for a reply."""
    last = next(log.newest_first(), None)
    asks = last is not None and last.role is Role.ESCALATION and last.outcome is Outcome.COMPLETED and ends_with_question(last.answer)
    return State.WAITING if asks else State.ROUTING
