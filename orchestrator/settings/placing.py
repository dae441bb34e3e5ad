"""Where relative file names in a source start from: the folder of the file that gives them, wherever they are used (page 5)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def placed_command(words: Sequence[Any], folder: Path, home: Path | None) -> tuple[Any, ...]:  # any: what stands in a file
    """A command with its program placed. One without a slash in its name is looked up on PATH."""
    program = words[0] if words else ""
    is_path = isinstance(program, str) and ("/" in program or os.sep in program)
    return (str(placed_file(program, folder, home)), *words[1:]) if is_path else tuple(words)


def placed_file(name: str, folder: Path, home: Path | None) -> Path:
    """A file's absolute path; `~/` is the home folder."""
    if name.startswith("~/") and home is not None:
        return home / name[2:]
    return Path(os.path.abspath(folder / name))
