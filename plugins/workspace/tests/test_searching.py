"""Searching: what is found, what is left out, and that it ends."""

from __future__ import annotations

import time

import pytest
import regex
from escalera_workspace.places import place_of
from escalera_workspace.searching import Search, searched

from .conftest import Work


def test_each_line_with_a_match_is_found_once_with_its_number(work: Work) -> None:
    work.put("src/a.py", "import os\n\ndef f(x): return f(x)\r\n")
    work.put("b.txt", "f(\n")

    assert work.call("search", pattern=r"f\(") == "b.txt:1: f(\nsrc/a.py:3: def f(x): return f(x)"
    assert work.call("search", pattern="f(x)", literal=True, path="src") == "src/a.py:3: def f(x): return f(x)"
    assert work.call("search", pattern="^$", path="src/a.py") == "src/a.py:2: "
    assert work.call("search", pattern="f", glob="*.txt") == "b.txt:1: f("


def test_links_and_folders_of_tools_are_left_alone(work: Work) -> None:
    work.put(".git/config", "secret\n")
    work.put("node_modules/x/index.js", "secret\n")
    (work.root / "out").symlink_to(work.outside)
    (work.root / "file").symlink_to(work.outside / "secret.txt")

    assert work.call("search", pattern="secret") == "nothing found in 0 files"
    assert work.call("search", pattern="secret", path="node_modules") == "node_modules/x/index.js:1: secret"


def test_a_pattern_that_would_take_for_ever_is_ended_in_time(work: Work) -> None:
    work.put("a.txt", "a" * 5000 + "b\n")
    pattern = regex.compile(r"(a|aa|a?a)+$")

    began = time.monotonic()
    told = searched(place_of(str(work.root), "."), Search(pattern, "*", work.context, began + 0.2))

    assert "may be one that takes very long" in told
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("pattern", ["(", "", "x" * 1001, "(?P<n", "a{2,1}", "\\"])
def test_what_is_no_pattern_is_told(work: Work, pattern: str) -> None:
    assert "argument 'pattern'" in work.refused("search", pattern=pattern)


def test_many_lines_are_cut_off_and_a_long_one_is_shown_around_its_match(work: Work) -> None:
    work.put("many.txt", "hit\n" * 5000)
    work.put("wide.txt", "x" * 9000 + "HIT" + "y" * 9000)

    lines = work.call("search", pattern="hit").splitlines()
    assert len(lines) == 201
    assert "200 lines were found" in lines[-1]
    (line,) = work.call("search", pattern="HIT").splitlines()
    assert "HIT" in line
    assert len(line) < 400


def test_a_cancelled_turn_ends_it(work: Work) -> None:
    work.put("a.txt", "hit\n")
    work.context.cancel.set()

    assert "was cancelled" in work.call("search", pattern="hit")


def test_a_place_that_is_not_there_is_told(work: Work) -> None:
    assert "No such file" in work.refused("search", pattern="x", path="gone")
