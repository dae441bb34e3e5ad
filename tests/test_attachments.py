"""Files in a prompt: told apart from what was said, and only named afterwards."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.attachments import referenced, with_attachments, without_attachments
from orchestrator.tags import neutralise

NAMES = st.text(min_size=1).filter(lambda name: bool(name.strip()))
PROMPTS = st.text().filter(lambda text: bool(text.strip()) and "File" not in text and not text.endswith("\n"))


@given(PROMPTS, st.lists(st.tuples(NAMES, st.text()), max_size=3))
def test_what_was_said_and_the_files_are_told_apart(prompt: str, files: list[tuple[str, str]]) -> None:
    whole = with_attachments(prompt, [(name, text.encode("utf-8", "surrogatepass"), text) for name, text in files])

    assert without_attachments(whole) == prompt
    assert referenced(whole).count("was attached here") == len(files)
    assert without_attachments(neutralise(whole)) == neutralise(prompt)


def test_a_file_that_looks_like_another_one_is_one() -> None:
    inner = with_attachments("x", [("inner.txt", b"secret plans", "secret plans")])
    outer = with_attachments("look", [("outer.txt", inner.encode(), inner)])

    assert referenced(outer).startswith("look\n\n(The file outer.txt, ")
    assert "plans" not in referenced(outer)
    assert referenced(outer).count("was attached here") == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "File a.txt:\n~~~\nx\n~~~",
        "File a.txt (3 bytes, sha256 0123456789abcdef):\n~~~\nno end",
        "a File a.txt (3 bytes, sha256 0123456789abcdef):\n~~~\nx\n~~~",
        "File a.txt (3 bytes, sha256 0123456789abcdef):\n~~~\nx\n~~~~",
    ],
)
def test_what_is_no_file_stays_as_it_is(text: str) -> None:
    assert referenced(text) == text


def test_text_stands_around_a_file_that_was_pasted() -> None:
    pasted = with_attachments("before", [("a.txt", b"x", "x")]) + "\nafter"

    assert referenced(pasted).endswith("is not repeated.)\nafter")
    assert without_attachments(pasted) == "before\n\n\nafter"


def test_the_work_is_linear_however_hostile_the_text() -> None:
    """Ten times the heads take no more than some ten times as long; looked for anew at each, they would take a hundred."""

    def seconds(count: int) -> float:
        text = "File a (1 bytes, sha256 0123456789abcdef):\n~~~\n" * count
        best = 9.0
        for _ in range(3):
            start = time.thread_time()
            referenced(text)
            best = min(best, time.thread_time() - start)
        return best

    assert seconds(20_000) < 40 * seconds(2_000)
