"""The program's own way to standard output, apart from what code of strangers prints: on stdout stands the answer and nothing else (page 6)."""

from __future__ import annotations

import io
import os
import sys


class OwnOutput(io.TextIOWrapper):
    """Leads to where standard output led when the program started, whatever a plugin does to `sys.stdout` or to the descriptor below it."""

    _is_alone = False

    @classmethod
    def of_process(cls) -> OwnOutput | None:
        """For the command line alone: a program that merely uses our modules keeps its descriptors as they are.

        None where something else than a file was put in the place of standard output before the program started.
        """
        if not isinstance(sys.stdout, io.TextIOWrapper):
            return None
        return cls(open(os.dup(sys.stdout.fileno()), "wb"), sys.stdout.encoding, sys.stdout.errors)

    def keep_alone(self) -> None:
        """From here on whatever else is printed goes to stderr: by any thread, by children, by what writes to the descriptor itself."""
        if self._is_alone or not isinstance(sys.stdout, io.TextIOWrapper):
            return
        self._is_alone = True
        sys.stdout.reconfigure(errors="backslashreplace", line_buffering=True)  # as stderr has it
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
