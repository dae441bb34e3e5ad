"""When a provider says it may be asked again: the headers and bodies that tell it, as seconds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

from orchestrator.retry_after import named_wait, number

_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?", re.ASCII)


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds to wait, or `None` where nothing usable is said. `headers` have lower-case names; `now` is aware.

    Negative, infinite and unreadable values count as not said; a date in the past is 0. Of several the longest counts. Nothing is capped here:
    whether a wait is too long is the core's decision (page 7).
    """
    milliseconds = [wait for text in _each(headers.get("retry-after-ms", "")) if (wait := number(text)) is not None]
    if milliseconds:
        return max(milliseconds) / 1000
    named = headers.get("retry-after")
    if named is not None:
        return max((wait for text in _each(named) if (wait := named_wait(text, now)) is not None), default=None)
    return _rate_limit_reset(headers, now)


def _each(value: str) -> list[str]:
    """The values of a header that came more than once, as they are put together; the comma within a date parts nothing."""
    return re.split(r",(?!\s*\d{1,2}[ -][A-Za-z])", value)


def duration_seconds(text: str) -> float | None:
    """`1s`, `6m0s`, `20ms`, `1h2m` as seconds."""
    return _duration(text.strip())


def _rate_limit_reset(headers: Mapping[str, str], now: datetime) -> float | None:
    """The longest wait among the limits that are used up."""
    waits = [
        wait
        for suffix in ("", "-requests", "-tokens")
        if number(headers.get(f"x-ratelimit-remaining{suffix}", "0")) == 0
        if (wait := _reset(headers.get(f"x-ratelimit-reset{suffix}", ""), now)) is not None
    ]
    return max(waits, default=None)


def _reset(text: str, now: datetime) -> float | None:
    """A reset as seconds, as a duration, or as seconds or milliseconds since 1970 (OpenRouter)."""
    value = number(text)
    if value is None:
        return _duration(text.strip())
    if value > 1e11:
        value /= 1000
    return max(0.0, value - now.timestamp()) if value > 1e8 else value


def _duration(text: str) -> float | None:
    found = _DURATION.fullmatch(text)
    if not text or not found:
        return None
    hours, minutes, seconds, milliseconds = (float(group or 0) for group in found.groups())
    return hours * 3600 + minutes * 60 + seconds + milliseconds / 1000
