"""When AWS says it may be asked again: the headers that tell it, as seconds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from orchestrator.retry_after import named_wait, number


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds to wait, or `None` where nothing usable is said. `headers` have lower-case names; `now` is aware.

    `x-amz-retry-after` and `retry-after-ms` are milliseconds, `retry-after` is seconds or a date. Negative, infinite and
    unreadable values count as not said; a date in the past is 0. Nothing is capped here: that is the core's (page 7).
    """
    for name in ("x-amz-retry-after", "retry-after-ms"):
        milliseconds = number(headers.get(name))
        if milliseconds is not None:
            return milliseconds / 1000
    return named_wait(headers.get("retry-after"), now)
