"""Files that a prompt names with `@path`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

_NAMED = re.compile(r'(?<![^\s(])@(?:"([^"\n]+)"|(\S+))')
_CLOSING = ".,;:!?)]}'\""


def named_files(text: str, *, cwd: Path, environ: Mapping[str, str]) -> list[Path]:
    """The files that are there, in order and each once; any other word with an `@` is only a word."""
    found = (_file(quoted or word, cwd, environ) for quoted, word in _NAMED.findall(text))
    return list(dict.fromkeys(path for path in found if path is not None))


def place_of(name: str, *, cwd: Path, environ: Mapping[str, str]) -> Path:
    """Where a name lies: below the working directory, or the home folder for `~/`."""
    home = environ.get("HOME", "")
    return Path(home, name[2:]) if name.startswith("~/") and os.path.isabs(home) else cwd / name


def _file(name: str, cwd: Path, environ: Mapping[str, str]) -> Path | None:
    """As it is written, else without the punctuation of the sentence around it."""
    for candidate in (name, name.rstrip(_CLOSING)):
        try:
            if candidate and place_of(candidate, cwd=cwd, environ=environ).is_file():
                return place_of(candidate, cwd=cwd, environ=environ)
        except (OSError, ValueError):
            continue
    return None
