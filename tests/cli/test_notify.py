"""`notify.command`: it is told, it is bounded, and what goes wrong with it is told once."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path

import pytest

from orchestrator.cli.notify import Notifier, notification


def notifier(command: list[str], told: list[str], cwd: Path, **bounds: float) -> Notifier:
    return Notifier(command, environ=os.environ, cwd=str(cwd), tell=told.append, **bounds)


def test_the_command_gets_the_document_on_its_input(tmp_path: Path) -> None:
    told: list[str] = []
    notify_ = notifier(["sh", "-c", "cat > got.json"], told, tmp_path)

    notify_("question", session="s", agent="claude", text="may I\nrun \ud800 " + "x" * 300)
    notify_.close()

    got = json.loads((tmp_path / "got.json").read_text())
    assert {key: got[key] for key in ("format", "event", "session", "agent")} == {
        "format": "escalera.notification/1",
        "event": "question",
        "session": "s",
        "agent": "claude",
    }
    assert got["text"].startswith("may I run \ufffd xxx")
    assert len(got["text"]) == 200
    assert told == []


@pytest.mark.parametrize(
    ("command", "problem"),
    [(["no-such-program"], "cannot be run"), (["false"], "ended with exit code 1"), (["true", "\0"], "cannot be run")],
)
def test_what_goes_wrong_is_told_once(tmp_path: Path, command: list[str], problem: str) -> None:
    told: list[str] = []
    notify_ = notifier(command, told, tmp_path)

    for _ in range(3):
        notify_("answer", session="s", agent="a", text="x")
    notify_.close()

    assert len(told) == 1
    assert problem in told[0]
    assert "notify.command" in told[0]


def test_it_never_blocks_and_nothing_of_it_is_left(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pid")
    told: list[str] = []
    notify_ = notifier(["sh", "-c", "echo $$ > pid; exec sleep 600"], told, tmp_path, grace=0.2)

    start = time.monotonic()
    notify_("answer", session="s", agent="a", text="x")
    began = time.monotonic() - start
    number = (tmp_path / "pid").read_text().strip()
    notify_.close()

    assert began < 0.5
    for thread in threading.enumerate():
        if thread.name == "notify":
            thread.join(5)
    assert not Path("/proc", number).exists()
    assert told == []


def test_a_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    told: list[str] = []
    notify_ = notifier(["sleep", "600"], told, tmp_path, seconds=0.2)

    notify_("failed", session="s", agent="a", text="x")
    notify_.close()

    assert told == ["notify.command: 'sleep' was not done after 0.2 s and was ended"]


def test_without_a_command_nothing_is_done(tmp_path: Path) -> None:
    before = threading.active_count()

    notifier([], [], tmp_path)("answer", session="s", agent="a", text="x")

    assert threading.active_count() == before


def test_a_short_text_is_told_as_it_is() -> None:
    assert notification("answer", session="s", agent="a", text=" Done. ")["text"] == "Done."
