"""A chat without a screen: each line is a turn, from a pipe or typed at a terminal that shall not be drawn on."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable
from dataclasses import replace

from orchestrator.asking import Asking, left_open
from orchestrator.cli.asking import POLL, AtTerminal
from orchestrator.cli.briefing import editor_of
from orchestrator.cli.front import Front
from orchestrator.cli.interrupts import cancelled_by_signals
from orchestrator.cli.talk.commands import Commands, Leave
from orchestrator.cli.talk.conversation import Conversation
from orchestrator.cli.watch import watcher_for
from orchestrator.documents.turn import turn_document
from orchestrator.errors import EscaleraError
from orchestrator.planning.case import Wish
from orchestrator.providers import Cancel
from orchestrator.quoting import one_line

CANCELLED = 130


class Lines:
    """Takes one line after the other; `run` gives the exit code of the last one that failed."""

    def __init__(self, front: Front, talk: Conversation) -> None:
        self._front, self._talk = front, talk
        self._commands = Commands(front, talk, editor_of(front.environ, front.cwd, front.output.stdout) if front.output.interactive else None)
        self._typed = front.output.interactive
        """Somebody sits there: they are prompted, and a cancelled turn is not the end."""
        self._input = _Input()
        self._code = 0

    def run(self) -> int:
        """Until the input ends, `/quit`, or a signal that means the program and not only a turn."""
        if sys.stdin.isatty():
            self._front.output.notice(welcome(self._talk))
        gone = Cancel()
        with cancelled_by_signals(gone, self._front.clock.monotonic):
            while not gone.is_set():
                line, interrupted = self._next()
                if line is None:
                    return CANCELLED if interrupted else self._code
                if not line.strip():
                    continue
                try:
                    self._code = self._done(line) or self._code
                except Leave:
                    return self._code
                except _Ended:
                    return CANCELLED
        return CANCELLED

    def _next(self) -> tuple[str | None, bool]:
        """The next line, or `None` at the end; and whether that end was asked for by a signal. Typing at a terminal is given up by two interrupts."""
        warned = False
        while True:
            if self._typed:
                self._front.output.print_text("> ")
            cancel = Cancel()
            with cancelled_by_signals(cancel, self._front.clock.monotonic):
                line = self._input.line(cancel.is_set)
            if not cancel.is_set():
                return line, False
            if not self._typed or warned or not _by_user(cancel):
                return None, True
            self._front.output.notice("\nonce more to leave")
            warned = True

    def _done(self, line: str) -> int:
        """The line's exit code. Raises `Leave`, and `_Ended` where a signal ended more than the turn."""
        cancel = Cancel()
        try:
            with cancelled_by_signals(cancel, self._front.clock.monotonic), self._talk.lock:
                wish = self._commands.understand(line, cancel=cancel, own="" if self._typed else None)
                code = 0 if wish is None else self._turn(wish, cancel)
        except EscaleraError as error:
            self._front.failed(error)
            self._front.output.notice(told(error))
            code = error.exit_code
        if cancel.is_set() and not (self._typed and _by_user(cancel)):
            raise _Ended
        return code

    def _turn(self, wish: Wish, cancel: Cancel) -> int:
        watcher = watcher_for(self._front.output, as_json=False, stream_json=False)
        front, output = self._talk.front, self._front.output
        human = AtTerminal(watcher.quiet, moves=not output.plain) if output.asks else None
        notify = self._front.notifier if output.asks else None
        asking = Asking(front.broker(self._talk.store), cancel, human=human, waits=False, watch=watcher.show, notify=notify)
        with watcher:
            report = self._talk.take(wish, cancel=cancel, ask=asking, watch=watcher.show)
        report = replace(report, notices=(*report.notices, *map(left_open, asking.left)))
        watcher.finish(report, turn_document(report))
        if report.error is not None:
            self._front.output.notice(told(report.error))
            return report.error.exit_code
        return asking.exit_code


class _Ended(Exception):
    """A signal ended more than the turn."""


def welcome(talk: Conversation) -> str:
    """Which session a chat goes on with, and how to leave."""
    begin = "goes on" if talk.is_stored else "begins with the first turn"
    return f"session {one_line(talk.standing().session, 60)} {begin}: /help lists commands, Ctrl-D leaves"


def told(error: EscaleraError) -> str:
    """An error as people are told it."""
    return f"escalera: {error.message}" + (f" ({error.hint})" if error.hint else "")


def _by_user(cancel: Cancel) -> bool:
    return cancel.reason == "cancelled by the user"


class _Input:
    """Standard input by lines, past Python's own buffer, in which lines would lie that `select` cannot see."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._lines: list[bytes] = []
        self._ended = False

    def line(self, is_over: Callable[[], bool]) -> str | None:
        """The next one without its end; `None` at the end of the input, or when it `is_over` before there is one."""
        while not self._lines and not self._ended:
            if is_over():
                return None
            if os.name != "posix" or select.select([sys.stdin], [], [], POLL)[0]:
                self._read()
        if not self._lines:
            return None
        return self._lines.pop(0).decode("utf-8", "surrogateescape")

    def _read(self) -> None:
        block = os.read(sys.stdin.fileno(), 65536)
        if not block:
            self._ended = True
            if self._pieces:
                self._lines.append(b"".join(self._pieces))
            return
        *whole, rest = block.split(b"\n")
        for line in whole:
            self._lines.append(b"".join([*self._pieces, line]).removesuffix(b"\r"))
            self._pieces.clear()
        if rest:
            self._pieces.append(rest)
