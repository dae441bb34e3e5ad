"""When a usage limit ends, from what Claude Code says about it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

USAGE_LIMIT = (
    r"\b(?:session|usage|weekly|monthly|daily|5-hour|hour|opus|sonnet) limit\b|\b(?:hit|reached|at) your limit\b|\bout of (?:extra )?usage\b(?! credits)"
)

UNNAMED = 3600.0
"""Seconds, for a usage limit that names no time: its windows last hours, so trying again within moments is in vain."""

EPOCH = re.compile(r"\|(\d{10})\b")
CLOCK = re.compile(
    r"resets\s+(?:at\s+)?(?:(?P<month>[A-Z][a-z]{2})[a-z]*\s+(?P<day>\d{1,2}),?\s+(?:at\s+)?)?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?\s*(?P<half>[ap]m)(?:\s*\((?P<zone>[^)]+)\))?",
    re.IGNORECASE,
)
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def seconds_until_reset(text: str, resets_at: float | None, now: float) -> float | None:
    """Seconds from `now` (since 1970) until requests are taken again; `None` for a rate limit that is no usage limit and names no time."""
    moment = resets_at if resets_at is not None else _named(text, now)
    if moment is not None:
        return max(0.0, moment - now)
    return UNNAMED if re.search(USAGE_LIMIT, text, re.IGNORECASE) else None


def _named(text: str, now: float) -> float | None:
    """The moment a text names: seconds behind a bar, or a time of day like `8:30am (UTC)`, perhaps with a date."""
    if epoch := EPOCH.search(text):
        return float(epoch[1])
    clock = CLOCK.search(text)
    if clock is None:
        return None
    try:
        return _next(clock, datetime.fromtimestamp(now, _zone(clock["zone"]))).timestamp()
    except (ValueError, OverflowError):
        return None


def _next(clock: re.Match[str], now: datetime) -> datetime:
    hour = int(clock["hour"]) % 12 + (12 if clock["half"].lower() == "pm" else 0)
    moment = now.replace(hour=hour, minute=int(clock["minute"] or 0), second=0, microsecond=0)
    if clock["month"]:
        moment = moment.replace(month=MONTHS.index(clock["month"].lower()) + 1, day=int(clock["day"]))
        return moment if moment > now - timedelta(days=1) else moment.replace(year=moment.year + 1)
    return moment if moment > now else moment + timedelta(days=1)


def _zone(name: str | None) -> tzinfo | None:
    """The named zone; this machine's own when none is named, UTC when it is not known here."""
    if name is None:
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return UTC
