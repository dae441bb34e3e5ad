"""Ending what a killed run has left behind: real processes, and a real store."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from orchestrator.clock import SystemClock
from orchestrator.probes.leftovers import owner_marks
from orchestrator.providers import OWNER_MARK, SESSION_MARK
from orchestrator.reaping import reap
from orchestrator.session import Session
from orchestrator.store.sqlite import open_store

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="the environment of other processes cannot be read here")


@pytest.fixture
def ends() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_what_does_not_say_that_it_is_of_this_home_is_left_alone(tmp_path: Path, ends: ExitStack) -> None:
    session = Session(id=f"session of {tmp_path}", workspace="/w", nonce="n")
    gone = {OWNER_MARK: "999999999:1"}
    store = ends.enter_context(closing(open_store(tmp_path, clock=SystemClock())))
    store.create(session)
    ours, unsaid = (_sleeper(ends, {SESSION_MARK: session.id, **marks}) for marks in (owner_marks(tmp_path) | gone, gone))

    ended = reap(store, tmp_path)

    assert [process.pid for process in ended] == [ours.pid]
    assert ours.wait(10) < 0
    assert unsaid.poll() is None


def _sleeper(ends: ExitStack, marks: dict[str, str]) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(["sleep", "60"], env={"PATH": os.environ["PATH"], **marks})
    ends.callback(process.wait)
    ends.callback(process.kill)
    return process
