"""Showing a turn while it runs: as text, as one document, or as a stream of lines."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from orchestrator.cli.output import Output
from orchestrator.cli.spinner import Spinner
from orchestrator.dispatch.desk import Shown
from orchestrator.documents.stream import stream_line, turn_line
from orchestrator.quoting import one_line
from orchestrator.recording import Report
from orchestrator.terminal import clean

if TYPE_CHECKING:
    from orchestrator.documents.kinds.turns import TurnDocument

_TOOL_LINE = 200
"""Characters of a tool line, at most."""


def watcher_for(output: Output, *, as_json: bool, stream_json: bool) -> Watcher:
    """The way of showing that was asked for."""
    if stream_json:
        return _Lines(output)
    if as_json:
        return _Document(output)
    return _Live(output) if output.interactive else _Final(output)


class Watcher:
    """One way of showing a turn; this one shows nothing until the end. Notices go to stderr."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._told: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        return None

    def show(self, shown: Shown) -> None:
        if shown.type in ("notice", "retry"):
            self.notice(shown.text)

    def notice(self, text: str) -> None:
        """Each notice once, however often the turn gives it."""
        if text not in self._told:
            self._told.add(text)
            self._output.notice(text)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Keep off the terminal for a while, since the human is asked something."""
        yield

    def finish(self, report: Report, document: TurnDocument) -> None:
        """The turn has ended."""


class _Document(Watcher):
    """The turn document alone."""

    def finish(self, report: Report, document: TurnDocument) -> None:
        self._output.print_json(document)


class _Lines(Watcher):
    """One JSON event a line, the turn document last."""

    def __init__(self, output: Output) -> None:
        super().__init__(output)
        self._first = True

    def show(self, shown: Shown) -> None:
        self._output.print_line(stream_line(shown, first=self._first))
        self._first = False

    def finish(self, report: Report, document: TurnDocument) -> None:
        self._output.print_line(turn_line(document))


class _Final(Watcher):
    """The answer when it is final: what is withdrawn on the way is never printed."""

    def finish(self, report: Report, document: TurnDocument) -> None:
        for notice in report.notices:
            self.notice(notice)
        text = document["answer"] or document["partial"] or ""
        if document["answer"] is None and text:
            self.notice("this is what had come before the turn ended:")
        if text:
            self._output.say(text.rstrip("\n"))
        self.notice(summary(report))


class _Live(Watcher):
    """The answer as it comes, with a line that tells what is awaited until the first of it: one that moves, unless all is to be plain."""

    def __init__(self, output: Output) -> None:
        super().__init__(output)
        self._status = Spinner(time.monotonic)
        self._open = False
        """Whether a line of the answer has begun and not ended."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._status.stop()

    def show(self, shown: Shown) -> None:
        match shown.type:
            case "turn_started":
                mode = f", {shown.data['mode']}" if shown.data.get("mode") else ""
                awaited = f"{shown.data['agent']} ({shown.data['role']}{mode}) is thinking"
                if self._output.plain:
                    self.notice(awaited)
                else:
                    self._status.start(awaited)
            case "text":
                self._print(shown.text)
            case "tool_call":
                self._end_line()
                self._output.notice(tool_line(shown))
            case "withdrawn":
                self.notice("what stands above was withdrawn; the agent is asked again")
            case "notice" | "retry":
                self.notice(shown.text)

    def notice(self, text: str) -> None:
        self._end_line()
        super().notice(text)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        self._end_line()
        yield

    def finish(self, report: Report, document: TurnDocument) -> None:
        for notice in report.notices:
            self.notice(notice)
        self.notice(summary(report))

    def _print(self, text: str) -> None:
        self._status.stop()
        self._open = not text.endswith("\n") if text else self._open
        self._output.print_text(clean(text))

    def _end_line(self) -> None:
        """What comes now stands on a line of its own."""
        self._status.stop()
        if self._open:
            self._output.print_text("\n")
            self._open = False


def tool_line(shown: Shown) -> str:
    """Which tool an agent calls, and with what, on one line."""
    arguments = json.dumps(shown.data["arguments"], ensure_ascii=False)
    return one_line(f"· {shown.data['name']} {arguments}", _TOOL_LINE)


def _asking(report: Report) -> str:
    asking = report.plan.standing.asking
    return "it" if asking is None or asking.agent == report.turn.agent else asking.agent


def summary(report: Report) -> str:
    """Who took the turn, in which mode and why, on one line."""
    turn = report.turn
    rules = ", ".join(reason.rule for reason in turn.reasons)
    mode = f"{turn.mode} ({rules})" if turn.mode else rules
    handed = f", handed over by turn {report.escalated_from}" if report.escalated_from is not None else ""
    waiting = f"; {_asking(report)} waits for your reply" if report.session.state == "waiting" else ""
    return f"[{turn.agent}, {turn.role.value}: {mode}{handed}; turn {turn.index}, {turn.outcome.value}{waiting}]"
