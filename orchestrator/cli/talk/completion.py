"""Completing what is typed: commands, agents, sessions, facts, and the paths of files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from orchestrator.cli.talk.attachments import place_of
from orchestrator.cli.talk.commands import COMMANDS
from orchestrator.terminal import clean

_PATH = re.compile(r'(?<![^\s(])@"?([^\s"]*)$')
_MOST = 50

Offers = Callable[[], Iterable[tuple[str, str]]]
"""Words that fit in a place, each with what it means."""


class Words(Completer):
    """`arguments` has, by command, what may stand behind it."""

    def __init__(self, arguments: Mapping[str, Offers], *, cwd: Path, environ: Mapping[str, str]) -> None:
        self._arguments, self._cwd, self._environ = arguments, cwd, environ

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        line = document.current_line_before_cursor
        if document.cursor_position_row == 0 and line.startswith("/") and not line.startswith("//"):
            name, blank, rest = line[1:].partition(" ")
            offers = self._offers(name) if blank else [(command.name, command.help) for command in COMMANDS]
            yield from _matching(rest if blank else name, offers)
        elif (path := _PATH.search(line)) is not None:
            yield from self._files(path[1])

    def _offers(self, name: str) -> Iterable[tuple[str, str]]:
        offers = self._arguments.get(name)
        return offers() if offers else ()

    def _files(self, begun: str) -> Iterator[Completion]:
        folder, _, name = begun.rpartition("/")
        try:
            entries = sorted(os.scandir(place_of(f"{folder}/" if folder or begun.startswith("/") else "", cwd=self._cwd, environ=self._environ)), key=_name)
        except (OSError, ValueError):
            return
        fitting = [entry for entry in entries if entry.name.startswith(name) and (name or not entry.name.startswith("."))]
        for entry in fitting[:_MOST]:
            if entry.name.isprintable() and not any(mark in entry.name for mark in ' "'):
                text = entry.name + ("/" if entry.is_dir() else "")
                yield Completion(text, -len(name), display=text)


def _name(entry: os.DirEntry[str]) -> str:
    return entry.name


def _matching(begun: str, offers: Iterable[tuple[str, str]]) -> Iterator[Completion]:
    """What begins so. What would drive the terminal, or breaks the line, is not offered."""
    for text, meaning in offers:
        if text.startswith(begun) and text != begun and text.isprintable():
            yield Completion(text, -len(begun), display=text, display_meta=clean(meaning, keep_newlines=False)[:60])
