"""What code of strangers prints: it goes to stderr, since what stands on stdout is the answer and nothing else (page 6)."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import Any, ParamSpec, TextIO, TypeVar, cast

Given = ParamSpec("Given")
Value = TypeVar("Value")


class Aside:
    """A context in which what this thread prints goes to stderr. Contexts of several threads may end in any order."""

    def __enter__(self) -> None:
        self._divided = _Divided(sys.stdout, threading.get_ident())
        sys.stdout = cast("TextIO", self._divided)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._divided.over = True
        while isinstance(sys.stdout, _Divided) and sys.stdout.over:
            sys.stdout = sys.stdout.stdout


def aloud(function: Callable[Given, Value]) -> Callable[Given, Value]:
    """A function of ours for strangers to call: what it prints goes where it would without them."""

    @wraps(function)
    def called(*args: Given.args, **named: Given.kwargs) -> Value:
        mine = [divided for divided in _chain() if divided.is_mine]
        for divided in mine:
            divided.thread = None
        try:
            return function(*args, **named)
        finally:
            for divided in mine:
                divided.thread = threading.get_ident()

    return called


class _Divided:
    """Standard output for all threads but one, whose words go to stderr."""

    def __init__(self, stdout: TextIO, thread: int) -> None:
        self.stdout = stdout
        self.thread: int | None = thread
        self.over = False

    @property
    def is_mine(self) -> bool:
        return not self.over and threading.get_ident() == self.thread

    def __getattr__(self, name: str) -> Any:  # whatever a stream has
        return getattr(sys.stderr if self.is_mine else self.stdout, name)


def _chain() -> list[_Divided]:
    chain, stream = [], sys.stdout
    while isinstance(stream, _Divided):
        chain.append(stream)
        stream = stream.stdout
    return chain
