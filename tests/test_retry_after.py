"""A wait that an error names in its words."""

from __future__ import annotations

import pytest

from orchestrator.retry_after import wait_in_words


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Please try again in 1m7.66s.", 67.66),
        ("Please try again in 20ms, or later", 0.02),
        ("retry in 1h2m", 3720),
        ("Please retry after 20 seconds.", 20),
        ("Try again in 20 Seconds", 20),
        ("please retry your request in about 1 minute and 5 seconds", 65),
        ("Retrying after: 2 hours, 1 min", 7260),
        ("try again in 1 second, 3 of 5 are used", 1),
        ("retry after 20", None),
        ("try again in 5 mice", None),
        ("it took 20 seconds, try again in a moment", None),
        ("entry in 5s", None),
        ("", None),
    ],
)
def test_a_wait_is_read_where_it_stands_with_its_unit(text: str, seconds: float | None) -> None:
    assert wait_in_words(text) == (None if seconds is None else pytest.approx(seconds))


def test_hostile_words_cost_no_time_and_give_a_finite_wait() -> None:
    assert wait_in_words("try again in " + "9" * 100_000 + "s") is None
    assert wait_in_words("try again in " + "1s " * 50_000 + "!") == pytest.approx(50_000)
