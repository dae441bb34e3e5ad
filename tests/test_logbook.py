"""The log: one object a line, bounded, safe with several processes, and never in the way."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from orchestrator.clock import FixedClock
from orchestrator.logbook import FILES, MAX_BYTES, Logbook, older, readable, tail

CLOCK = FixedClock(datetime(2030, 5, 6, 7, 8, 9, 123456, UTC))

WRITER = """
import sys
from pathlib import Path
from orchestrator.clock import SystemClock
from orchestrator.logbook import Logbook
log = Logbook(Path(sys.argv[1]), SystemClock(), mask=str)
for number in range(int(sys.argv[3])):
    log("entry", writer=sys.argv[2], number=number, filling="x" * 900)
"""


def logbook(file: Path | None, **options: Any) -> Logbook:
    return Logbook(file, CLOCK, **{"mask": lambda text: text.replace("hunter2", "***"), **options})


def entries(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "log" / "escalera.log"


def test_an_entry_is_one_line_for_the_user_alone(file: Path) -> None:
    logbook(file)("turn_ended", turn=3, usage={"output_tokens": 7}, rules=["default"], mode=None, text="a\nb \ud800 \x1b[2J")

    assert entries(file) == [
        {
            "at": "2030-05-06T07:08:09.123456Z",
            "pid": os.getpid(),
            "event": "turn_ended",
            "turn": 3,
            "usage": {"output_tokens": 7},
            "rules": ["default"],
            "text": "a\nb \ud800 \x1b[2J",
        }
    ]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_secrets_are_masked_wherever_they_stand_and_long_texts_are_cut(file: Path) -> None:
    shown: list[str] = []

    logbook(file, tell=shown.append)("notice", text="hunter2", deep={"list": ["hunter2", {"x": "hunter2"}]}, long="y" * 100_000)

    assert "hunter2" not in file.read_text() + "".join(shown)
    assert len(entries(file)[0]["long"]) < 5000


def test_several_processes_lose_no_entry_and_cut_none(file: Path) -> None:
    count = 150
    children = [subprocess.Popen([sys.executable, "-c", WRITER, str(file), str(writer), str(count)]) for writer in range(4)]
    assert [child.wait(timeout=60) for child in children] == [0, 0, 0, 0]

    found = [(entry["writer"], entry["number"]) for number in range(FILES) if older(file, number).exists() for entry in entries(older(file, number))]
    assert sorted(found) == sorted((str(writer), number) for writer in range(4) for number in range(count))


def test_it_is_bounded(file: Path) -> None:
    log = logbook(file)
    for number in range(1200):
        log("entry", number=number, filling="x" * 3500)

    files = sorted(path for path in file.parent.iterdir() if path.suffix != ".lock")
    assert [path.name for path in files] == ["escalera.log", "escalera.log.1", "escalera.log.2"]
    assert all(path.stat().st_size <= MAX_BYTES + 5000 for path in files)
    assert entries(file)[-1]["number"] == 1199
    assert {stat.S_IMODE(path.stat().st_mode) for path in file.parent.iterdir()} == {0o600}


def test_several_processes_begin_a_new_file_once(file: Path) -> None:
    file.parent.mkdir(parents=True)
    file.write_bytes(b'{"old": true}\n' * (MAX_BYTES // 14 - 10))
    children = [subprocess.Popen([sys.executable, "-c", WRITER, str(file), str(writer), "20"]) for writer in range(4)]
    assert [child.wait(timeout=60) for child in children] == [0, 0, 0, 0]

    written = [entry for number in range(2) for entry in entries(older(file, number)) if "writer" in entry]
    assert len(written) == 80
    assert not older(file, 2).exists()


@pytest.mark.parametrize("obstacle", ["a file where the folder should be", "a folder where the file should be", "a full device"])
def test_what_cannot_be_written_harms_nobody(file: Path, obstacle: str) -> None:
    if obstacle == "a file where the folder should be":
        file.parent.parent.write_text("")
    elif obstacle == "a folder where the file should be":
        file.mkdir(parents=True)
    else:
        file.parent.mkdir(parents=True)
        file.symlink_to("/dev/full")

    assert logbook(file).keep("entry") is False


def test_without_a_file_it_only_tells(tmp_path: Path) -> None:
    told: list[str] = []

    assert logbook(None, tell=told.append).keep("started", command="ask", flags=["--new"]) is False

    assert told == ['[07:08:09.123] started command=ask flags=["--new"]']


def test_until_it_may_begin_entries_are_held_back_but_for_a_crash(file: Path) -> None:
    may_begin = False
    log = logbook(file, begins=lambda: may_begin)
    log("started")
    assert not file.parent.exists()

    may_begin = True
    log("turn_started")
    assert [entry["event"] for entry in entries(file)] == ["started", "turn_started"]

    logbook(file, begins=lambda: False)("crash")
    assert entries(file)[-1]["event"] == "crash"


def test_a_traceback_is_read_on_lines_of_its_own() -> None:
    entry = {"at": "2030-01-01T00:00:00Z", "pid": 1, "event": "crash", "type": "ValueError", "traceback": "Traceback\n  line\n"}

    assert readable(entry) == "[00:00:00] crash type=ValueError\nTraceback\n  line"


def test_the_tail_has_whole_lines_also_of_the_older_files(file: Path) -> None:
    file.parent.mkdir(parents=True)
    older(file, 1).write_bytes(b"one\ntwo\n")
    file.write_bytes(b"three\n")

    assert tail(file, 100) == b"one\ntwo\nthree\n"
    assert tail(file, 9) == b"three\n"
    assert tail(file.with_name("none"), 10) == b""
