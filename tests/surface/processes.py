"""What runs on this machine, as far as a test must know it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def processes_with(text: str) -> list[str]:
    """The command line and environment of every other process that has the text in one of them."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            with suppress(OSError):
                found.append(((folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()).replace(b"\0", b" ").decode(errors="replace"))
    return [process for process in found if text in process]
