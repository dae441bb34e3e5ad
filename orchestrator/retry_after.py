"""The `Retry-After` header's ways to name a wait, for providers that speak HTTP (page 7)."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def named_wait(text: str | None, now: datetime) -> float | None:
    """Seconds from a number of seconds or from a date; a date in the past is 0. `None` where nothing usable is said; `now` is aware."""
    seconds = number(text)
    return seconds if seconds is not None or text is None else _until(text, now)


def number(text: str | None) -> float | None:
    """A number that can be waited for; negative, infinite and unreadable values count as not said."""
    try:
        value = float((text or "").strip())
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _until(text: str, now: datetime) -> float | None:
    try:
        moment = parsedate_to_datetime(text.strip())
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())
