"""Deadlines at the edges of the calendar."""

from __future__ import annotations

from datetime import UTC, datetime

from orchestrator.lifetimes import idle_deadline

LATE = datetime(9999, 12, 31, tzinfo=UTC)


def test_what_would_end_beyond_the_calendar_never_ends() -> None:
    assert idle_deadline(LATE, 24) is None
    assert idle_deadline(LATE, 1) == datetime(9999, 12, 31, 1, tzinfo=UTC)
