"""What a bug report needs, in one file (`doctor --bundle`): nothing of what was said, unless asked for, and no secret."""

from __future__ import annotations

import os
import platform
import sys
import zipfile
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator import __version__
from orchestrator.cli.front import Front
from orchestrator.documents.json_text import json_text
from orchestrator.errors import UsageError
from orchestrator.logbook import tail
from orchestrator.settings.resolution import Settings
from orchestrator.store.files import PRIVATE_FILE, Files, size
from orchestrator.store.schema import VERSION

if TYPE_CHECKING:
    from orchestrator.documents.kinds.diagnosis import BundledFile, DoctorDocument
    from orchestrator.plugins import PluginManager

LOG_BYTES = 256 * 1024
"""Of the log's end."""


def write_bundle(
    front: Front, path: Path, doctor: DoctorDocument, settings: Settings | None, problems: Sequence[str], plugins: PluginManager, *, claude: str, wire: bool
) -> list[BundledFile]:
    """Write the file, which must not be there yet: what it holds, by name and size. Raises `UsageError` where it cannot be written."""
    if settings is not None:
        front.learn_secrets(settings)
    parts: list[tuple[str, str]] = [
        ("doctor.json", _json(doctor)),
        ("versions.json", _json(_versions(plugins, claude))),
        ("settings.json", _json({"problems": list(problems)} if settings is None else {"settings": list(_settings(settings))})),
        ("plugins.json", _json({"plugins": [_plugin(report) for report in plugins.reports()]})),
        ("store.json", _json(_store(front.paths.data, doctor))),
        ("log.jsonl", _log(front)),
        *(_wires(front) if wire else ()),
    ]
    masked = [(name, front.masked(text).encode("utf-8", "backslashreplace")) for name, text in parts]
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
        try:
            with open(descriptor, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as bundle:
                for name, content in masked:
                    bundle.writestr(name, content)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
    except FileExistsError as error:
        raise UsageError(f"{path} is there already", hint="name a file that is not there yet") from error
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error
    return [{"name": name, "bytes": len(content)} for name, content in masked]


def _json(document: Any) -> str:  # documents of several kinds
    from orchestrator.documents.masking import mask_values

    return json_text(mask_values(document))


def _versions(plugins: PluginManager, claude: str) -> dict[str, object]:
    return {
        "escalera": __version__,
        "python": sys.version,
        "platform": platform.platform(),
        "claude": claude or None,
        "distributions": dict(sorted(_distributions({"escalera", *(report.distribution for report in plugins.reports())}))),
    }


def _distributions(names: set[str]) -> Iterator[tuple[str, str]]:
    """Ours, those of the plugins, and what they need directly."""
    from packaging.requirements import Requirement

    for name in names:
        try:
            needed = {Requirement(line).name for line in distribution(name).requires or ()}
        except PackageNotFoundError:  # a plugin that is no distribution of its own
            continue
        for one in {name, *needed}:
            try:
                yield one, version(one)
            except PackageNotFoundError:  # of an extra that is not installed
                continue


def _settings(settings: Settings) -> Iterator[dict[str, object]]:
    """Those that are set, with their sources; an agent's own instructions are a text of the user's, so only their length is told."""
    for setting in settings.all():
        if setting.source != "default":
            is_text = setting.path.startswith("agents.") and setting.path.endswith(".prompt")
            value = f"({len(str(setting.value)):,} characters)" if is_text else setting.value
            yield {"path": setting.path, "value": value, "source": setting.source, "shadows": [source for source, _ in setting.shadowed]}


def _plugin(report: Any) -> dict[str, object]:  # PluginReport, behind the lazy import
    return {"name": report.name, "distribution": report.distribution, "version": report.version, "kinds": report.kinds, "problem": report.problem}


def _store(folder: Path, doctor: DoctorDocument) -> dict[str, object]:
    files = Files(folder)
    paths = [files.database, files.beside("-wal")]
    return {
        "schema": _schema(files.database),
        "schema_of_this_program": VERSION,
        "bytes": {path.name: size(path) for path in paths},
        "check": [finding for finding in doctor["findings"] if finding["area"] == "store"],
    }


def _schema(database: Path) -> int | None:
    """As it stands in the file's header: also of a file that SQLite would not open any more."""
    try:
        with database.open("rb") as file:
            head = file.read(64)
    except OSError:
        return None
    return int.from_bytes(head[60:64], "big") if head.startswith(b"SQLite format 3\0") else None


def _log(front: Front) -> str:
    try:
        return tail(front.paths.log_file, LOG_BYTES).decode("utf-8", "replace")
    except OSError as error:
        return f"the log cannot be read: {error.strerror or error}\n"


def _wires(front: Front) -> Iterator[tuple[str, str]]:
    for path in front.wires.files():
        try:
            yield f"wire/{path.stem}.txt", path.read_bytes().decode("utf-8", "replace")
        except OSError:
            continue  # gone meanwhile
