"""What a project file may set before the user has accepted it, and the record of what was accepted (page 5)."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from orchestrator.errors import ConfigError
from orchestrator.settings.declarations import BY_PATH
from orchestrator.settings.files import ConfigFile, read_bytes
from orchestrator.settings.hiding import showable
from orchestrator.settings.layers import AGENT_KEYS, AGENT_OPTIONS, Layer
from orchestrator.settings.tool_servers import SERVER_KEYS, TABLE
from orchestrator.settings.writing import locked, replace_file

FORMAT = "escalera.trust/1"

_RUNS_OR_SENDS = frozenset(
    {
        *("bin", "command", "args", "extra_args", "token_cmd", "api_key", "env", "allowed_tools", "permission_mode", "mcp_config", "mcp_servers"),
        *("base_url", "endpoint_url", "url", "headers", "chat_path", "body", "add_dirs", "extra_tools", "tls_ca", "plugins", "provider"),
    }
)


Standing = Literal["accepted", "changed", "gone"]


class TrustStore:
    """Accepted files by absolute path, each with the hash of its content, in one file in the state folder."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def is_trusted(self, file: Path, content: bytes) -> bool:
        """Whether the user accepted this file with exactly this content. A record that cannot be read accepts nothing."""
        return self.list().get(trust_key(file)) == _hash(content)

    def standing(self, path: str) -> Standing:
        """Whether a file that was accepted still is what was accepted."""
        try:
            return "accepted" if self.is_trusted(Path(path), read_bytes(Path(path))) else "changed"
        except ConfigError:
            return "changed" if os.path.lexists(path) else "gone"

    def gone_below(self, folder: Path) -> Sequence[Path]:
        """The accepted files of a project that are no longer there; they would be accepted again if they came back."""
        return [Path(path) for path in self.list() if Path(path).is_relative_to(os.path.realpath(folder)) and self.standing(path) == "gone"]

    def trust(self, file: Path, content: bytes) -> None:
        """Accept the file as it is now."""
        with locked(self._lock):
            self._write({**self.list(), trust_key(file): _hash(content)})

    def revoke(self, file: Path) -> bool:
        """Take it back; says whether there was anything to take back."""
        with locked(self._lock):
            accepted = self.list()
            known = accepted.pop(trust_key(file), None) is not None
            if known:
                self._write(accepted)
            return known

    def list(self) -> dict[str, str]:
        """Hashes of the accepted files by path."""
        try:
            document = json.loads(self._path.read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        files = document.get("files") if isinstance(document, dict) and document.get("format") == FORMAT else None
        return {path: digest for path, digest in files.items() if isinstance(digest, str)} if isinstance(files, dict) else {}

    @property
    def _lock(self) -> Path:
        return self._path.with_suffix(".lock")

    def _write(self, files: Mapping[str, str]) -> None:
        document = {"format": FORMAT, "files": dict(sorted(files.items()))}
        replace_file(self._path, json.dumps(document, indent=1).encode("ascii"), mode=0o600)


def would_enable(file: ConfigFile, *, agents: Collection[str] = ()) -> list[tuple[str, Any]]:
    """What accepting the file would enable: each key that is ignored until then, with its value, secrets masked.

    `agents` are the names that the user's own sources configure, as for `harmless_part`.
    """
    enabled = [(path, showable(path, value)) for path, value in _flat(file.data) if path in BY_PATH and not _is_harmless(path, value, agents)]
    servers = file.data.get(TABLE)
    for name, table in servers.items() if isinstance(servers, Mapping) else ():
        enabled += [(f"{TABLE}.{name}.{key}", showable(key, value)) for key, value in table.items()] if isinstance(table, Mapping) else []
    tables = file.data.get("agents")
    for name, table in tables.items() if isinstance(tables, Mapping) else ():
        for key, value in table.items() if isinstance(table, Mapping) else ():
            if key != "limits" or (value and name not in agents):
                enabled.append((f"agents.{name}.{key}", showable(key, value)))
    return enabled


def harmless_part(layer: Layer, *, agents: Collection[str]) -> tuple[Layer, list[str]]:
    """What an unaccepted project file may set, and the paths of what is left out.

    `agents` are the names that the user's own sources configure: roles and limits of others mean nothing yet.
    """
    settings = {path: value for path, value in layer.settings.items() if _is_harmless(path, value, agents)}
    limits = {name: values for name, values in layer.agent_limits.items() if name in agents}
    ignored = [path for path in layer.settings if path not in settings]
    ignored += [f"agents.{name}.{key}" for name, table in layer.agents.items() for key in table]
    ignored += [f"{TABLE}.{name}.{key}" for name, table in layer.servers.items() for key in table]
    ignored += [f"agents.{name}.limits" for name, values in layer.agent_limits.items() if values and name not in agents]
    return replace(layer, settings=settings, agents={}, agent_limits=limits, servers={}), ignored


def weight(path: str) -> int:
    """Where an ignored key stands among others: what runs or sends something, then what is known, then anything else."""
    keys = path.split(".")
    if any(key in _RUNS_OR_SENDS for key in keys[-2:]):
        return 0
    return 1 if path in BY_PATH or keys[-1] in (*AGENT_KEYS, *AGENT_OPTIONS, *SERVER_KEYS) else 2


def _is_harmless(path: str, value: object, agents: Collection[str]) -> bool:
    if path in ("primary", "escalation"):
        return value in agents
    return not BY_PATH[path].needs_trust


def _flat(data: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        if isinstance(value, Mapping) and key != "agents":
            yield from ((f"{key}.{name}", item) for name, item in value.items())
        else:
            yield key, value


def trust_key(file: Path) -> str:
    """Where the file stands, links of folders followed. A file that is a link itself is not what it leads to: its names count from here."""
    return os.path.join(os.path.realpath(file.parent), file.name)


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
