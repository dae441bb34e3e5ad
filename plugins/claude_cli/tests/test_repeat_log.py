"""What is read from the log of a child as it grows."""

from __future__ import annotations

from escalera_claude_cli.repeat_log import Note, RepeatLog

from orchestrator.errors import Overloaded, Unavailable

BUSY = "2026-11-30T18:44:44.991Z [WARN] Mid-stream 529 before content — retrying streaming (1/3)\n"
LOST = "2026-11-30T18:44:54.126Z [WARN] Stream connection closed (ECONNRESET) before first event — retrying streaming (1/2)\n"
SECOND = "2026-11-30T18:44:55.077Z [ERROR] Error streaming, falling back to non-streaming mode: The socket connection was closed\n"


def test_each_note_is_read_once_and_a_half_line_when_it_is_whole(tmp_path):
    path = tmp_path / "log"
    log = RepeatLog(str(path))
    assert log.new() == []

    path.write_text(BUSY + LOST[:40])
    assert log.new() == [Note(Overloaded)]
    path.write_text(BUSY + LOST + SECOND)
    assert log.new() == [Note(Unavailable), Note(Unavailable, second_way=True)]
    assert log.new() == []
    assert (log.count, log.second_way) == (3, True)


def test_notes_of_an_earlier_turn_are_none_of_the_next(tmp_path):
    path = tmp_path / "log"
    path.write_text(BUSY * 40_000 + SECOND)
    log = RepeatLog(str(path))

    log.begin()

    assert (log.new(), log.count, log.second_way) == ([], 0, False)


def test_any_bytes_may_stand_in_it(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"\xff\x00\n" + b"x" * 3_000_000 + b"\n" + BUSY.encode() + b"[WARN] Mid-stream 529")
    log = RepeatLog(str(path))

    notes = [note for _ in range(5) for note in log.new()]

    assert notes == [Note(Overloaded)]
