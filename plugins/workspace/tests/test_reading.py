"""Reading and listing: pages that fit, and nothing that is too large or no text."""

from __future__ import annotations

import os

import pytest

from .conftest import Work


def test_a_short_file_comes_as_it_is(work: Work) -> None:
    work.put("a.txt", "one\ntwo")

    assert work.call("read_file", path="a.txt") == "one\ntwo"


def test_a_long_file_comes_in_pages_that_join_to_the_whole(work: Work) -> None:
    lines = [f"line {number} {'x' * (number % 90)}\n" for number in range(1, 800)]
    work.put("long.txt", "".join(lines))
    work.seen(result_chars=3000)
    read, offset = [], 1

    while offset:
        head, _, page = work.call("read_file", path="long.txt", offset=offset).partition("\n")
        assert len(head) + len(page) <= 3000
        read.append(page)
        offset = int(head.partition("offset=")[2].rstrip("]") or 0)

    assert "".join(read) == "".join(lines)


def test_a_page_begins_and_ends_where_it_is_wanted(work: Work) -> None:
    work.put("a.txt", "1\n2\n3\n4\n5\n")

    assert work.call("read_file", path="a.txt", offset=2, limit=2) == "[a.txt: lines 2 to 3 of 5; go on with offset=4]\n2\n3\n"
    assert "there is no line 9" in work.refused("read_file", path="a.txt", offset=9)


def test_a_line_that_is_longer_than_a_page_is_cut_and_says_so(work: Work) -> None:
    work.put("min.js", "x" * 50_000 + "\nend\n")
    work.seen(result_chars=1000)

    assert "49,200 more characters in this line" in work.call("read_file", path="min.js")
    assert work.call("read_file", path="min.js", offset=2).endswith("\nend\n")


def test_only_newlines_end_lines(work: Work) -> None:
    work.put("odd.txt", "a\u2028b\x0cc\x85d\r\ne\n")

    assert work.call("read_file", path="odd.txt", offset=2) == "[odd.txt: lines 2 to 2 of 2]\ne\n"


@pytest.mark.parametrize("arguments", [{"offset": 0}, {"offset": "x"}, {"limit": -1}, {"offset": True}, {"path": 7}, {"path": None}])
def test_arguments_that_make_no_sense_are_told(work: Work, arguments: dict[str, object]) -> None:
    work.put("a.txt", "1\n")

    assert "argument" in work.refused("read_file", **{"path": "a.txt", **arguments})


def test_a_huge_file_is_refused_with_its_size(work: Work) -> None:
    os.truncate(work.put("huge.bin", ""), 50 * 1024**3)

    assert "53,687,091,200 bytes" in work.refused("read_file", path="huge.bin")
    assert "bytes" in work.refused("edit_file", path="huge.bin", old_text="a", new_text="b")
    assert "1 files were left out" in work.call("search", pattern="a")


def test_a_file_that_is_no_text_is_refused(work: Work) -> None:
    work.put("image.png", b"\x89PNG\0\0secret")

    assert "is no text: 12 bytes" in work.refused("read_file", path="image.png")
    assert "1 files were left out" in work.call("search", pattern="secret")


def test_bytes_that_are_no_utf_8_are_read_as_well_as_may_be(work: Work) -> None:
    work.put("latin.txt", "caf\xe9\n".encode("latin-1"))

    assert work.call("read_file", path="latin.txt") == "caf\ufffd\n"


def test_a_missing_file_and_an_empty_one_are_told_apart(work: Work) -> None:
    work.put("empty.txt", "")

    assert work.call("read_file", path="empty.txt") == "empty.txt is empty"
    assert "there is no file gone.txt" in work.refused("read_file", path="gone.txt")


def test_a_folder_is_listed_with_what_is_in_it(work: Work) -> None:
    work.put("b.txt", "12345")
    work.put("a/x", "")
    (work.root / "link").symlink_to("/etc/passwd")
    os.mkfifo(work.root / "pipe")
    work.put("bad\nname \x1b[31m", "")

    assert work.call("list_dir") == "a/\nb.txt (5 bytes)\nbad\\nname \\x1b[31m (0 bytes)\nlink (a link)\npipe (no file)"
    assert work.call("list_dir", path="a") == "x (0 bytes)"
    assert "no folder" in work.refused("list_dir", path="b.txt")


def test_a_crowded_folder_is_listed_in_part(work: Work) -> None:
    for number in range(1010):
        work.put(f"f{number:04}", "")

    listed = work.call("list_dir").splitlines()

    assert len(listed) == 1001
    assert "more than these 1,000" in listed[-1]


def test_nothing_is_read_that_a_rule_forbids(work: Work) -> None:
    work.put(".env", "TOKEN=secret\n")
    work.put("a.txt", "no secret\n")
    work.user.forbids = lambda act: act.what == ".env"

    assert work.refused("read_file", path=".env") == "forbidden"
    assert work.refused("edit_file", path=".env", old_text="TOKEN", new_text="X") == "forbidden"
    assert work.call("search", pattern="secret").splitlines()[0] == "a.txt:1: no secret"
    assert "TOKEN" not in work.call("search", pattern=".")
