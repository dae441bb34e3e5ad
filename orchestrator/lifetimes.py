"""When something expires, and how that is said: the three fields that every expiring thing carries (page 5)."""

from __future__ import annotations

from datetime import datetime, timedelta

from typing_extensions import TypedDict

from orchestrator.clock import format_time


def idle_deadline(last_used: datetime | None, hours: float) -> datetime | None:
    """The end of something that use renews without a ceiling; `None` where it never ends (0 hours, an unknown time, or beyond the calendar)."""
    if last_used is None or hours <= 0:
        return None
    try:
        return last_used + timedelta(hours=hours)
    except OverflowError:
        return None


class Lifetime(TypedDict):
    """The three fields, spelled the same wherever something expires (page 5). A null deadline is none."""

    expiresAt: str | None  # page 5's spelling
    lastTouched: str | None
    ttlRemainingMs: int | None


def lifetime_fields(expires_at: datetime | None, last_touched: datetime | None, now: datetime) -> Lifetime:
    """`expiresAt`, `lastTouched` (RFC 3339, UTC) and `ttlRemainingMs` (whole milliseconds, never negative, `None` without an end)."""
    remaining = None if expires_at is None else max(0, int((expires_at - now).total_seconds() * 1000))
    return {
        "expiresAt": None if expires_at is None else format_time(expires_at),
        "lastTouched": None if last_touched is None else format_time(last_touched),
        "ttlRemainingMs": remaining,
    }
