"""Configuration files: found, read as bytes, and parsed with errors that name file, line and column."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.errors import ConfigError

PROJECT_FILE = "escalera.toml"

_MOST_BYTES = 1_000_000
_MOST_LEVELS = 64
"""Of tables and lists inside each other: dotted keys make thousands on one line, and whatever walks through them has a limit."""
_POSITION = re.compile(r" \((?:at line (\d+), column (\d+)|at end of document)\)$")


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file as it was read once: what is trusted, parsed and used are the same bytes."""

    path: Path
    content: bytes
    data: Mapping[str, Any]


def find_project_file(workspace: Path, *, home: Path | None) -> Path | None:
    """`escalera.toml` in the workspace or the nearest folder above it; the search ends at the home folder, or at the root outside of it."""
    folder = Path(os.path.abspath(workspace))
    for candidate in (folder, *folder.parents):
        if os.path.lexists(candidate / PROJECT_FILE):
            return candidate / PROJECT_FILE
        if candidate == home:
            return None
    return None


def read_config(path: Path, *, found: bool = False) -> ConfigFile:
    """Read and parse a TOML file; raises `ConfigError` for whatever is in the way, and never writes.

    One that was `found`, not named by the user, must be a regular file: a link of a clone to a terminal or a pipe would hold us up.
    """
    return config_file(path, read_found(path) if found else read_bytes(path))


def read_found(path: Path) -> bytes:
    """The content of a file that came with a clone; `ConfigError` when it cannot be had, or may be different each time."""
    if is_stream(path):
        raise ConfigError(f"{shown_path(path)} is no regular file")
    return read_bytes(path)


def is_stream(path: Path) -> bool:
    """Whether it is a pipe, a terminal or another device: what was read from it does not stand there a second time."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def config_file(path: Path, content: bytes) -> ConfigFile:
    """A file of that content; raises `ConfigError` for one that could not be read again."""
    if len(content) > _MOST_BYTES:
        raise ConfigError(f"{shown_path(path)} is larger than {_MOST_BYTES:,} bytes: this is no configuration")
    return ConfigFile(path, content, parse_toml(content, path))


def read_bytes(path: Path) -> bytes:
    """A file's content; `ConfigError` when it cannot be had."""
    try:
        with open(path, "rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(f"cannot read {shown_path(path)}: {reason}") from error
    if len(content) > _MOST_BYTES:
        raise ConfigError(f"{shown_path(path)} is larger than {_MOST_BYTES:,} bytes: this is no configuration")
    return content


def decode_text(content: bytes, path: Path) -> str:
    """UTF-8 with or without a byte order mark; `ConfigError` with the position of the first byte that is not."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ConfigError(f"{shown_path(path)} is in UTF-16", hint="save it as UTF-8")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8-sig", errors="replace")
        place = f"line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}"
        raise ConfigError(f"{shown_path(path)} is not UTF-8: byte 0x{content[error.start]:02x} at {place}", hint="save it as UTF-8") from error


def parse_toml(content: bytes, path: Path) -> Mapping[str, Any]:
    """The file's tables; `ConfigError` with line and column when it is malformed."""
    text = decode_text(content, path)
    too_deep = ConfigError(f"{shown_path(path)} is nested too deeply")
    try:
        data = tomllib.loads(text)
    except RecursionError as error:
        raise too_deep from error
    except ValueError as error:
        raise ConfigError(_malformed(path, text, str(error))) from error
    if _is_deeper(data, _MOST_LEVELS):
        raise too_deep
    return data


def shown_path(path: Path) -> str:
    """A path in a message: as it is when it is plain text, escaped when it holds anything that could drive a terminal."""
    return str(path) if str(path).isprintable() else repr(str(path))


def _is_deeper(value: object, levels: int) -> bool:
    """Whether tables and lists are nested more than that; goes no deeper itself."""
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return bool(inner) and (levels == 0 or any(_is_deeper(item, levels - 1) for item in inner))


def _malformed(path: Path, text: str, message: str) -> str:
    match = _POSITION.search(message)
    if match is None:
        return f"{shown_path(path)} is not valid TOML: {message}"
    lines = text.split("\n")
    line, column = (match[1], match[2]) if match[1] else (len(lines), len(lines[-1]) + 1)
    return f"{shown_path(path)}, line {line}, column {column}: {message[: match.start()]}"
