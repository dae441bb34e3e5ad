"""When AWS says it may be asked again: the headers that tell it, as seconds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds to wait, or `None` where nothing usable is said. `headers` have lower-case names; `now` is aware.

    `x-amz-retry-after` and `retry-after-ms` are milliseconds, `retry-after` is seconds or a date. Negative, infinite and
    unreadable values count as not said; a date in the past is 0. Nothing is capped here: that is the core's (page 7).
    """
    for name in ("x-amz-retry-after", "retry-after-ms"):
        milliseconds = _number(headers.get(name))
        if milliseconds is not None:
            return milliseconds / 1000
    named = headers.get("retry-after")
    if named is None:
        return None
    seconds = _number(named)
    return seconds if seconds is not None else _date(named, now)


def _number(text: str | None) -> float | None:
    try:
        value = float((text or "").strip())
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _date(text: str, now: datetime) -> float | None:
    try:
        moment = parsedate_to_datetime(text.strip())
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())
