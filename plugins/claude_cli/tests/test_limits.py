"""When a usage limit ends, from a field or from words."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from escalera_claude_cli.limits import UNNAMED, seconds_until_reset

NOW = datetime(2030, 1, 1, 6, 30, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "resets_at", "expected"),
    [
        ("whatever", NOW + 90, 90.0),
        ("whatever", NOW - 90, 0.0),
        ("You've hit your session limit · resets 8:30am (UTC)", None, 7200.0),
        ("You've hit your session limit · resets 3am (UTC)", None, 20.5 * 3600),
        ("You've hit your weekly limit · resets Jan 3, 6:30am (UTC)", None, 2 * 86400.0),
        ("You've hit your weekly limit · resets 12pm (Europe/Berlin)", None, 4.5 * 3600),
        ("Claude AI usage limit reached|1893486600", None, 1893486600 - NOW),
        ("You've hit your usage limit", None, UNNAMED),
        ("You've hit your limit", None, UNNAMED),
        ("You've hit your limit · resets 8:30am (UTC)", None, 7200.0),
        ("You're out of extra usage · resets 8:30am (UTC)", None, 7200.0),
        ("limit · resets 99:99am (UTC)", None, None),
        ("This request would exceed your rate limit", None, None),
    ],
)
def test_time_until_a_limit_ends(text, resets_at, expected):
    assert seconds_until_reset(text, resets_at, NOW) == expected
