"""The configured MCP servers, whose tools agents can be offered: `[mcp_servers.NAME]` (page 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from orchestrator.settings.placing import placed_command
from orchestrator.settings.problems import Problem, did_you_mean, nearest
from orchestrator.settings.secrets import with_secrets
from orchestrator.settings.values import seconds, shown

if TYPE_CHECKING:
    from orchestrator.settings.layers import Layer

TABLE = "mcp_servers"

SERVER_KEYS = ("command", "args", "env", "url", "headers", "timeout", "tools", "agents")


@dataclass(frozen=True, slots=True)
class ToolServer:
    """One server: a program that is started here, or the address of one that runs elsewhere."""

    name: str
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What the program sees beside the little that every one does; secrets as `Secret` and `SecretRef`."""
    url: str | None = None
    headers: Mapping[str, Any] = field(default_factory=dict, repr=False)
    timeout: float = 60.0
    """Seconds for one call."""
    tools: tuple[str, ...] | None = None
    """The tools that are offered, by the server's own names; `None`: all."""
    agents: tuple[str, ...] | None = None
    """The agents that are offered them; `None`: all that take tools."""
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Which source gave a key."""

    def serves(self, agent: str) -> bool:
        """Whether its tools are for that agent."""
        return self.agents is None or agent in self.agents

    @property
    def texts(self) -> dict[str, Any]:
        """All of it that may hold secrets."""
        return {"env": self.env, "headers": self.headers, "url": self.url, "args": list(self.args)}


def checked_server(table: Mapping[str, Any], report: Callable[[str, str], None]) -> dict[str, Any]:
    """A server's table as it was written, secrets wrapped; what is wrong with a key is reported under its name, and the key left out."""
    checked: dict[str, Any] = {}
    for key, value in table.items():
        try:
            if key not in _CHECKS:
                raise ValueError(f"unknown key{did_you_mean(nearest(key, SERVER_KEYS))}")
            checked[key] = _CHECKS[key](with_secrets(key, value))
        except ValueError as error:
            report(key, str(error))
    return checked


def merge_servers(layers: Sequence[Layer], *, home: Path | None) -> dict[str, ToolServer]:
    """The servers of all layers. A file's table stands in for that of a lower one as a whole, so that no secret of the one meets a program of the other."""
    tables: dict[str, dict[str, Any]] = {}
    sources: dict[str, dict[str, str]] = {}
    for layer in layers:
        for name, table in layer.servers.items():
            placed = {key: placed_command([value], layer.folder, home)[0] if key == "command" else value for key, value in table.items()}
            before = tables.get(name, {}) if layer.merges else {}
            tables[name] = {**before, **{key: _laid(before.get(key), value) for key, value in placed.items()}}
            sources[name] = {**(sources.get(name, {}) if layer.merges else {}), **dict.fromkeys(placed, layer.source)}
    return {name: _server(name, table, sources[name]) for name, table in tables.items()}


def server_problems(servers: Iterable[ToolServer], *, agents: Iterable[str]) -> list[Problem]:
    """What only shows when a server's keys are seen together."""
    agents = list(agents)
    problems = []
    for server in servers:
        path, given = f"{TABLE}.{server.name}", server.sources
        source = next(iter(given.values()), "default")
        if ("command" in given) == ("url" in given):
            problems.append(Problem(source, path, "needs either `command`, a program that is started, or `url`, the address of one that runs"))
        else:
            kind, strange = ("command", ("headers",)) if "command" in given else ("url", ("args", "env"))
            problems += [Problem(given[key], f"{path}.{key}", f"means nothing beside `{kind}`") for key in strange if key in given]
        unknown = [name for name in server.agents or () if name not in agents]
        problems += [Problem(given["agents"], f"{path}.agents", f"no agent {name!r} is configured{did_you_mean(nearest(name, agents))}") for name in unknown]
    return problems


def _server(name: str, table: Mapping[str, Any], sources: Mapping[str, str]) -> ToolServer:
    values = {**table, **({"timeout": seconds(table["timeout"])} if "timeout" in table else {})}
    return ToolServer(name, **values, sources=sources)


def _laid(before: object, value: object) -> object:
    return {**before, **value} if isinstance(before, Mapping) and isinstance(value, Mapping) else value


def _text(value: object) -> str:
    if isinstance(value, str) and value.strip() and "\0" not in value:
        return value
    raise ValueError(f"{shown(value)} is not usable; expected a text")


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, list | tuple) and all(isinstance(item, str) and "\0" not in item for item in value):
        return tuple(value)
    raise ValueError(f"{shown(value)} is not usable; expected a list of texts")


def _table(value: object) -> Mapping[str, Any]:
    """Of texts and secrets, which are not repeated."""
    if not isinstance(value, Mapping):
        raise ValueError("is not usable; expected a table of texts")
    wrong = [key for key, item in value.items() if not key or "=" in key or isinstance(item, bool | int | float | list | Mapping)]
    if wrong:
        raise ValueError(f'{shown(wrong[0])} is not usable; expected a text, or a secret as {{ env = "NAME" }}')
    return value


def _url(value: object) -> str:
    try:
        parts = urlsplit(_text(value))
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
    except ValueError:
        good = False
    if not good:
        raise ValueError("is not usable; expected an address such as https://host/mcp, without a user or a password in it")
    return str(value)


def _duration(value: object) -> str:
    if isinstance(value, str) and seconds(value) > 0:
        return value
    raise ValueError(f"{shown(value)} is not usable; expected a duration with its unit, such as 500ms, 30s or 5m")


_CHECKS: Mapping[str, Callable[[object], object]] = {
    "command": _text,
    "args": _texts,
    "env": _table,
    "url": _url,
    "headers": _table,
    "timeout": _duration,
    "tools": _texts,
    "agents": _texts,
}
