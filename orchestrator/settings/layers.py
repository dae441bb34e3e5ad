"""One source's share of the configuration: read, checked key by key, not yet laid over the others (page 5)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.settings.declarations import BY_ENV, BY_PATH, LIMITS, SettingValue
from orchestrator.settings.files import ConfigFile, shown_path
from orchestrator.settings.problems import Problem, did_you_mean, nearest
from orchestrator.settings.secrets import is_secret_name, with_secrets
from orchestrator.settings.tool_servers import SERVER_KEYS, TABLE, checked_server
from orchestrator.settings.values import parse_value, path_parts, quoted, shown

AGENT_KEYS = ("provider", "prompt", "prompt_file", "limits", "prices", "extra_tools")
"""What the core itself reads of an agent's table; everything else is an option of its provider."""

AGENT_OPTIONS = (
    *("base_url", "model", "api_key", "token_cmd", "headers", "chat_path", "tls_ca", "body", "provider_routing", "models"),
    *("bin", "allowed_tools", "add_dirs", "mcp_config", "permission_mode", "env", "extra_args"),
    *("region", "profile", "endpoint_url", "inference", "prompt_caching", "additional_fields"),
)
"""Options of the first providers (page 6), only to say where a misplaced one belongs; what a provider takes, its own model says."""

_AGENT_PATHS = tuple(f"agents.NAME.{key}" for key in (*AGENT_KEYS, *AGENT_OPTIONS))

PRICES = ("input", "output", "cache_read", "cache_write")
"""Dollars for a million tokens."""

OTHER_VARIABLES = frozenset({"ESCALERA_HOME"})
"""Variables with our prefix that are no settings; so are those that begin with `ESCALERA_TEST_`, which only our tests read."""

_TABLES = frozenset(path.partition(".")[0] for path in BY_PATH if "." in path)
_AGENT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)
_KIND_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}", re.ASCII)
_MOST_PARTS = 32
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_.-]{1,100}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Layer:
    """What one source sets. `agents` are the tables as written, secrets wrapped, without their `limits`, which are checked already."""

    source: str
    """`file:PATH`, `env:NAME`, `flag` or `runtime`."""
    folder: Path
    """What relative file names in it start from."""
    settings: Mapping[str, SettingValue] = field(default_factory=dict)
    agents: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    agent_limits: Mapping[str, Mapping[str, SettingValue]] = field(default_factory=dict)
    servers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    """The tables of MCP servers as written, secrets wrapped."""
    merges: bool = False
    """A table in it is laid over the table below (`--set agents.x.headers.h=…`) instead of replacing it."""


class LayerReader:
    """Reads sources into layers; what is wrong with them gathers in `problems`."""

    def __init__(self, workspace: Path) -> None:
        self.problems: list[Problem] = []
        self._workspace = workspace

    def file(self, file: ConfigFile) -> Layer:
        """A configuration file."""
        source = f"file:{file.path}"
        return self._layer(file.data, source, shown_path(file.path), folder=file.path.parent)

    def environment(self, environ: Mapping[str, str]) -> list[Layer]:
        """One layer for each `ESCALERA_` variable."""
        ours = [name for name in environ if name.startswith("ESCALERA_") and not name.startswith("ESCALERA_TEST_")]
        names = sorted(name for name in ours if name not in OTHER_VARIABLES)
        known = [name for name in names if name in BY_ENV]
        for name in names:
            if name not in BY_ENV:
                self._report(_shown_key(name), "", _unknown_variable(name))
        return [self._one(BY_ENV[name].path, environ[name], f"env:{name}", name) for name in known]

    def flags(self, flags: Mapping[str, str]) -> list[Layer]:
        """One layer for each flag; the keys are paths of settings."""
        for path in flags:
            if path not in BY_PATH:
                self._report("flag", _shown_key(path), _unknown(path, BY_PATH))
        return [self._one(path, text, "flag", BY_PATH[path].flag) for path, text in flags.items() if path in BY_PATH]

    def assignments(self, sets: Sequence[str]) -> list[Layer]:
        """One layer for each `--set PATH=VALUE`; the value in TOML's spelling, or a bare text."""
        layers = []
        for position, assignment in enumerate(sets, start=1):
            path, equals, text = assignment.partition("=")
            if not equals or not path.strip():
                # What stands there may be a secret whose path was forgotten, so it is not repeated.
                self._report("--set", "", f"number {position} is not of the form PATH=VALUE")
                continue
            layers.append(self.assignment(path, text, "--set"))
        return layers

    def assignment(self, path: str, text: str, label: str) -> Layer:
        """What one path is set to by a text."""
        parts = path_parts(path)
        if len(parts) > _MOST_PARTS:
            self._report(label, shown(path), f"has more than {_MOST_PARTS} parts")
            return Layer("flag", self._workspace)
        return self._layer(_nested(parts, assigned_value(parts, text)), "flag", label, folder=self._workspace, text=True, merges=True)

    def runtime(self, values: Mapping[str, object]) -> Layer:
        """What was set while the program runs; the keys are paths of settings, per-agent ones included."""
        data: dict[str, Any] = {}
        for path, value in values.items():
            if path.count(".") >= _MOST_PARTS:
                self._report("runtime", shown(path), f"has more than {_MOST_PARTS} parts")
                continue
            _lay(data, _nested(path_parts(path), value))
        return self._layer(data, "runtime", "runtime", folder=self._workspace, text=True, merges=True)

    def _one(self, path: str, text: str, source: str, label: str) -> Layer:
        settings: dict[str, SettingValue] = {}
        self._value(settings, path, text, label, path, text=True)
        return Layer(source, self._workspace, settings)

    def _layer(self, data: Mapping[str, Any], source: str, label: str, *, folder: Path, text: bool = False, merges: bool = False) -> Layer:
        settings: dict[str, SettingValue] = {}
        agents: dict[str, dict[str, Any]] = {}
        limits: dict[str, dict[str, SettingValue]] = {}
        servers: dict[str, dict[str, Any]] = {}
        for key, value in data.items():
            if key == "agents":
                self._agents(agents, limits, value, label, text=text)
            elif key == TABLE:
                self._servers(servers, value, label)
            elif key in _TABLES:
                self._table(settings, key, value, label, text=text)
            elif key in BY_PATH:
                self._value(settings, key, value, label, key, text=text)
            else:
                self._unknown_top(key, value, label)
        return Layer(source, folder, settings, agents, limits, servers, merges)

    def _table(self, settings: dict[str, SettingValue], table: str, value: object, label: str, *, text: bool) -> None:
        if not isinstance(value, Mapping):
            self._report(label, table, f"{quoted(value)} is not usable; expected a table: [{table}]")
            return
        for key, item in value.items():
            path = f"{table}.{key}"
            if path in BY_PATH:
                self._value(settings, path, item, label, path, text=text)
            else:
                self._report(label, f"{table}.{_shown_key(key)}", _unknown(path, [known for known in BY_PATH if known.startswith(table + ".")]))

    def _value(self, target: dict[str, SettingValue], path: str, raw: object, label: str, shown_as: str, *, text: bool, key: str | None = None) -> None:
        try:
            target[key or path] = parse_value(BY_PATH[path], raw, text=text)
        except ValueError as error:
            self._report(label, shown_as, str(error))

    def _agents(self, agents: dict[str, dict[str, Any]], limits: dict[str, dict[str, SettingValue]], value: object, label: str, *, text: bool) -> None:
        if not isinstance(value, Mapping):
            self._report(label, "agents", "is not a table; expected one table for each agent: [agents.NAME]")
            return
        for name, table in value.items():
            path = f"agents.{_shown_key(name)}"
            if not isinstance(table, Mapping):
                belongs = name in AGENT_KEYS or name in AGENT_OPTIONS
                self._report(label, path, "belongs under [agents.NAME], the table of one agent" if belongs else f"is not a table; expected [{path}]")
            elif not is_agent_name(name):
                self._report(label, path, "is no name for an agent; use letters, digits, `-` and `_`, 64 at most")
            else:
                limits[name] = self._agent_limits(table.get("limits", {}), path, label, text=text)
                agents[name] = self._agent(table, path, label)

    def _agent(self, table: Mapping[str, Any], path: str, label: str) -> dict[str, Any]:
        options: dict[str, Any] = {}
        for key, value in table.items():
            if key == "limits":
                continue
            try:
                options[key] = _AGENT_CHECKS[key](value) if key in _AGENT_CHECKS else with_secrets(key, value)
            except ValueError as error:
                self._report(label, f"{path}.{_shown_key(key)}", str(error))
        if "prompt" in table and "prompt_file" in table:
            self._report(label, f"{path}.prompt", "stands beside `prompt_file`; give one of them")
        return options

    def _agent_limits(self, table: object, path: str, label: str, *, text: bool) -> dict[str, SettingValue]:
        limits: dict[str, SettingValue] = {}
        if not isinstance(table, Mapping):
            self._report(label, f"{path}.limits", f"{quoted(table)} is not usable; expected a table: [{path}.limits]")
            return limits
        for key, value in table.items():
            shown_as = f"{path}.limits.{_shown_key(key)}"
            if key in LIMITS:
                self._value(limits, f"limits.{key}", value, label, shown_as, text=text, key=key)
            else:
                self._report(label, shown_as, _unknown(f"limits.{key}", [f"limits.{name}" for name in LIMITS], below=f"{path}."))
        return limits

    def _servers(self, servers: dict[str, dict[str, Any]], value: object, label: str) -> None:
        if not isinstance(value, Mapping):
            self._report(label, TABLE, f"is not a table; expected one table for each server: [{TABLE}.NAME]")
            return
        for name, table in value.items():
            path = f"{TABLE}.{_shown_key(name)}"
            if not isinstance(table, Mapping):
                self._report(
                    label, path, f"belongs under [{TABLE}.NAME], the table of one server" if name in SERVER_KEYS else f"is not a table; expected [{path}]"
                )
            elif not is_agent_name(name):
                self._report(label, path, "is no name for a server; use letters, digits, `-` and `_`, 64 at most")
            else:
                servers[name] = checked_server(table, lambda key, text, path=path: self._report(label, f"{path}.{_shown_key(key)}", text))  # type: ignore[misc]  # a default binds the path

    def _unknown_top(self, key: str, value: object, label: str) -> None:
        table = nearest(key, ["agents", TABLE, *_TABLES])
        if isinstance(value, Mapping) and "provider" in value:
            self._report(label, _shown_key(key), f"unknown table{did_you_mean(f'agents.{_shown_key(key)}')}")
        elif isinstance(value, Mapping) and table:
            for name in value or [""]:
                end = f".{_shown_key(name)}" if name else ""
                self._report(label, _shown_key(key) + end, f"unknown table{did_you_mean(table + end)}")
        else:
            self._report(label, _shown_key(key), _unknown(key, [*BY_PATH, "agents", TABLE]))

    def _report(self, label: str, path: str, text: str) -> None:
        self.problems.append(Problem(label, path, text))


def is_agent_name(name: str) -> bool:
    """Whether an agent may be called that."""
    return _AGENT_NAME.fullmatch(name) is not None


def _unknown(path: str, known: Collection[str], *, below: str = "") -> str:
    """What to say about an unknown key: where it belongs when it is only misplaced, else which one is nearest."""
    name = path.rpartition(".")[2]
    homes = sorted({_home(other) for other in BY_PATH if other.rpartition(".")[2] == name})
    if homes:
        return f"unknown key here; it belongs {' or '.join(homes)}"
    if name in AGENT_OPTIONS or name in AGENT_KEYS:
        return "unknown key here; it belongs under [agents.NAME], the table of the agent it is meant for"
    guess = nearest(path, known, cutoff=0.85) or _nearest_by_name(name, known) or _nearest_by_name(name, [*BY_PATH, *_AGENT_PATHS], cutoff=0.5)
    return f"unknown key{did_you_mean(below + guess if guess and guess in known else guess)}"


def _nearest_by_name(name: str, paths: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    by_name = {path.rpartition(".")[2]: path for path in paths}
    near = nearest(name, by_name, cutoff=cutoff)
    return by_name[near] if near else None


def _home(path: str) -> str:
    table = path.rpartition(".")[0]
    return f"under [{table}]" if table else "at the top of the file, before any table"


def _unknown_variable(name: str) -> str:
    if name.startswith("ESCALERA_AGENTS_"):
        return "agents' values have no environment variables; use --set agents.NAME.KEY=VALUE, or a configuration file"
    return f"unknown variable{did_you_mean(nearest(name, [*BY_ENV, *OTHER_VARIABLES]))}"


def _shown_key(key: str) -> str:
    return key if _PLAIN_KEY.fullmatch(key) else shown(key)


def assigned_value(parts: Sequence[str], text: str) -> object:
    """A value from the command line: TOML where it is TOML, else the text; always the text where a text is what is wanted."""
    try:
        data = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    value = data["value"]
    if len(data) > 1:
        return text
    key = parts[2] if len(parts) > 2 else ""
    declared = parts[0] != "agents" or key == "limits"
    # A header and a variable are texts, but for `false`, which takes a variable away.
    carried = key in ("headers", "env") and len(parts) > 3
    if carried and isinstance(value, bool):
        return value
    as_text = declared or carried or key in ("model", "provider", "prompt") or is_secret_name(parts[-1])
    return text if as_text and not isinstance(value, str | list | dict) else value


def _nested(parts: Sequence[str], value: object) -> dict[str, Any]:
    nested: Any = value
    for part in reversed(parts):
        nested = {part: nested}
    return dict(nested)


def _lay(target: dict[str, Any], upper: Mapping[str, Any]) -> None:
    """Lay nested tables over each other in place."""
    for key, value in upper.items():
        if isinstance(value, Mapping) and isinstance(target.get(key), dict):
            _lay(target[key], value)
        else:
            target[key] = value


def _word(value: object) -> str:
    if isinstance(value, str) and value.strip():
        return value
    raise ValueError(f"{quoted(value)} is not usable; expected a text")


def _model(value: object) -> object:
    """Which one is for its provider to say, but for one that is none."""
    return _word(value) if isinstance(value, str) else value


def _kind(value: object) -> str:
    """The name of a provider kind, as far as that shows; what is none may be a secret in the wrong place, and so it is not shown."""
    if _KIND_NAME.fullmatch(_word(value)):
        return str(value)
    raise ValueError(f"{quoted(value)} is no name of a provider kind; `escalera plugins list` has them")


def _prices(value: object) -> dict[str, float]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{quoted(value)} is not usable; expected a table with {', '.join(PRICES)} in dollars for a million tokens")
    for name, price in value.items():
        if name not in PRICES:
            raise ValueError(f"has the unknown key {_shown_key(name)}{did_you_mean(nearest(name, PRICES))}")
        if isinstance(price, bool) or not isinstance(price, int | float) or not 0 <= price < 1e6:
            raise ValueError(f"{quoted(price)} is not usable as `{name}`; expected dollars for a million tokens")
    return {name: float(price) for name, price in value.items()}


def _names(value: object) -> tuple[str, ...]:
    if isinstance(value, list | tuple) and all(isinstance(name, str) and name.strip() for name in value):
        return tuple(value)
    raise ValueError(f"{quoted(value)} is not usable; expected a list of names of tools, or of plugins that have some")


_AGENT_CHECKS: Mapping[str, Callable[[object], object]] = {
    "provider": _kind,
    "model": _model,
    "prompt": _word,
    "prompt_file": _word,
    "prices": _prices,
    "extra_tools": _names,
}
