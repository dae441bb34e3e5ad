"""The command that answers a question, as it is told."""

from __future__ import annotations

import io
import os
import pty
import shlex
import termios
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from orchestrator.asking import how_to_answer
from orchestrator.cli.asking import AtTerminal
from orchestrator.lifetimes import Lifespan, begun
from orchestrator.providers import Answer, Question
from orchestrator.questions import Given, StoredQuestion

START = datetime(2026, 1, 1, tzinfo=UTC)


def told(*names: str) -> str:
    question = Question("Say", mode="form", schema={"properties": {name: {"type": "string"} for name in names}})
    return how_to_answer(StoredQuestion("0123456789", question, _life(), timedelta(days=1)))


def _life() -> Lifespan:
    return begun(datetime(2026, 1, 1, tzinfo=UTC), ttl=timedelta(seconds=1), max_age=timedelta(seconds=1))


class Keyboard(io.StringIO):
    """Stands for stderr: at each prompt the next line is typed."""

    def __init__(self) -> None:
        super().__init__()
        self.stdin, self._typing = os.pipe()
        self.lines: list[str] = []

    def write(self, text: str) -> int:
        if text.endswith(": "):
            os.write(self._typing, f"{self.lines.pop(0)}\n".encode())
        return super().write(text)


@pytest.fixture
def keyboard() -> Iterator[Keyboard]:
    board = Keyboard()
    yield board
    os.close(board._typing)


class Waiting:
    """A question that stands until it is answered."""

    left = 60.0

    def __init__(self, stored: StoredQuestion) -> None:
        self.stored = stored

    def ended(self) -> None:
        return None

    def read(self) -> None:
        return None

    def answer(self, answer: Answer) -> StoredQuestion:
        return replace(self.stored, given=Given(answer, datetime(2026, 1, 1, tzinfo=UTC)))


def test_it_names_the_fields() -> None:
    assert told("colour", "size") == "escalera questions answer 01234567 --accept colour=… size=…, --decline or --cancel"


def test_a_field_that_a_shell_would_take_for_a_command_is_quoted() -> None:
    assert shlex.split(told("a; rm -rf ~", "$(reboot)", "`id`"))[4:8] == ["--accept", "a; rm -rf ~=…", "$(reboot)=…", "`id`=…,"]


def test_many_fields_are_not_named() -> None:
    assert "--accept '{…}'," in told(*"abcdefgh")


@pytest.mark.parametrize(
    ("typed", "content"),
    [
        (["1"], {"decision": "once"}),
        (["always", ""], {"decision": "always", "pattern": "make *"}),
        (["2", "make test *"], {"decision": "always", "pattern": "make test *"}),
        (["no", ""], {"decision": "no"}),
        (["3", "not now"], {"decision": "no", "because": "not now"}),
    ],
)
def test_a_field_is_asked_for_only_where_it_means_something(
    monkeypatch: pytest.MonkeyPatch, keyboard: Keyboard, typed: list[str], content: dict[str, str]
) -> None:
    schema = {
        "properties": {
            "decision": {"type": "string", "enum": ["once", "always", "no"]},
            "pattern": {"type": "string", "default": "make *", "x-when": {"decision": ["always"]}},
            "because": {"type": "string", "x-when": {"decision": ["no"]}},
        },
        "required": ["decision"],
    }
    stored = StoredQuestion("q1", Question("May it?", mode="form", schema=schema), _life(), timedelta(days=1))
    with os.fdopen(keyboard.stdin) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        monkeypatch.setattr("sys.stderr", keyboard)
        keyboard.lines = typed

        ended = AtTerminal(nullcontext, moves=False)(Waiting(stored))

    assert ended.given is not None
    assert ended.given.answer == Answer("accept", content)
    assert keyboard.lines == []


# -- at a terminal -------------------------------------------------------------------------------

FREE = Question("Which drink?", mode="form", schema={"properties": {"answer": {"type": "string", "title": "Your answer"}}, "required": ["answer"]})
NOBODY = Answer("cancel", by="expiry")


class Clocked:
    """A question that is over once it was looked at so often: before the prompt stands there, and then after each look for keys."""

    def __init__(self, *, over_after: int = 10**9, lefts: tuple[float, ...] = ()) -> None:
        self.stored = StoredQuestion("q1", FREE, _life(), timedelta(days=1))
        self.reads, self.looks, self.given = 0, 0, list[Answer]()
        self._over_after, self._lefts = over_after, list(lefts)

    @property
    def left(self) -> float:
        return self._lefts.pop(0) if self._lefts else 60.0

    def ended(self) -> StoredQuestion | None:
        self.looks += 1
        return replace(self.stored, given=Given(NOBODY, START)) if self.looks >= self._over_after else None

    def read(self) -> None:
        self.reads += 1

    def answer(self, answer: Answer) -> StoredQuestion:
        self.given.append(answer)
        over = self.ended()
        return replace(self.stored, given=Given(answer, START)) if over is None else replace(over, late=(Given(answer, START),))


class Terminal(io.StringIO):
    """Stands for stderr: at the prompt, that is typed."""

    def __init__(self, typed: str) -> None:
        super().__init__()
        self._controller, self.terminal = pty.openpty()
        self._typed = typed

    def write(self, text: str) -> int:
        if text.endswith("Your answer: "):
            os.write(self._controller, self._typed.encode())
        return super().write(text)

    def close(self) -> None:
        os.close(self._controller)
        super().close()


def put(monkeypatch: pytest.MonkeyPatch, waiting: Clocked, typed: str, *, moves: bool = False, draft: Callable[[str], None] | None = None) -> str:
    """Put the question where that is typed: all that was shown."""
    board = Terminal(typed)
    with os.fdopen(board.terminal) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        monkeypatch.setattr("sys.stderr", board)
        before = termios.tcgetattr(stdin)
        AtTerminal(nullcontext, moves=moves, draft=draft)(waiting)  # type: ignore[arg-type]  # as far as it is used
        assert termios.tcgetattr(stdin) == before
    shown = board.getvalue()
    board.close()
    return shown


def test_a_text_is_typed_and_mended_key_by_key(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Clocked()

    put(monkeypatch, waiting, "beer\x15green teaa\x7f pl\x17\x1b[Dplöase 茶\r")

    assert waiting.given == [Answer("accept", {"answer": "green tea plöase 茶"})]


def test_a_key_that_is_pressed_keeps_the_question_open(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Clocked()

    shown = put(monkeypatch, waiting, "tea\r")

    assert waiting.reads == 2, "the prompt, and the keys"
    assert "(1:00 left; a key gives more time)" in shown


def test_what_was_typed_when_it_ends_is_kept_as_an_answer_that_came_late(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Clocked(over_after=2)

    shown = put(monkeypatch, waiting, "a long considered an")

    assert waiting.given == [Answer("accept", {"answer": "a long considered an"})]
    assert "(nobody answered in time; what you typed is kept, and `escalera ask --continue` sends it: a long considered an)" in shown


def test_in_a_chat_it_is_the_draft_of_the_next_message(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting, drafts = Clocked(over_after=2), list[str]()

    shown = put(monkeypatch, waiting, "a long considered an", draft=drafts.append)

    assert (waiting.given, drafts) == ([], ["a long considered an"])
    assert "the draft of your next message" in shown


def test_nothing_is_kept_where_nothing_was_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Clocked(over_after=2)

    assert "(nobody answered in time)" in put(monkeypatch, waiting, " ")
    assert waiting.given == []


@pytest.mark.parametrize(("typed", "up"), [("tea", 1), ("t" * 200, 3)])
def test_the_time_that_is_left_counts_down_above_a_text_that_may_have_wrapped(monkeypatch: pytest.MonkeyPatch, typed: str, up: int) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")

    shown = put(monkeypatch, Clocked(over_after=3, lefts=(60, 59)), typed, moves=True)

    assert f"\x1b7\x1b[{up}A\r\x1b[2K(0:59 left; a key gives more time)\x1b8" in shown


def test_where_the_cursor_may_not_be_moved_it_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in put(monkeypatch, Clocked(over_after=3, lefts=(60, 59)), "t" * 200)
