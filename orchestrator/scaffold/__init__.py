"""A new provider plugin: the files of a whole package, with its tests, that passes the provider kit as it is written."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from string import Template
from typing import Literal

from orchestrator.errors import UsageError

Style = Literal["http", "subprocess"]
"""How the backend is reached: a server that is asked, or a program that is started."""

_FILES = Path(__file__).parent / "files"
_NAME = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*")
_MOST = 40
_SUMMARY: dict[Style, str] = {"http": "asks a server over HTTP", "subprocess": "asks a program"}
_COMMON = {
    "pyproject.toml": "pyproject.toml",
    "gitignore": ".gitignore",
    "test.yml": ".github/workflows/test.yml",
    "init.py": "$module/__init__.py",
    "protocol.py": "$module/protocol.py",
    "test_conformance.py": "tests/test_conformance.py",
    "test_protocol.py": "tests/test_protocol.py",
}
_OF_STYLE = {"README.md": "README.md", "options.py": "$module/options.py", "provider.py": "$module/provider.py", "harness.py": "$module/harness.py"}


def write_package(name: str, style: Style, parent: Path, *, version: str, api_level: int) -> tuple[Path, Sequence[str]]:
    """Write the package `escalera-NAME` into a folder of that name in `parent`; gives the folder, and the files in it.

    `name` becomes the provider kind; `version` is the oldest version of the program that it asks for. Raises `UsageError` for a name that
    cannot be one, and for a folder that holds anything: nothing is written then.
    """
    values = _values(name, style, version, api_level)
    folder = parent / values["distribution"]
    files = list(_files(style, values))
    try:
        if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
            raise UsageError(f"{folder} is there already and is no empty folder; nothing was written", hint="choose another name, or move it away")
        _write(folder, files)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}", hint="call it in a folder that you may write to") from error
    return folder, [path for path, _ in files]


def _write(folder: Path, files: Sequence[tuple[str, str]]) -> None:
    """All of it or nothing: it takes its place once it is whole."""
    unfinished = folder.with_name(f".{folder.name}.unfinished-{os.getpid()}")
    try:
        for path, text in files:
            place = unfinished / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, "utf-8")
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _values(name: str, style: Style, version: str, api_level: int) -> dict[str, str]:
    if len(name) > _MOST or not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no name for a provider kind", hint=f"up to {_MOST} lower-case letters and digits, with single `-` or `_` between, as in my-server"
        )
    words = re.split("[-_]", name)
    return {
        "name": name,
        "distribution": f"escalera-{'-'.join(words)}",
        "module": f"escalera_{'_'.join(words)}",
        "class_name": "".join(word.capitalize() for word in words),
        "title": " ".join(word.capitalize() for word in words),
        "upper": "_".join(words).upper(),
        "summary": _SUMMARY[style],
        "version": version,
        "beyond": _next_minor(version),
        "api_level": str(api_level),
    }


def _next_minor(version: str) -> str:
    """The first version that may change what plugins were written for."""
    major, minor = version.split(".")[:2]
    return f"{major}.{int(minor) + 1}"


def _files(style: Style, values: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Each file's path below the package's folder, and its text."""
    for group, files in (("common", _COMMON), (style, _OF_STYLE)):
        for source, target in files.items():
            text = (_FILES / group / f"{source}.template").read_text("utf-8")
            yield Template(target).substitute(values), Template(text).substitute(values)
    yield f"{values['module']}/py.typed", ""
