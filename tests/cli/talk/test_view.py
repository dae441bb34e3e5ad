"""How a turn is shown in a chat."""

from __future__ import annotations

from orchestrator.cli.talk.screen import last_lines
from orchestrator.cli.talk.view import Bare, View, between_words
from orchestrator.dispatch.desk import Shown

STARTED = Shown("turn_started", data={"agent": "strong", "role": "escalation", "mode": "first"})


class Seen:
    """A view whose clock is set by hand."""

    def __init__(self) -> None:
        self.put: list[str] = []
        self.now = 0.0
        self.view = View(Bare(), self.put.append, lambda: 40, lambda: self.now)

    def show(self, *shown: Shown) -> list[str]:
        for one in (STARTED, *shown):
            self.view.show(one)
        return self.put


def test_what_is_awaited_and_since_when() -> None:
    seen = Seen()
    seen.show()
    seen.now = 65.0
    assert seen.view.activity("ascii").endswith("strong (escalation, first) is thinking 1:05")

    for shown, doing in (
        (Shown("reasoning", "hm"), "is reasoning"),
        (Shown("tool_call", data={"id": "c", "name": "grep", "arguments": {}}), "is running grep"),
        (Shown("tool_result", "x", {"id": "c", "is_error": False}), "is thinking"),
        (Shown("text", "so"), "is answering"),
    ):
        seen.view.show(shown)
        assert doing in seen.view.activity("utf-8")
    seen.view.end()
    assert seen.view.activity("utf-8") == ""


def test_complete_blocks_are_printed_and_the_rest_is_seen_growing() -> None:
    seen = Seen()
    assert seen.show(Shown("text", "One\n\nTw"), Shown("text", "o")) == ["One"]
    assert seen.view.tail == "Two"
    seen.view.end()
    assert seen.put == ["One", "\n", "Two"]


def test_reasoning_is_folded_and_can_be_shown() -> None:
    seen = Seen()
    assert seen.show(Shown("reasoning", "first "), Shown("reasoning", "then"), Shown("text", "Done.")) == ["· reasoning, 10 characters (Ctrl-O shows\n  it)"]
    assert seen.view.reasoning == "first then"


def test_tools_have_a_line_each_and_what_they_gave_its_first_line() -> None:
    seen = Seen()
    call, result = Shown("tool_call", data={"id": "c", "name": "grep", "arguments": {"p": "x"}}), Shown("tool_result", "a\nb\nc", {"id": "c", "is_error": True})
    assert seen.show(call, result) == ['· grep {"p": "x"}', "  → failed: a (+2 lines)"]


def test_what_was_withdrawn_stays_and_that_is_said_and_each_notice_comes_once() -> None:
    seen = Seen()
    notice = Shown("notice", "mind this")
    assert seen.show(Shown("text", "Half"), Shown("withdrawn"), notice, notice)[0] == "Half"
    assert seen.put[1].startswith("what stands above was withdrawn")
    assert seen.put[2:] == ["mind this"]


def test_the_last_lines_as_a_terminal_breaks_them() -> None:
    assert last_lines("one\ntwo\nthree", 10, 2) == ["two", "three"]
    assert last_lines("日本語x", 4, 9) == ["日本", "語x"]
    assert last_lines("", 4, 9) == []


def test_long_lines_are_broken_between_words_and_set_in() -> None:
    assert between_words("  because it is long", 12) == "  because it\n    is long"
    assert between_words("short  as it is", 80) == "short  as it is"
