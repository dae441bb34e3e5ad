"""No path leads out of the workspace, whatever it is made of and whatever changes while it is followed."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Work

CALLS = {
    "read_file": {},
    "list_dir": {},
    "search": {"pattern": "secret"},
    "write_file": {"content": "changed"},
    "edit_file": {"old_text": "the secret", "new_text": "changed"},
}


def untouched(work: Work) -> bool:
    return [path.name for path in work.outside.iterdir()] == ["secret.txt"] and (work.outside / "secret.txt").read_text() == "the secret\n"


@pytest.fixture
def links(work: Work) -> Work:
    """A workspace full of ways out."""
    (work.root / "file-link").symlink_to("../outside/secret.txt")
    (work.root / "folder-link").symlink_to(work.outside)
    (work.root / "chain").symlink_to("file-link")
    (work.root / "dangling").symlink_to("../outside/new.txt")
    (work.root / "magic").symlink_to("/proc/self/root")
    (work.root / "loop").symlink_to("loop")
    work.put("sub/inner.txt", "inner\n")
    return work


@pytest.mark.parametrize("tool", CALLS)
@pytest.mark.parametrize(
    "path",
    [
        *(
            "../outside/secret.txt",
            "sub/../../outside/secret.txt",
            "/etc/passwd",
            "file-link",
            "folder-link/secret.txt",
            "chain",
            "dangling",
            "sub/../file-link",
        ),
        *("/proc/self/environ", "/proc/self/cwd/../outside/secret.txt", "magic/etc/passwd", "../work/../outside/secret.txt", "..", "/", "//etc/passwd"),
    ],
)
def test_what_leads_out_is_refused(links: Work, tool: str, path: str) -> None:
    assert "leads out of the workspace" in links.refused(tool, path=path, **CALLS[tool])
    assert untouched(links)
    assert links.user.acts == []


@pytest.mark.parametrize("tool", CALLS)
@pytest.mark.parametrize("path", ["a\0b", "", "  ", "x" * 5000, "\ud800", "loop", "loop/x", "sub/inner.txt/x", "y" * 300])
def test_what_is_no_path_is_refused(links: Work, tool: str, path: str) -> None:
    assert links.refused(tool, path=path, **CALLS[tool])
    assert sorted(entry.name for entry in links.root.iterdir()) == ["chain", "dangling", "file-link", "folder-link", "loop", "magic", "sub"]


def test_links_and_absolute_paths_within_the_workspace_are_followed(work: Work) -> None:
    work.put("sub/inner.txt", "inner\n")
    (work.root / "link").symlink_to("sub")

    assert work.call("read_file", path="link/inner.txt") == "inner\n"
    assert work.call("read_file", path=str(work.root / "sub" / "inner.txt")) == "inner\n"
    assert work.call("write_file", path="link/other.txt", content="x\n")
    assert work.user.acts[-1].what == "sub/other.txt"


def test_a_workspace_that_is_a_link_itself_is_where_it_leads(work: Work, tmp_path: Path) -> None:
    work.put("a.txt", "a\n")
    (tmp_path / "way").symlink_to(work.root)
    work.seen(workspace=str(tmp_path / "way"))

    assert work.call("read_file", path="a.txt") == "a\n"
    assert work.call("read_file", path=str(work.root / "a.txt")) == "a\n"


@pytest.mark.parametrize("tool", ["read_file", "write_file", "edit_file", "list_dir", "search"])
def test_a_folder_that_becomes_a_link_after_it_was_checked_is_not_followed(work: Work, tool: str) -> None:
    work.put("sub/secret.txt", "the secret of the workspace\n")

    def swap() -> None:
        if not (work.root / "sub").is_symlink():
            shutil.move(work.root / "sub", work.root / "moved")
            (work.root / "sub").symlink_to(work.outside)

    work.user.meanwhile = swap
    path = "sub" if tool in ("list_dir", "search") else "sub/secret.txt"

    assert "it may have changed just now" in work.refused(tool, path=path, **CALLS[tool])
    assert untouched(work)


@pytest.mark.parametrize("tool", ["read_file", "write_file", "edit_file"])
def test_a_file_that_becomes_a_link_after_it_was_checked_is_not_followed(work: Work, tool: str) -> None:
    file = work.put("secret.txt", "the secret of the workspace\n")

    def swap() -> None:
        if not file.is_symlink():
            file.unlink()
            file.symlink_to(work.outside / "secret.txt")

    work.user.meanwhile = swap

    assert "is a link, not a file" in work.refused(tool, path="secret.txt", **CALLS[tool])
    assert untouched(work)


def test_a_new_folder_that_somebody_links_elsewhere_meanwhile_is_not_written_through(work: Work) -> None:
    work.user.meanwhile = lambda: (work.root / "new").is_symlink() or (work.root / "new").symlink_to(work.outside)

    assert work.refused("write_file", path="new/secret.txt", content="changed")
    assert untouched(work)


def test_a_file_that_may_lie_outside_as_well_is_asked_about_before_it_is_read(work: Work) -> None:
    os.link(work.outside / "secret.txt", work.root / "hard")

    assert work.call("read_file", path="hard") == "the secret\n"
    (act,) = work.user.acts
    assert act.verb == "read"
    assert "hard links" in act.notes[0]

    work.user.says_yes = False
    assert "said no" in work.refused("read_file", path="hard")
    assert "nothing found" in work.call("search", pattern="secret")
    assert "1 files were left out" in work.call("search", pattern="secret")


def test_nothing_is_said_of_what_it_holds_before_it_is_asked_about(work: Work) -> None:
    os.link(work.outside / "secret.txt", work.root / "hard")
    work.user.says_yes = False

    refused = [
        work.refused("edit_file", path="hard", old_text="the secret", new_text="x"),
        work.refused("edit_file", path="hard", old_text="a wrong guess", new_text="x"),
        work.refused("write_file", path="hard", content="the secret\n"),
        work.refused("write_file", path="hard", content="a wrong guess\n"),
    ]

    assert refused == ["the user said no"] * 4
    assert [act.verb for act in work.user.acts] == ["read", "read", "write", "write"]


def test_writing_to_it_leaves_its_other_names_as_they_were(work: Work) -> None:
    os.link(work.outside / "secret.txt", work.root / "hard")

    work.call("write_file", path="hard", content="changed\n")

    assert "keep what it holds now" in work.user.acts[0].notes[0]
    assert untouched(work)
    assert (work.root / "hard").read_text() == "changed\n"


def _pipe(path: Path) -> str:
    os.mkfifo(path)
    return "a pipe"


def _socket(path: Path) -> str:
    with socket.socket(socket.AF_UNIX) as server:
        os.chdir(path.parent)  # a socket's own name is short
        server.bind(path.name)
    return "a socket"


def _folder(path: Path) -> str:
    path.mkdir()
    return "a folder"


@pytest.mark.parametrize("make", [_pipe, _socket, _folder])
@pytest.mark.parametrize("tool", ["read_file", "write_file", "edit_file"])
def test_what_is_no_file_is_neither_opened_nor_waited_for(work: Work, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], str], tool: str) -> None:
    monkeypatch.chdir(work.root)
    kind = make(work.root / "it")

    assert kind in work.refused(tool, path="it", **CALLS[tool])
    assert "nothing found in 0 files" in work.call("search", pattern="secret")


@pytest.mark.parametrize("name", ["zero", "null"])
def test_a_device_is_neither_read_nor_written(work: Work, name: str) -> None:
    work.seen(workspace="/dev")

    assert "is a device" in work.refused("read_file", path=name)
    assert "is a device" in work.refused("write_file", path=name, content="x")


def test_the_files_of_the_kernel_are_no_part_of_a_workspace_that_is_the_whole_system(work: Work) -> None:
    work.seen(workspace="/")

    for path in ("proc/self/environ", "/proc/self/mem", "sys/kernel/uevent_seqnum", "dev/zero"):
        assert "leads out of the workspace" in work.refused("read_file", path=path)
