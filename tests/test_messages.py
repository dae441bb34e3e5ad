"""Values of strangers, before they are stored and sent."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.messages import MAX_DEPTH, is_json, read_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


@given(JSON)
def test_json_is_what_can_be_written_without_nan(value: Any) -> None:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        assert not is_json(value)
    else:
        assert is_json(value)


@pytest.mark.parametrize("value", [{1: "a"}, {"a": object()}, {"a": {1, 2}}, b"x", 10**5000, [float("inf")]], ids=range(6))
def test_what_json_has_no_form_for_is_none(value: object) -> None:
    assert not is_json(value)


@given(JSON.filter(is_json))
def test_what_was_written_is_read_again(value: Any) -> None:
    assert read_json(json.dumps(value)) == value


def test_nesting_has_an_end_for_reading_and_for_keeping() -> None:
    assert is_json(read_json(nested(MAX_DEPTH)))
    for levels in (MAX_DEPTH + 1, 900, 100_000):
        with pytest.raises(ValueError, match="deep"):
            read_json(nested(levels))
    assert not is_json([read_json(nested(MAX_DEPTH))])


def test_many_brackets_in_a_text_are_no_nesting() -> None:
    assert read_json(json.dumps(["[" * 500])) == ["[" * 500]
