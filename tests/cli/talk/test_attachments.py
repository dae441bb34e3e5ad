"""Files that are named in a prompt."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.cli.talk.attachments import named_files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("notes.md", "a b.txt", "deep/er.py", "home/mine.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see @notes.md", ["notes.md"]),
        ("(@notes.md), then.", ["notes.md"]),
        ("see @notes.md, then @notes.md.", ["notes.md"]),
        ('@"a b.txt" and @deep/er.py', ["a b.txt", "deep/er.py"]),
        ("me@notes.md @property @deep @missing.md @", []),
        ("@~/mine.txt", ["home/mine.txt"]),
        ("@" + "x" * 5000 + " @a\0b", []),
    ],
)
def test_words_that_name_a_file(folder: Path, text: str, found: list[str]) -> None:
    files = named_files(text, cwd=folder, environ={"HOME": str(folder / "home")})
    assert [str(path.relative_to(folder)) for path in files] == found
