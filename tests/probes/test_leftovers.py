"""Whose processes they are, told by the marks in their environment: real processes."""

from __future__ import annotations

import os
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from orchestrator.probes.leftovers import Marked, left_behind, marked_processes, owner_marks
from orchestrator.providers import OWNER_MARK, SESSION_MARK

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="the environment of other processes cannot be read here")

SESSION = str(uuid.uuid4())
GONE = {OWNER_MARK: "999999999:1"}
"""A process of ours that is not there."""

Start = Callable[..., Marked]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a process with these marks, and gives it as it is found."""
    with ExitStack() as ends:

        def started(**marks: str) -> Marked:
            process = subprocess.Popen(["sleep", "60"], env={"PATH": os.environ["PATH"], SESSION_MARK: SESSION, **marks})
            ends.callback(process.wait)
            ends.callback(process.kill)
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline:
                for marked in marked_processes() or ():
                    if marked.pid == process.pid:
                        return marked
            raise AssertionError("it is not found")

        yield started


def test_what_a_killed_process_of_this_home_started_is_left_behind(start: Start, tmp_path: Path) -> None:
    left = start(**owner_marks(tmp_path) | GONE)

    assert left_behind([left, start()], tmp_path, {SESSION}) == [left], "one that does not say whose it is, is nobody's"
    assert left.name == "sleep"


def test_nothing_is_whose_session_has_a_turn_or_is_not_ours(start: Start, tmp_path: Path) -> None:
    assert left_behind([start(**owner_marks(tmp_path) | GONE)], tmp_path, {"another"}) == []


def test_nothing_is_whose_process_of_ours_lives(start: Start, tmp_path: Path) -> None:
    """It may wait between two turns, with no lease held."""
    assert left_behind([start(**owner_marks(tmp_path))], tmp_path, {SESSION}) == []


def test_nothing_is_that_belongs_to_another_home(start: Start, tmp_path: Path) -> None:
    """Which may have a copy of the same session."""
    assert left_behind([start(**owner_marks(tmp_path / "other") | GONE)], tmp_path, {SESSION}) == []


def test_a_home_is_known_by_any_of_its_names(start: Start, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "home")
    process = start(**owner_marks(tmp_path / "link") | GONE)

    assert left_behind([process], tmp_path / "home", {SESSION}) == [process]
