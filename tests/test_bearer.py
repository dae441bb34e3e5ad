"""The token of the servers: made once, private, and refused where it is neither."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from orchestrator.bearer import FILE, read_or_make
from orchestrator.errors import ConfigError


def test_it_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "data"

    token = read_or_make(folder)

    assert len(token) >= 32
    assert read_or_make(folder) == token
    assert (folder / FILE).stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700


def test_many_at_once_make_one(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        tokens = set(pool.map(lambda _: read_or_make(tmp_path), range(64)))

    assert len(tokens) == 1
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such permissions")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_one_that_others_can_reach_is_refused(tmp_path: Path, mode: int) -> None:
    read_or_make(tmp_path)
    (tmp_path / FILE).chmod(mode)

    with pytest.raises(ConfigError, match="others can read"):
        read_or_make(tmp_path)


@pytest.mark.parametrize("content", [b"", b"\n", b"short", b"\xff" * 40, b"two words of some length", b"a" * 20 + b"\x00"])
def test_a_damaged_one_is_refused(tmp_path: Path, content: bytes) -> None:
    read_or_make(tmp_path)
    (tmp_path / FILE).write_bytes(content)

    with pytest.raises(ConfigError, match="no token"):
        read_or_make(tmp_path)


def test_a_folder_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(ConfigError, match="cannot be used"):
        read_or_make(tmp_path / "file")
