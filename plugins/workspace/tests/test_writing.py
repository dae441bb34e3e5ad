"""Writing: exactly what was shown, only when it was allowed, whole or not at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter

import pytest
from escalera_workspace.changes import difference
from escalera_workspace.places import lines_of
from hypothesis import given
from hypothesis import strategies as st

from .conftest import Work


def test_a_new_file_is_shown_whole_and_written_with_its_folders(work: Work) -> None:
    told = work.call("write_file", path="docs/new/a.md", content="one\ntwo\n")

    (act,) = work.user.acts
    assert (act.verb, act.what, act.pattern, act.notes) == ("write", "docs/new/a.md", "docs/new/**", ("The file is new.",))
    assert act.shown == "@@ from line 1 @@\n+one\n+two"
    assert (work.root / "docs/new/a.md").read_text() == "one\ntwo\n"
    assert told == "docs/new/a.md made: +2 −0 lines"


def test_a_change_is_shown_with_the_lines_around_it(work: Work) -> None:
    file = work.put("a.py", "".join(f"{number}\n" for number in range(1, 21)))

    told = work.call("edit_file", path="a.py", old_text="10\n11\n", new_text="ten\n")

    assert work.user.acts[0].shown == "@@ from line 7 @@\n 7\n 8\n 9\n-10\n-11\n+ten\n 12\n 13\n 14"
    assert "9\nten\n12\n" in file.read_text()
    assert told == "a.py changed: +1 −2 lines"


@pytest.mark.parametrize("tool", ["write_file", "edit_file"])
def test_nothing_is_written_when_the_user_says_no(work: Work, tool: str) -> None:
    work.put("a.txt", "old\n")
    work.user.says_yes = False
    arguments = {"content": "new\n"} if tool == "write_file" else {"old_text": "old", "new_text": "new"}

    assert "said no" in work.refused(tool, path="a.txt", **arguments)
    assert "said no" in work.refused("write_file", path="new/b.txt", content="x")
    assert [path.name for path in work.root.iterdir()] == ["a.txt"]
    assert (work.root / "a.txt").read_text() == "old\n"


@pytest.mark.parametrize("meanwhile", ["changed", "gone", "made"])
def test_a_file_that_changes_while_the_question_stands_is_not_overwritten(work: Work, meanwhile: str) -> None:
    file = work.root / "a.txt"
    if meanwhile != "made":
        file.write_text("old\n")
    work.user.meanwhile = file.unlink if meanwhile == "gone" else lambda: file.write_text("somebody else's\n")

    assert "has changed while the question stood" in work.refused("write_file", path="a.txt", content="new\n")
    assert (file.read_text() if file.exists() else None) == (None if meanwhile == "gone" else "somebody else's\n")
    assert len(list(work.root.iterdir())) == (0 if meanwhile == "gone" else 1)


def test_what_is_to_be_replaced_must_stand_there_just_once(work: Work) -> None:
    file = work.put("a.txt", "x = 1\nx = 1\n")

    assert "2 times" in work.refused("edit_file", path="a.txt", old_text="x = 1", new_text="y")
    assert "does not stand in" in work.refused("edit_file", path="a.txt", old_text="z", new_text="y")
    assert "old_text is empty" in work.refused("edit_file", path="a.txt", old_text="", new_text="y")
    assert work.user.acts == []
    work.call("edit_file", path="a.txt", old_text="x = 1", new_text="y", all=True)
    assert file.read_text() == "y\ny\n"


def test_line_ends_marks_and_modes_stay_as_they_are(work: Work) -> None:
    file = work.put("a.bat", "\ufeffone\r\ntwo\r\n".encode())
    file.chmod(0o750)

    work.call("edit_file", path="a.bat", old_text="one\ntwo\n", new_text="1\n2\n")

    assert file.read_bytes() == "\ufeff1\r\n2\r\n".encode()
    assert file.stat().st_mode & 0o777 == 0o750


def test_a_file_that_is_no_utf_8_is_not_edited_and_shown_as_what_it_is_when_replaced(work: Work) -> None:
    work.put("latin.txt", b"caf\xe9\n")
    work.put("image.png", b"\0\1\2")

    assert "no text in UTF-8" in work.refused("edit_file", path="latin.txt", old_text="caf", new_text="x")
    work.call("write_file", path="latin.txt", content="tea\n")
    work.call("write_file", path="image.png", content="text\n")
    assert "-caf\\xe9" in work.user.acts[0].shown
    assert "(3 bytes that are no text)" in work.user.acts[1].shown


def test_what_cannot_be_written_is_told_before_anybody_is_asked(work: Work) -> None:
    work.put("ro.txt", "x").chmod(0o444)

    assert "half a character" in work.refused("write_file", path="a", content="\ud800")
    assert "at most 1,048,576" in work.refused("write_file", path="a", content="x" * 2**20 + "y")
    assert "read-only" in work.refused("write_file", path="ro.txt", content="y")
    assert "holds that already" in work.call("write_file", path="ro.txt", content="x")
    assert work.user.acts == []


@pytest.mark.parametrize(
    ("path", "pattern"),
    [("a.py", "=a.py"), ("src/a.py", "src/**"), (".github/x.yml", "=.github/x.yml"), ("src/.env", "=src/.env"), ("a*b/c", "=a*b/c")],
)
def test_what_is_offered_to_be_allowed_along_with_it(work: Work, path: str, pattern: str) -> None:
    work.call("write_file", path=path, content="x")

    assert work.user.acts[0].pattern == pattern


WRITER = """
import sys
from escalera_workspace.places import place_of, read, replace
place = place_of(sys.argv[1], "file.bin")
contents = [b"a" * 3_000_000, b"b" * 3_000_000]
while True:
    for content in contents:
        replace(place, content, read(place))
        print(".", flush=True)
"""


@pytest.mark.parametrize("writes", [1, 2, 3, 6])
def test_a_kill_in_the_middle_leaves_the_old_file_or_the_new_one(work: Work, writes: int) -> None:
    child = subprocess.Popen([sys.executable, "-c", WRITER, str(work.root)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    for _ in range(writes):
        child.stdout.readline()
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()

    data = (work.root / "file.bin").read_bytes()
    assert len(data) == 3_000_000
    assert len(set(data)) == 1


def test_a_full_disk_leaves_the_old_file_and_nothing_else(work: Work) -> None:
    file = work.put("a.txt", "old\n")
    script = (
        "import resource, signal, sys\n"
        "from escalera_workspace.places import place_of, read, replace\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "place = place_of(sys.argv[1], 'a.txt')\n"
        "try:\n    replace(place, b'x' * 5000, read(place))\n"
        "except Exception as error:\n    print(error)\n"
    )

    told = subprocess.run([sys.executable, "-c", script, str(work.root)], capture_output=True, text=True, check=True).stdout

    assert "cannot be written, and is as it was" in told
    assert file.read_text() == "old\n"
    assert os.listdir(work.root) == ["a.txt"]


TEXTS = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n", "d"]), max_size=30).map("".join)


@given(TEXTS, TEXTS)
def test_the_lines_that_are_shown_are_the_whole_difference(before: str, after: str) -> None:
    shown = difference(before, after).replace("\n\\ no newline at the end", "\\").split("\n")
    gone, come = (Counter(line[1:] for line in shown if line.startswith(mark)) for mark in "-+")

    def lines(text: str) -> Counter[str]:
        return Counter(line.removesuffix("\n") if line.endswith("\n") else line + "\\" for line in lines_of(text))

    assert lines(before) - gone + come == lines(after)


def test_the_difference_of_large_texts_takes_no_longer_for_being_monotonous() -> None:
    before, after = "same\n" * 100_000, "x\n" + "same\n" * 99_990 + "y\n"

    assert difference(before, after).count("\n") < 200_100
