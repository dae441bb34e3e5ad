"""JSON as text: values whose every text can be stored and sent, and whether a document is whole."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from orchestrator.messages import well_formed


def clean_object(value: Mapping[str, Any]) -> dict[str, Any]:
    """The same object with unpaired surrogates and NULs replaced, in keys as well."""
    return {well_formed(str(key)): clean(item) for key, item in value.items()}


def clean(value: Any) -> Any:  # any JSON value
    """The same value with unpaired surrogates and NULs replaced."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, Mapping):
        return clean_object(value)
    return [clean(item) for item in value] if isinstance(value, list | tuple) else value


def is_document(text: str) -> bool:
    """Whether it is JSON, whole."""
    with suppress(ValueError, RecursionError):
        json.loads(text)
        return True
    return False


_OUTSIDE, _INSIDE = re.compile(r'["{}\[\]]'), re.compile(r'["\\]')
"""What counts beside a text, and in one."""


class Nesting:
    """Whether a JSON object or list has come to its end, told from its pieces as they come."""

    def __init__(self) -> None:
        self.whole = False
        self._depth = 0
        self._in_text = self._escaped = False

    def feed(self, piece: str) -> None:
        """Count on; nothing in a text counts, wherever the pieces are cut."""
        place = int(self._escaped and bool(piece))
        self._escaped = self._escaped and not piece
        while found := (_INSIDE if self._in_text else _OUTSIDE).search(piece, place):
            mark, place = found.group(), found.end()
            if mark == "\\":
                place += 1
                self._escaped = place > len(piece)
            elif mark == '"':
                self._in_text = not self._in_text
            else:
                self._depth += 1 if mark in "{[" else -1
                self.whole = self.whole or self._depth <= 0
