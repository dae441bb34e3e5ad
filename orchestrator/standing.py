"""A session as it stands now: what time and later turns did to its need and to its open question (page 1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from orchestrator.lifetimes import LAST_NEED_KEPT
from orchestrator.session import LastNeed, Need, NeedStatus, Session, State, Turn, TurnLog, asking_turn, need_status, waiting_lapsed


@dataclass(frozen=True, slots=True)
class Standing:
    """The session's header after expiry, and what was found on the way."""

    session: Session
    """To be stored with the next turn; planning stores nothing."""
    need_status: NeedStatus
    shown_need: Need | None
    """The need with its text, also when it was just cleared or still stands as the last one."""
    asking: Turn | None
    """The turn whose question is open."""
    waiting_lapsed: bool = False

    @property
    def previous_goal(self) -> Need | None:
        """A need that was served: told on `returning` as the goal before."""
        return self.shown_need if self.need_status == "fulfilled" else None


def standing(session: Session, log: TurnLog, *, now: datetime, need_expiry_hours: float, waiting_expiry_hours: float, loaded: bool = True) -> Standing:
    """Apply page 1's expiry rules. `loaded` is the first touch of the session by this process: only then a need is taken as fulfilled."""
    session = replace(session, last_need=_kept(session.last_need, now))
    lapsed = waiting_lapsed(session, log, now, waiting_expiry_hours)
    if lapsed:
        session = replace(session, state=State.ROUTING)
    asking = asking_turn(session, log)
    status = need_status(session.need, log, now, need_expiry_hours, waiting=session.state is State.WAITING or not loaded)
    if session.need is None:
        last = session.last_need
        if last is not None and last.reason != "cleared":
            return Standing(session, "fulfilled" if last.reason == "fulfilled" else "expired", last.need, asking, lapsed)
        return Standing(session, "none", None, asking, lapsed)
    if status in ("fulfilled", "expired"):
        cleared = replace(session, need=None, last_need=LastNeed(session.need, status, now))
        return Standing(cleared, status, session.need, asking, lapsed)
    return Standing(session, "set", session.need, asking, lapsed)


def cleared_need(session: Session, now: datetime) -> Session:
    """The session after the user cleared its need; the need can be restored for seven days."""
    if session.need is None:
        return session
    return replace(session, need=None, last_need=LastNeed(session.need, "cleared", now))


def restored_need(session: Session, now: datetime, *, turn_index: int) -> Session | None:
    """The session with its last need brought back: fresh in time, at the position now, and the one that stood until then as the last. `None` without one."""
    last = _kept(session.last_need, now)
    if last is None:
        return None
    need = replace(last.need, turn_index=turn_index, during=False, updated_at=now, source="user")
    return replace(cleared_need(replace(session, last_need=None), now), need=need)


def _kept(last: LastNeed | None, now: datetime) -> LastNeed | None:
    return last if last is not None and now - last.cleared_at <= LAST_NEED_KEPT else None
