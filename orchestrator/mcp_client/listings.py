"""What MCP servers said they have, kept for plans, which start none: one private file for each server and workspace."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.clock import Clock, format_time, parse_time
from orchestrator.logbook import Log
from orchestrator.mcp_client.schema import Parameters, parameters_of
from orchestrator.messages import compact_json, well_formed
from orchestrator.settings.known import KnownSecrets
from orchestrator.settings.secrets import Secret, SecretRef
from orchestrator.settings.tool_servers import ToolServer
from orchestrator.store.files import PRIVATE_FILE, make_folder
from orchestrator.workspaces import workspace_key

KEPT = 100
"""Files; those that were written longest ago go."""
_LARGEST = 10_000_000
"""Bytes of a file that is read at all."""


@dataclass(frozen=True, slots=True)
class Described:
    """One tool as its server describes it, with its parameters as they can be sent."""

    name: str
    description: str
    parameters: Parameters
    harmless: bool = False
    """Whether the server says that it only looks."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What a server had when the last turn asked it."""

    tools: tuple[Described, ...]
    age: float
    """Seconds since then, by the wall clock."""


class Listings:
    """The folder. A file that is damaged, or was written for another configuration of the server, is as good as none."""

    def __init__(self, folder: Path, known: KnownSecrets, clock: Clock, log: Log, *, platform: str) -> None:
        self._folder, self._known, self._clock, self._log, self._platform = folder, known, clock, log, platform

    def keep(self, server: ToolServer, workspace: str, tools: Sequence[Described], secrets: Sequence[str] = ()) -> None:
        """Write down what it has, in the place of what it had; without the secrets that are known, and these. What cannot be written is a line in the log."""
        self._known.add(secrets)
        described = [{"name": tool.name, "description": tool.description, "schema": tool.parameters.schema} for tool in tools]
        record = {"format": 1, "server": _mark(server), "at": format_time(self._clock.now()), "tools": described}
        path = self._file(server, workspace)
        try:
            make_folder(self._folder)
            _replace(path, self._known.mask(json.dumps(record, ensure_ascii=False)).encode("utf-8", "surrogatepass"))
            self._drop_oldest()
        except OSError as error:
            self._log("listing_not_kept", server=server.name, why=str(error.strerror or error))

    def read(self, server: ToolServer, workspace: str) -> Kept | None:
        """What it had, if it is configured as it was then. Opens nothing but the file."""
        try:
            with self._file(server, workspace).open("rb") as file:
                record = json.loads(file.read(_LARGEST))
            if record["format"] != 1 or record["server"] != _mark(server):
                return None
            return Kept(tuple(_described(item) for item in record["tools"]), (self._clock.now() - parse_time(record["at"])).total_seconds())
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None

    def _file(self, server: ToolServer, workspace: str) -> Path:
        place = f"{server.name}\0{workspace_key(well_formed(workspace), self._platform)}"
        return self._folder / f"{_hash(place)[:24]}.json"

    def _drop_oldest(self) -> None:
        files = list(self._folder.glob("*.json"))
        if len(files) > KEPT:
            for path in sorted(files, key=_written)[:-KEPT]:
                path.unlink(missing_ok=True)


def _described(item: Mapping[str, Any]) -> Described:
    name, description = item["name"], item["description"]
    if not isinstance(name, str) or not isinstance(description, str):
        raise TypeError("a tool's name and description are texts")
    return Described(well_formed(name), description, parameters_of(item["schema"]))


def _mark(server: ToolServer) -> str:
    """Another one for whatever could make it another server; which of its tools are offered to whom is looked at when they are."""
    tables = {name: {key: _spelled(value) for key, value in sorted(table.items())} for name, table in (("env", server.env), ("headers", server.headers))}
    return _hash(compact_json({"command": server.command, "args": server.args, "url": server.url, **tables}))


def _spelled(value: object) -> list[str]:
    """What a reference refers to is not looked at; and only a hash of all this is kept."""
    if isinstance(value, SecretRef):
        return [value.kind, str(value), value.folder]
    return ["text", value.text if isinstance(value, Secret) else str(value)]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _replace(path: Path, content: bytes) -> None:
    """Whole or not at all. Raises `OSError`."""
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE), "wb") as file:
            file.write(content)
        beside.replace(path)
    except OSError:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
