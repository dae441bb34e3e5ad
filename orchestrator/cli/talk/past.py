"""What was typed before: a private file in the state folder, bounded."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.history import History

KEPT = 1000
"""Prompts that are kept; the file has at most twice as many before the oldest go."""
LONGEST = 20_000
"""Characters of a prompt that is kept; what is longer was pasted, and lies in the session."""


class Past(History):
    """One JSON string a line, so that a prompt may have many lines. A file that cannot be read or written is no hindrance."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def load_history_strings(self) -> Iterable[str]:
        """The newest first."""
        lines = self._lines()
        if len(lines) > 2 * KEPT:
            self._keep(lines[-KEPT:])
        return reversed([text for line in lines[-KEPT:] if (text := _text(line)) is not None])

    def store_string(self, string: str) -> None:
        if len(string) > LONGEST:
            return
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with open(descriptor, "ab") as file:
                os.fchmod(descriptor, 0o600)
                file.write(_line(string))

    def _lines(self) -> list[bytes]:
        try:
            return self._path.read_bytes().splitlines(keepends=True)
        except OSError:
            return []

    def _keep(self, lines: list[bytes]) -> None:
        """Write them in the place of the file, whole or not at all."""
        beside = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        with suppress(OSError):
            with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.writelines(lines)
            beside.replace(self._path)


def _line(text: str) -> bytes:
    return json.dumps(text).encode() + b"\n"


def _text(line: bytes) -> str | None:
    try:
        text = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return text if isinstance(text, str) else None
