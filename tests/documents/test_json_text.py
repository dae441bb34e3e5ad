"""Outside JSON is read strictly, and refused with its place."""

from __future__ import annotations

import pytest

from orchestrator.documents.json_text import read_json
from orchestrator.errors import DocumentError


@pytest.mark.parametrize(
    ("source", "place", "said"),
    [
        ("", "line 1, column 1", "Expecting value"),
        ('{"a": 1,\n "b" 2}', "line 2, column 6", "':' delimiter"),
        ('{"a": 1} x', "line 1, column 10", "Extra data"),
        ('{"a":\n  {"b": 1, "c": [{"b": 2}], "b": 3}}', "line 2, column 29", "'b' stands twice"),
        ('{"\\u0061": 1, "a": 1}', "line 1, column 15", "'a' stands twice"),
        ('["NaN",\nNaN]', "line 2, column 1", "NaN is not a JSON number"),
        ("[-Infinity]", "line 1, column 2", "-Infinity is not"),
        ("[" * 100_000, "line 1, column 201", "200 levels deep"),
        ('{"a":' * 100_000, "line 1, column 1001", "200 levels deep"),
        ("[\n" + "1" * 5000 + "]", "line 2, column 1", "5000 digits"),
        (b'{"a":\n "\xff"}', "line 2, column 3", "0xff is not UTF-8"),
        ('"a\x00"', "line 1, column 3", "control character"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(source: str | bytes, place: str, said: str) -> None:
    with pytest.raises(DocumentError) as refused:
        read_json(source, "old.json")

    assert refused.value.message.startswith(f"old.json, {place}: ")
    assert said in refused.value.message


def test_lines_end_at_line_feeds_only() -> None:
    with pytest.raises(DocumentError, match="line 2, column 1:"):
        read_json('["a\u2028b\x85c",\n x]'.replace("\n x", "\nx"), "old.json")


@pytest.mark.parametrize("number", ["1e999", "-1e400"])
def test_a_number_that_would_become_infinite_is_refused(number: str) -> None:
    with pytest.raises(DocumentError, match=f"{number} is too large"):
        read_json(f'{{"arguments": {{"n": {number}}}}}', "old.json")


def test_another_encoding_is_named() -> None:
    with pytest.raises(DocumentError, match="UTF-16"):
        read_json('{"a": 1}'.encode("utf-16"), "old.json")


@pytest.mark.parametrize("source", ['{"a": [1, "b"]}', b'{"a": [1, "b"]}', b'\xef\xbb\xbf{"a": [1, "b"]}', '\ufeff{"a": [1, "b"]}'])
def test_a_byte_order_mark_does_no_harm(source: str | bytes) -> None:
    assert read_json(source, "old.json") == {"a": [1, "b"]}
