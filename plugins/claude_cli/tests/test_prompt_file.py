"""The file with the system text: private, and not left lying about for ever."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from escalera_claude_cli.prompt_file import SystemPromptFile, sweep

HOLDER = """
import sys, tempfile, time
tempfile.tempdir = sys.argv[1]
from escalera_claude_cli.prompt_file import SystemPromptFile
file = SystemPromptFile("a text")
print(file.path, flush=True)
time.sleep(60)
"""


def test_only_this_user_can_read_it_and_it_goes_with_its_folder():
    file = SystemPromptFile("état")
    path = Path(file.path)

    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert path.read_text(encoding="utf-8") == "état"
    file.remove()
    assert not path.parent.exists()


@pytest.fixture
def killed(tmp_path: Path):
    """The folder of a process that is killed once it is asked to be."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    folder = Path(process.stdout.readline().strip()).parent

    def kill() -> None:
        process.kill()
        process.wait()

    yield folder, kill
    kill()


def test_what_a_killed_process_left_is_swept_once_it_is_old_and_nobodys(tmp_path, killed):
    folder, kill = killed
    later = time.time() + 3600

    sweep(tmp_path, now=later)
    assert folder.exists()  # its process lives
    kill()
    sweep(tmp_path, now=time.time())
    assert folder.exists()  # it is young
    sweep(tmp_path, now=later)
    assert not folder.exists()


def test_nothing_else_is_swept(tmp_path, killed):
    _, kill = killed
    kill()
    target = tmp_path / "kept"
    target.mkdir()
    (target / "mine.txt").write_text("mine")
    for name in ("escalera-demo-1", "escalera-promptly", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "escalera-prompt-link").symlink_to(target)
    (tmp_path / "escalera-prompt-file").write_text("x")

    sweep(tmp_path, now=time.time() + 3600)

    left = sorted(os.listdir(tmp_path))
    assert left == ["escalera-demo-1", "escalera-prompt-file", "escalera-prompt-link", "escalera-promptly", "kept", "other"]
    assert (target / "mine.txt").exists()
