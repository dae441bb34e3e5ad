"""Which of a draft the user typed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prompt_toolkit.completion import Completion, WordCompleter
from prompt_toolkit.history import InMemoryHistory

from orchestrator.cli.talk.draft import Draft

LOG = "see\n@notes.md\n"


def drafted(*steps: Callable[[Draft], object]) -> tuple[str, str]:
    """Text and what is the user's of it, with a `·` for each character that is not."""

    async def done() -> Draft:
        history = InMemoryHistory()
        history.append_string("X@recalled")
        draft = Draft(completer=WordCompleter([]), history=history)
        draft._working_lines.appendleft("X@recalled")  # as the history is loaded once it is on the screen
        draft._Buffer__working_index += 1  # type: ignore[attr-defined]  # the same
        for step in steps:
            step(draft)
        return draft

    draft = asyncio.run(done())
    assert len(draft.own) == len(draft.text)
    return draft.text, "".join("·" if char != own else char for char, own in zip(draft.text, draft.own, strict=True))


def typed(text: str) -> Callable[[Draft], object]:
    return lambda draft: [draft.insert_text(character) for character in text]


def pasted(text: str) -> Callable[[Draft], object]:
    return lambda draft: draft.paste(text)


def at(place: int) -> Callable[[Draft], object]:
    return lambda draft: setattr(draft, "cursor_position", place)


def saved(draft: Draft) -> None:
    draft.save_to_undo_stack()


@pytest.mark.parametrize(
    ("steps", "own"),
    [
        ([typed("see @a")], "see @a"),
        ([pasted(LOG), typed(" or @b")], "···\n·········\n or @b"),
        ([typed("@b "), pasted(LOG), Draft.delete_before_cursor, at(1), typed("x")], "@xb ···\n·········"),
        ([pasted(LOG), at(5), Draft.delete, typed("n")], "···\n·n·······\n"),
        ([pasted("one @line")], "·········"),
        ([typed("@"), pasted("a/path.md")], "@a/path.md"),
        ([typed("@"), pasted("a/path.md\nmore")], "@·········\n····"),
        ([typed("@a "), saved, typed("@b"), Draft.undo, Draft.redo], "@a ··"),
        ([Draft.history_backward], "··········"),
        ([typed("my @mine"), Draft.history_backward, Draft.history_forward], "········"),
        ([typed("@no"), lambda draft: draft.apply_completion(Completion("notes.md", -2))], "@notes.md"),
        ([typed("x "), Draft.yank_last_arg], "x ··········"),
        ([typed("@draft"), lambda draft: draft.bring_back("@given @back", "@given\n\n\n\n\n\n")], "@given······\n@draft"),
        ([typed("@draft"), Draft.reset, pasted(LOG)], "···\n·········\n"),
    ],
)
def test_only_what_was_typed_or_completed_here_is_the_users(steps: list[Callable[[Draft], object]], own: str) -> None:
    assert drafted(*steps)[1] == own


edits = st.one_of(
    st.builds(typed, st.text("ab@ ", min_size=1, max_size=4)),
    st.builds(pasted, st.text("XY@\n ", min_size=1, max_size=8).map(lambda text: f"X@\n{text}")),
    st.builds(at, st.integers(0, 30)),
    st.builds(lambda count: lambda draft: draft.delete_before_cursor(count), st.integers(1, 5)),
    st.sampled_from([saved, Draft.undo, Draft.redo, Draft.swap_characters_before_cursor, Draft.join_next_line, Draft.yank_last_arg]),
)


@settings(max_examples=30, deadline=None)
@given(st.lists(edits, max_size=15))
def test_however_it_is_edited_nothing_pasted_becomes_the_users(steps: list[Callable[[Draft], object]]) -> None:
    assert not set(drafted(*steps)[1]) & set("XY")


def test_a_key_in_a_pasted_book_takes_no_time_that_is_felt() -> None:
    """Work grows with the text's length by comparing alone, not by a step for each character."""
    book = "a line of a book\n" * 60_000

    def steps(draft: Draft) -> None:
        draft.paste(book)
        draft.cursor_position = len(book) // 2
        draft.insert_text("x")

    assert drafted(steps)[1].count("x") == 1
