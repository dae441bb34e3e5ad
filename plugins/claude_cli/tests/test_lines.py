"""Bytes become objects, however they were cut."""

from __future__ import annotations

import itertools
import json

import pytest
from escalera_claude_cli.lines import LineReader, Noise, Skipped
from hypothesis import given
from hypothesis import strategies as st

values = st.dictionaries(st.text(max_size=5), st.text(max_size=20) | st.integers() | st.none(), max_size=4)


def read(pieces, **options):
    reader = LineReader(**options)
    return [item for piece in pieces for item in reader.feed(piece)] + list(reader.rest())


@given(st.lists(values, max_size=6), st.lists(st.integers(0, 400), max_size=8), st.sampled_from(["\n", "", "\x1b[0m\n", " \r\n"]))
def test_objects_come_whole_wherever_the_bytes_were_cut(objects, cuts, between):
    data = between.join(json.dumps(value, ensure_ascii=False) for value in objects).encode("utf-8", "replace")
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]

    found = read(data[start:end] for start, end in itertools.pairwise(edges))

    assert found == [json.loads(json.dumps(value).encode("utf-8", "replace")) for value in objects]


@given(st.lists(st.binary(max_size=60), max_size=6))
def test_no_bytes_break_the_reader(pieces):
    assert all(isinstance(item, dict | Noise | Skipped) for item in read(pieces))


def test_line_over_the_cap_is_skipped_and_the_next_is_read():
    assert read([b"x" * 60, b"y" * 60 + b'\n{"a":1}\n'], max_line=100) == [Skipped(120), {"a": 1}]


def test_line_without_an_end_is_not_kept():
    reader = LineReader(max_line=100)
    for _ in range(1000):
        assert list(reader.feed(b"x" * 50)) == []

    assert list(reader.rest()) == [Skipped(50_000)]


@pytest.mark.parametrize("line", [b"[" * 100_000, b"[" * 200 + b"]" * 200, b'{"a":' * 900 + b"1" + b"}" * 900])
def test_deep_nesting_is_noise(line):
    assert [type(item) for item in read([line + b'\n{"a": [[1]]}\n'])] == [Noise, dict]
