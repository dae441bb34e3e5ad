"""The command line: parses, calls, shows."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run `escalera` with the process's arguments and exit with its code (page 6)."""
    if sys.argv[1:] == ["--version"]:  # answered without the rest of the program: it starts in a blink
        from orchestrator import __version__

        try:
            os.write(1, f"escalera {__version__}\n".encode())
        except OSError:  # nobody reads it
            sys.exit(1)
        return
    from orchestrator.cli.app import run
    from orchestrator.cli.leaving import leave

    leave(run(sys.argv[1:], alone=True))
