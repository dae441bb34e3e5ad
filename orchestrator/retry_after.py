"""The ways to name a wait, in the `Retry-After` header and in an error's words, for providers (page 7)."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def named_wait(text: str | None, now: datetime) -> float | None:
    """Seconds from a number of seconds or from a date; a date in the past is 0. `None` where nothing usable is said; `now` is aware."""
    seconds = number(text)
    return seconds if seconds is not None or text is None else _until(text, now)


_UNITS = {"ms": 0.001, "millisecond": 0.001, "s": 1.0, "sec": 1.0, "second": 1.0, "m": 60.0, "min": 60.0, "minute": 60.0, "h": 3600.0, "hour": 3600.0}
_ONE = r"(\d{1,9}(?:\.\d{1,9})?) ?(milliseconds?|seconds?|minutes?|hours?|secs?|mins?|ms|s|m|h)(?![a-z])"
_PIECE = re.compile(_ONE, re.ASCII | re.IGNORECASE)
_AGAIN = re.compile(
    rf"\b(?:try(?:ing)? again|retry(?:ing)?)(?: your request)? (?:in|after):? (?:about )?((?:{_ONE}(?:,? and |, ?| )?)+)", re.ASCII | re.IGNORECASE
)


def wait_in_words(text: str) -> float | None:
    """Seconds from a sentence such as "Please try again in 1m7.66s." or "retry after 20 seconds"; `None` where none is said with its unit."""
    found = _AGAIN.search(text)
    if found is None:
        return None
    return sum(float(count) * _UNITS[_unit(unit)] for count, unit in _PIECE.findall(found[1]))


def _unit(word: str) -> str:
    """In the singular and lower case."""
    return word.lower() if word.lower() in _UNITS else word.lower().removesuffix("s")


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
