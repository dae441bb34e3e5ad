"""When something expires: the one convention, its four sides, and the table in which every expiring resource declares its own (page 5)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from typing_extensions import TypedDict

from orchestrator.clock import format_time


class Side(StrEnum):
    """How the deadline of a resource comes about."""

    TOUCH_ON_READ = "touch-on-read"
    """An item read renews it, up to a ceiling: a `Lifespan`."""
    ABSOLUTE = "absolute"
    """It is fixed at the start."""
    IDLE = "idle"
    """Use renews it, without a ceiling."""
    SIGNED = "signed"
    """It stands inside a signed token, which is only ever minted anew."""


@dataclass(frozen=True, slots=True)
class Expiring:
    """A kind of thing that expires: its side, and what says how long it lives."""

    resource: str
    side: Side
    settings: tuple[str, ...] = ()
    """The settings that say it."""
    span: timedelta | None = None
    """Where no setting says it."""
    table: str | None = None
    """The table of the store whose rows carry its deadline."""


LAST_NEED_KEPT = timedelta(days=7)
LEASE_TTL = timedelta(seconds=60)

QUESTION = Expiring("question", Side.TOUCH_ON_READ, settings=("questions.ttl", "questions.max_age"), table="questions")
KEPT_QUESTION = Expiring("answered or expired question", Side.ABSOLUTE, settings=("questions.keep",))
TASK = Expiring("background task and its result", Side.TOUCH_ON_READ, settings=("tasks.ttl", "tasks.max_age"), table="tasks")
ARTIFACT = Expiring("artifact", Side.ABSOLUTE, settings=("artifacts.ttl",), table="artifacts")
RENEWED_ARTIFACT = Expiring("artifact that opted in", Side.TOUCH_ON_READ, settings=("artifacts.idle_ttl", "artifacts.ttl"), table="artifacts")
NEED = Expiring("need", Side.IDLE, settings=("need_expiry_hours",))
LAST_NEED = Expiring("last need", Side.ABSOLUTE, span=LAST_NEED_KEPT)
WAITING = Expiring("waiting state", Side.ABSOLUTE, settings=("waiting_expiry_hours",))
SESSION_LEASE = Expiring("session lease", Side.IDLE, span=LEASE_TTL, table="leases")
SERVER_SESSION = Expiring("server-side session", Side.IDLE, settings=("server.session_idle",))
SERVER = Expiring("server", Side.IDLE, settings=("server.idle_exit",))
CONTINUATION = Expiring("continuation token", Side.SIGNED, settings=("server.token_ttl",))

EXPIRING = (QUESTION, KEPT_QUESTION, TASK, ARTIFACT, RENEWED_ARTIFACT, NEED, LAST_NEED, WAITING, SESSION_LEASE, SERVER_SESSION, SERVER, CONTINUATION)
"""Every resource of the product that expires. A test fails on one that is not here."""


# -- touch-on-read -------------------------------------------------------------------------------

TOUCH_EVERY = timedelta(seconds=1)
"""A touch that would gain less is skipped."""


@dataclass(frozen=True, slots=True)
class Lifespan:
    """The life of one touch-on-read resource. All times are whole milliseconds; `ttl` and `max_age` are those of its creation."""

    created: datetime
    last_touched: datetime
    expires_at: datetime
    ttl: timedelta
    max_age: timedelta
    explicit: bool = False
    """The deadline was given at creation: reads are noted and do not move it."""

    def is_alive(self, now: datetime) -> bool:
        return whole_ms(now) < self.expires_at

    def touched(self, now: datetime) -> Lifespan:
        """After an item read: never shorter, never alive again, never beyond the ceiling."""
        now = whole_ms(now)
        if not self.is_alive(now) or now <= self.last_touched:
            return self
        renewed = self.expires_at if self.explicit else max(self.expires_at, min(self.created + self.max_age, now + self.ttl))
        return replace(self, last_touched=now, expires_at=renewed)

    def gains_by_touch(self, now: datetime) -> bool:
        """Whether a touch is worth writing."""
        return self.is_alive(now) and now - self.last_touched >= TOUCH_EVERY


def begun(now: datetime, *, ttl: timedelta, max_age: timedelta, expires_at: datetime | None = None) -> Lifespan:
    """A life that begins now. `expires_at` is a deadline of its own, which stands, wherever it lies; whoever wants the usual one gives none."""
    now = whole_ms(now)
    deadline = now + min(ttl, max_age) if expires_at is None else whole_ms(expires_at)
    return Lifespan(now, now, deadline, ttl, max_age, explicit=expires_at is not None)


def whole_ms(moment: datetime) -> datetime:
    """The moment, to the millisecond that has begun."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


# -- spans in hours ------------------------------------------------------------------------------


def idle_deadline(last_used: datetime | None, hours: float) -> datetime | None:
    """The end of what lives so many hours from its start or last use; `None` where it never ends (0 hours, an unknown time, or beyond the calendar)."""
    if last_used is None or hours <= 0:
        return None
    try:
        return last_used + timedelta(hours=hours)
    except OverflowError:
        return None


def outlived(since: datetime | None, hours: float, now: datetime) -> bool:
    """Whether it is strictly older than so many hours (page 1); what never ends is not, and a clock that stepped back ends nothing."""
    end = idle_deadline(since, hours)
    return end is not None and now > end


# -- what is said of it --------------------------------------------------------------------------


class Lifetime(TypedDict):
    """The three fields, spelled the same wherever something expires (page 5). A null deadline is none."""

    expiresAt: str | None  # page 5's spelling
    lastTouched: str | None
    ttlRemainingMs: int | None


def lifetime_fields(expires_at: datetime | None, last_touched: datetime | None, now: datetime) -> Lifetime:
    """`expiresAt`, `lastTouched` (RFC 3339, UTC) and `ttlRemainingMs` (whole milliseconds, never negative, `None` without an end)."""
    remaining = None if expires_at is None else max(0, (expires_at - now) // timedelta(milliseconds=1))
    return {
        "expiresAt": None if expires_at is None else format_time(expires_at),
        "lastTouched": None if last_touched is None else format_time(last_touched),
        "ttlRemainingMs": remaining,
    }
