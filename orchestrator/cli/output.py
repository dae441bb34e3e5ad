"""What a command prints: documents and answers on stdout, notices on stderr, nothing that could drive the terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO

from orchestrator.cli.streams import OwnOutput
from orchestrator.documents.json_text import json_text
from orchestrator.errors import OutputFailed
from orchestrator.terminal import clean

if TYPE_CHECKING:
    from orchestrator.documents.kinds import Document
    from orchestrator.documents.kinds.questions import QuestionDocument
    from orchestrator.documents.kinds.stream import StreamLine
    from orchestrator.documents.session import SessionDocument


@dataclass(frozen=True, slots=True)
class Output:
    """How this run may print: page 6's terminal contract."""

    interactive: bool
    """Somebody is there to be asked and to watch."""
    color: bool
    plain: bool
    own_stdout: OwnOutput | None = field(default=None, kw_only=True)
    """The program's, where the process is ours."""

    @classmethod
    def of(cls, environ: Mapping[str, str], own_stdout: OwnOutput | None, *, color: str, no_input: bool, plain: bool) -> Output:
        dumb = environ.get("TERM") == "dumb"
        terminal = (own_stdout or sys.stdout).isatty()
        wanted = color == "always" or (color == "auto" and (bool(environ.get("FORCE_COLOR")) or (terminal and not environ.get("NO_COLOR") and not dumb)))
        return cls(interactive=terminal and sys.stdin.isatty() and not no_input, color=wanted and not plain, plain=plain or dumb, own_stdout=own_stdout)

    @property
    def asks(self) -> bool:
        """Whether a question in the middle of a turn would be seen: it stands where notices stand."""
        return self.interactive and sys.stderr.isatty()

    @property
    def stdout(self) -> TextIO:
        """Where the answer goes."""
        return self.own_stdout or sys.stdout

    def print_json(self, document: Document | SessionDocument) -> None:
        """One document."""
        self.print_text(json_text(document))

    def print_line(self, line: StreamLine | QuestionDocument) -> None:
        """One line of a stream."""
        self.print_text(json_text(line, indent=None))

    def say(self, text: str = "") -> None:
        """A line of the answer itself."""
        self.print_text(clean(text) + "\n")

    def print_text(self, text: str) -> None:
        """Text of the answer as it is: whoever gives it has cleaned it."""
        write(self.stdout, text)

    @staticmethod
    def notice(text: str) -> None:
        """A line beside the answer; where nobody can be told, nothing else is lost."""
        with suppress(ReaderGone, OutputFailed):
            write(sys.stderr, clean(text) + "\n")

    def heading(self, text: str) -> None:
        """A line that stands out where colours may be used."""
        self.print_text(f"\x1b[1m{clean(text)}\x1b[0m\n" if self.color else clean(text) + "\n")

    def keep_alone(self) -> None:
        """Before code of strangers is loaded: where the program has a way of its own to stdout, nobody else has one any more."""
        if self.own_stdout is not None:
            self.own_stdout.keep_alone()


class ReaderGone(Exception):
    """Whoever read our output has gone: no failure, and nothing more to say."""


def write(stream: TextIO, text: str) -> None:
    """Write and flush; a strict 8-bit console gets replacement characters, never a crash. Raises `ReaderGone`, `OutputFailed`."""
    try:
        stream.write(printable(text, stream.encoding))
        stream.flush()
    except BrokenPipeError as error:
        discard(stream)
        raise ReaderGone from error
    except OSError as error:
        discard(stream)
        raise OutputFailed(f"the output cannot be written: {error.strerror or error}", hint="what was done before stands") from error


def discard(stream: TextIO) -> None:
    """What is still in its buffer has nowhere to go; flushing that when the program ends would fail once more."""
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


def printable(text: str, encoding: str | None = None) -> str:
    """The text as this encoding can carry it."""
    encoding = encoding or getattr(sys.stderr, "encoding", None) or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)
