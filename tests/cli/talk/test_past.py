"""What was typed before."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from orchestrator.cli.talk.past import KEPT, LONGEST, Past


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "chat_history"


def test_prompts_come_back_newest_first_with_their_lines(path: Path) -> None:
    for text in ("one", "two\nlines \u2028 and a \udce9", "three"):
        Past(path).store_string(text)

    assert list(Past(path).load_history_strings()) == ["three", "two\nlines \u2028 and a \udce9", "one"]


def test_the_file_is_private_also_when_it_was_not(path: Path) -> None:
    path.parent.mkdir()
    path.touch(0o644)
    Past(path).store_string("one")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_file_stays_small_and_what_is_huge_is_not_kept(path: Path) -> None:
    past = Past(path)
    past.store_string("x" * (LONGEST + 1))
    for number in range(2 * KEPT + 1):
        past.store_string(str(number))

    found = list(Past(path).load_history_strings())
    assert (found[0], len(found), path.read_bytes().count(b"\n")) == (str(2 * KEPT), KEPT, KEPT)
    assert [other.name for other in path.parent.iterdir()] == ["chat_history"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_damaged_lines_and_a_folder_in_its_place_are_no_hindrance(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b'"good"\n\xff\xfe\n{"not": "a text"}\n[[[[\n"cut')
    assert list(Past(path).load_history_strings()) == ["good"]

    path.unlink()
    path.mkdir()
    Past(path).store_string("one")
    assert list(Past(path).load_history_strings()) == []
