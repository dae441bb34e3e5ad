"""What usage sums come to under the agents' prices."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.spending import spent, total
from orchestrator.store import UsageSum

PRICES = {"claude": {"input": 3.0, "output": 15.0, "cache_read": 0.3, "cache_write": 3.75}}


def usage(key: str = "claude", **fields: object) -> UsageSum:
    return UsageSum(**{"key": key, "name": None, "agent": key, "cost_source": None, "counted": True, "turns": 1, **fields})  # type: ignore[arg-type]


MILLION = usage(input_tokens=1_000_000, output_tokens=1_000_000, cache_read_tokens=1_000_000, cache_write_tokens=1_000_000)


def test_prices_make_an_estimate_of_what_has_no_cost() -> None:
    (row,) = spent([MILLION], PRICES)
    assert (row.cost_usd, row.cost_label, row.unknown_turns) == (pytest.approx(22.05), "estimated", 0)


def test_cached_tokens_without_a_price_cost_what_others_do() -> None:
    (row,) = spent([MILLION], {"claude": {"input": 3.0, "output": 15.0}})
    assert row.cost_usd == pytest.approx(24.0)


@pytest.mark.parametrize(
    ("sums", "prices"),
    [
        ([MILLION], {}),
        ([MILLION], {"claude": {"input": 3.0}}),
        ([MILLION], {"other": PRICES["claude"]}),
        ([usage(counted=False, input_tokens=5)], PRICES),
    ],
)
def test_what_cannot_be_estimated_is_unknown_and_never_nothing(sums: list[UsageSum], prices: dict[str, dict[str, float]]) -> None:
    row = total(sums, prices)
    assert (row.cost_usd, row.cost_label, row.unknown_turns) == (None, "unknown", 1)


def test_a_price_of_nothing_is_a_price() -> None:
    assert total([MILLION], {"claude": {"input": 0.0, "output": 0.0}}).cost_usd == 0.0


def test_a_reported_cost_goes_before_an_estimate() -> None:
    row = total([usage(input_tokens=9, output_tokens=9, cost_usd=0.5, cost_source="billed")], PRICES)
    assert [(cost.label, cost.usd) for cost in row.costs] == [("billed", 0.5)]


def test_a_sum_over_known_and_unknown_says_so() -> None:
    sums = [usage(cost_usd=0.5, cost_source="billed", turns=2), usage(cost_usd=0.25, cost_source="reported"), usage(counted=False, turns=3), MILLION]
    (row,) = spent(sums, PRICES)
    assert [(cost.label, cost.turns) for cost in row.costs] == [("billed", 2), ("reported", 1), ("estimated", 1), ("unknown", 3)]
    assert (row.cost_usd, row.cost_label, row.unknown_turns) == (pytest.approx(22.8), "estimated", 3)


def test_the_share_of_the_cache_is_taken_from_all_that_was_sent() -> None:
    row = total([usage(input_tokens=10, cache_read_tokens=80, cache_write_tokens=10)], {})
    assert (row.input_tokens, row.cache_read_share) == (100, 0.8)
    assert total([usage(input_tokens=10)], {}).cache_read_share is None


def test_the_dearest_comes_first_and_the_unknown_key_too() -> None:
    sums = [usage("a", input_tokens=1), usage("b", cost_usd=2.0), UsageSum(None, None, "c", None, counted=False, turns=1), usage("d", input_tokens=9)]
    assert [row.key for row in spent(sums, {})] == ["b", "d", "a", None]


FIGURE = st.none() | st.integers(0, 10**9)


@given(
    st.lists(
        st.builds(
            UsageSum,
            key=st.none() | st.sampled_from(["a", "b"]),
            name=st.none(),
            agent=st.sampled_from(["claude", "other"]),
            cost_source=st.none(),
            counted=st.booleans(),
            turns=st.integers(1, 9),
            input_tokens=FIGURE,
            output_tokens=FIGURE,
            cache_read_tokens=FIGURE,
            cost_usd=st.none() | st.floats(0, 1e6),
        )
    )
)
def test_the_rows_add_up_to_the_total(sums: list[UsageSum]) -> None:
    rows, whole = spent(sums, PRICES), total(sums, PRICES)
    assert sum(row.turns for row in rows) == whole.turns
    assert sum(row.unknown_turns for row in rows) == whole.unknown_turns
    assert sum(row.input_tokens or 0 for row in rows) == (whole.input_tokens or 0)
    assert sum(row.cost_usd or 0 for row in rows) == pytest.approx(whole.cost_usd or 0)
