"""What went over the wire: bounded, without secrets, only of the last turns, and never in the way."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.settings.known import KnownSecrets
from orchestrator.wires import CUT, HALF, KEPT, Exchanged, Recording, Wires

CANARY = "canary-secret-0123456789"


class Kept:
    """A folder of wires, and what the log was told."""

    def __init__(self, folder: Path) -> None:
        self.known = KnownSecrets()
        self.logged: list[tuple[str, dict[str, Any]]] = []
        self.wires = Wires(folder, self.known, lambda event, **facts: self.logged.append((event, facts)))


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path / "state" / "wire")


def recorded(sent: bytes = b"asked", received: bytes = b"answered") -> Recording:
    recording = Recording()
    recording.begin()
    recording.sent(sent)
    recording.received(received)
    return recording


def test_the_last_request_and_its_answer_are_kept_for_the_user_alone(kept: Kept, tmp_path: Path) -> None:
    recording = recorded(b"first", b"refused")
    recording.begin()
    recording.sent("sec\ud800ond\n")
    recording.received(b"with \xff bytes\n")
    recording.received(b"and more")

    kept.wires.keep("a/../session", 4, recording)

    assert kept.wires.read("a/../session", 4) == Exchanged(b"sec\xed\xa0\x80ond\n", b"with \xff bytes\nand more")
    assert kept.wires.turns("a/../session") == [4]
    assert [stat.S_IMODE(path.stat().st_mode) for path in (kept.wires.files()[0], tmp_path / "state" / "wire")] == [0o600, 0o700]


@pytest.mark.parametrize("piece", [7, 1000, HALF, 5 * HALF, 9 * HALF])
@pytest.mark.parametrize("size", [2 * HALF + 8, 4 * HALF, 4 * HALF + 8, 9 * HALF])
def test_head_and_tail_of_a_long_answer_are_kept(piece: int, size: int, kept: Kept) -> None:
    whole = b"".join(b"%08d" % number for number in range(size // 8))
    recording = Recording()
    for start in range(0, len(whole), piece):
        recording.received(whole[start : start + piece])

    _, received = recording.sides(kept.known)

    assert received == whole[:HALF] + CUT + whole[-HALF:]


def test_what_fits_is_kept_whole(kept: Kept) -> None:
    whole = os.urandom(2 * HALF)

    assert recorded(received=whole).sides(kept.known)[1] == whole


@pytest.mark.parametrize("shift", range(0, len(CANARY) + 1, 3))
def test_no_part_of_a_secret_stays_at_the_cut(kept: Kept, shift: int) -> None:
    recording = Recording()
    recording.hide(CANARY)
    recording.received(b"." * (HALF - shift) + CANARY.encode() + b"." * (5 * HALF) + CANARY.encode() + b"." * (HALF - shift))

    kept.wires.keep("s", 0, recording)

    content = kept.wires.files()[0].read_bytes()
    assert not any(CANARY[start : start + 6].encode() in content for start in range(len(CANARY) - 5))


def test_only_the_newest_are_kept(kept: Kept) -> None:
    for turn in range(KEPT + 30):
        kept.wires.keep("s", turn, recorded())
        os.utime(kept.wires._file("s", turn), (turn, turn))

    turns = kept.wires.turns("s")
    assert KEPT <= len(turns) <= KEPT + 10
    assert turns == list(range(KEPT + 30 - len(turns), KEPT + 30))


def test_a_turn_without_a_call_leaves_none_of_an_earlier_one_of_its_number(kept: Kept) -> None:
    kept.wires.keep("s", 0, recorded())
    kept.wires.keep("s", 0, Recording())

    assert kept.wires.turns("s") == []


def test_turns_that_left_the_session_are_forgotten(kept: Kept) -> None:
    for turn in range(4):
        kept.wires.keep("s", turn, recorded())
    kept.wires.keep("other", 3, recorded())

    kept.wires.forget("s", 2)

    assert (kept.wires.turns("s"), kept.wires.turns("other")) == ([0, 1], [3])


def test_what_cannot_be_written_is_a_line_in_the_log(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    kept = Kept(tmp_path / "file" / "wire")

    kept.wires.keep("s", 0, recorded())

    assert [event for event, _ in kept.logged] == ["wire_not_kept"]
    assert kept.wires.read("s", 0) is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]\nx", b'{"sent": "x"}\ny'])
def test_what_was_damaged_is_not_there(kept: Kept, content: bytes) -> None:
    kept.wires.keep("s", 0, recorded())
    kept.wires.files()[0].write_bytes(content)

    assert kept.wires.read("s", 0) is None


@pytest.mark.parametrize("tell", [Recording.sent, Recording.received, Recording.hide])
def test_what_is_neither_text_nor_bytes_is_refused_at_once(kept: Kept, tell: Callable[[Recording, Any], None]) -> None:
    recording = recorded()

    with pytest.raises(TypeError, match="not int"):
        tell(recording, 5)

    assert recording.sides(KnownSecrets()) == (b"asked", b"answered")


def test_keeping_costs_little_beside_what_is_kept(kept: Kept) -> None:
    """Less than reading the same answer as JSON lines does, with room for a loaded machine: the ratio is about a tenth."""
    import json

    chunks = [b"data: " + json.dumps({"choices": [{"delta": {"content": f"word {number} "}}]}).encode() + b"\n\n" for number in range(5000)]
    kept.known.add([CANARY])

    def keep() -> None:
        recording = Recording()
        for chunk in chunks:
            recording.received(chunk)
        kept.wires.keep("s", 0, recording)

    def read() -> None:
        for chunk in chunks:
            json.loads(chunk[6:])

    assert _best(keep) < _best(read)


def _best(work: Any) -> float:
    times = []
    for _ in range(5):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)
