"""The command line: parses, calls, shows."""

from __future__ import annotations

import sys


def main() -> None:
    """Run `escalera` with the process's arguments and exit with its code (page 6)."""
    if sys.argv[1:] == ["--version"]:  # answered without the rest of the program: it starts in a blink
        from orchestrator import __version__

        sys.stdout.write(f"escalera {__version__}\n")
        return
    from orchestrator.cli.app import run

    sys.exit(run(sys.argv[1:]))
