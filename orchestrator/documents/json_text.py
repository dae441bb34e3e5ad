"""JSON as it is printed, and as it comes from outside: read strictly, refused with the place of what is wrong."""

from __future__ import annotations

import codecs
import json
import math
import re
from typing import TYPE_CHECKING

from orchestrator.errors import DocumentError
from orchestrator.terminal import escape_controls

if TYPE_CHECKING:
    from orchestrator.documents.kinds import Document
    from orchestrator.documents.kinds.stream import StreamLine
    from orchestrator.documents.session import SessionDocument

MAX_DEPTH = 200
"""Objects and lists in one another. Deeper ones are no document of ours, and would overflow what handles them later."""


def json_text(document: Document | SessionDocument | StreamLine, *, indent: int | None = 2) -> str:
    """JSON that is the same value on a terminal and in a file: what would drive a terminal stands escaped."""
    return escape_controls(json.dumps(document, ensure_ascii=False, indent=indent)) + "\n"


def read_json(source: str | bytes, name: str) -> object:
    """The value of a JSON text in UTF-8, with or without a byte order mark.

    Raises `DocumentError` with `name`, line and column for text that is not UTF-8 or not JSON, a key that stands twice in an object,
    numbers that JSON does not have (`NaN`, `Infinity`) or that are absurdly long or large, and nesting beyond what can be read.
    """
    text = source if isinstance(source, str) else _decode(source, name)
    text = text.removeprefix("\ufeff")
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_float=_finite)
    except json.JSONDecodeError as error:
        raise _malformed(name, text, error.pos, error.msg) from error
    except (ValueError, RecursionError) as error:
        offence = _find_offence(text)
        if offence is None:
            raise DocumentError(f"{name} cannot be read as JSON: {error}") from error
        raise _malformed(name, text, *offence) from error


def _decode(source: bytes, name: str) -> str:
    if source.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise DocumentError(f"{name} is UTF-16 (or UTF-32), not UTF-8", hint="save it as UTF-8")
    try:
        return source.decode("utf-8")
    except UnicodeDecodeError as error:
        before = source[: error.start].decode("utf-8")
        raise _malformed(name, before, len(before), f"byte 0x{source[error.start]:02x} is not UTF-8") from error


def _malformed(name: str, text: str, at: int, what: str) -> DocumentError:
    """Lines end at LF only: the other separators of Unicode may stand inside a text."""
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    return DocumentError(f"{name}, line {line}, column {column}: {what}")


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key stands twice in an object")
    return value


def _refuse_constant(word: str) -> object:
    raise ValueError(f"{word} is not a JSON number")


def _finite(word: str) -> float:
    """Python makes an infinity of `1e999`, which it then writes as a word that JSON has not."""
    value = float(word)
    if not math.isfinite(value):
        raise ValueError(f"{word[:40]} is too large a number")
    return value


_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"(?P<key>\s*:)?|[{}\[\]]|NaN|-?Infinity|\d+', re.DOTALL)


def _find_offence(text: str) -> tuple[int, str] | None:
    """Where the first thing stands that the reader refused without saying where."""
    keys: list[set[str]] = []
    for token in _TOKEN.finditer(text):
        word = token[0]
        if token["key"]:
            key = json.loads(word[: -len(token["key"])], strict=False)
            if keys and key in keys[-1]:
                return token.start(), f"the key {key!r} stands twice in this object"
            if keys:
                keys[-1].add(key)
        elif word in "{[":
            keys.append(set())
            if len(keys) > MAX_DEPTH:
                return token.start(), f"nested more than {MAX_DEPTH} levels deep"
        elif word in "}]":
            del keys[-1:]
        elif word[-1] in "Ny":
            return token.start(), f"{word} is not a JSON number"
        elif word.isdigit() and len(word) > 4000:
            return token.start(), f"a number of {len(word)} digits is too long"
    return None
