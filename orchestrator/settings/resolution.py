"""Settings resolved: the value of every path, where it came from and what it shadows (page 5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from orchestrator.errors import ConfigError, NotFound
from orchestrator.settings.agent_config import BUILT_IN, BUILT_IN_PROVIDER, AgentConfig, merge_agents, names_provider, unusable_agents
from orchestrator.settings.declarations import BY_PATH, LIMITS, SETTINGS, Setting, SettingValue
from orchestrator.settings.files import ConfigFile, find_project_file, read_config, shown_path
from orchestrator.settings.hiding import showable, showable_stranger
from orchestrator.settings.layers import AGENT_KEYS, AGENT_OPTIONS, Layer, LayerReader
from orchestrator.settings.lending import mixed_secrets
from orchestrator.settings.limits import Limits
from orchestrator.settings.paths import Paths, home_of
from orchestrator.settings.placing import placed_command
from orchestrator.settings.problems import Problem, did_you_mean, nearest, raise_problems
from orchestrator.settings.tool_servers import SERVER_KEYS, TABLE, ToolServer, merge_servers, server_problems
from orchestrator.settings.trust import TrustStore, harmless_part, weight
from orchestrator.settings.values import path_parts, python_value, shown_key

ZERO_CONFIG_NOTICE = """\
Nothing is configured, so `local` and `stand-in` are both a very small model that runs in this process: fine for a first look, no judge of anything.
To put real models in their place, write to {user_file} (or let `escalera doctor --write` do it):
  [agents.local]            # any server that is OpenAI-compatible: Ollama (this URL), LM Studio (port 1234), llama.cpp (port 8080), …
  provider = "openai"
  base_url = "http://127.0.0.1:11434/v1"
  model = "NAME"
  [agents.stand-in]         # who is asked when it matters; "embedded" leaves the very small model there
  provider = "claude-cli"
For one command, in one line: escalera --set agents.local.provider=openai --set agents.local.base_url=http://127.0.0.1:11434/v1 \
  --set agents.local.model=NAME --set agents.stand-in.provider=embedded ask …"""

_ROLES = {"primary": BUILT_IN[0], "escalation": BUILT_IN[1]}
_GONE = "; the built-in agents are there only as long as no other is: `escalera agents add {} --provider {}` keeps it, or give the role to another agent"
_IGNORED = ("agents.", TABLE)
"""Paths of tables that count for nothing in a file that is not accepted."""


@dataclass(frozen=True, slots=True)
class Explained:
    """One value with its history, ready for JSON: durations as text, `unlimited` as that word, secrets as `***`."""

    path: str
    value: Any
    default: Any
    source: str
    """`default`, `file:PATH`, `env:NAME`, `flag` or `runtime`."""
    shadowed: tuple[tuple[str, Any], ...]
    """Sources and values that would count without this one, the next one first; the default is not among them."""
    type: str
    help: str
    unit: str | None = None
    flag: str | None = None
    env: str | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """All sources laid over each other. Frozen: a changed file makes new settings."""

    layers: tuple[Layer, ...] = field(default=(), repr=False)
    """The lowest first."""
    agents: Mapping[str, AgentConfig] = field(default_factory=dict)
    servers: Mapping[str, ToolServer] = field(default_factory=dict)
    """The MCP servers."""
    notices: tuple[str, ...] = ()
    zero_config: bool = True
    """Nothing names a provider: the agents are the built-in ones."""
    user_file: Path | None = None
    project_file: Path | None = None
    project_trusted: bool = False
    """The user has accepted the project file as it is; what lies beside it is accepted file by file (`settings.project`)."""
    _values: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Those that were asked for, by path: a turn asks for some dozens, which stay as they are."""

    def value(self, path: str) -> Any:
        """What code works with: seconds for durations, `None` for unset and for `unlimited` (0 where the help says so).

        `Any`, since the type is the declaration's. Raises `ConfigError` for a path that is not declared.
        """
        if path not in self._values:
            setting = _declared(path)
            self._values[path] = python_value(setting, self._effective(setting)[1])
        return self._values[path]

    def source(self, path: str) -> str:
        """Where the value of a declared setting comes from. Raises `ConfigError` for a path that is not declared."""
        return self._effective(_declared(path))[0]

    def command(self, path: str, *, home: Path | None) -> tuple[str, ...]:
        """The words of a command, its program placed: a path with a slash counts from the file that gives it. Empty where there is none."""
        folders = [layer.folder for layer in self.layers if path in layer.settings]
        return placed_command(self.value(path), folders[-1], home) if folders else ()

    def limits(self, agent: str) -> Limits:
        """The limits an agent is held to: its own over the global ones. An agent that is not configured has the global ones."""
        own = self.agents[agent].limits if agent in self.agents else {}
        values: dict[str, Any] = {
            name: python_value(setting, own[name]) if name in own else self.value(setting.path)
            for name, setting in LIMITS.items()
            if name != "message_budget_chars"
        }
        budget = LIMITS["message_budget_chars"]
        return Limits(
            message_budget_chars=python_value(budget, own.get(budget.name)),  # type: ignore[arg-type]  # an int or unset, by its declaration
            global_message_budget_chars=self.value(budget.path),
            **values,
        )

    @property
    def primary(self) -> str:
        """The primary agent's name; `ConfigError` when none is set."""
        return self._role("primary")

    @property
    def escalation(self) -> str:
        """The escalation agent's name; `ConfigError` when none is set."""
        return self._role("escalation")

    def agent(self, name: str) -> AgentConfig:
        """A configured agent; `NotFound` with the nearest name otherwise."""
        if name in self.agents:
            return self.agents[name]
        raise NotFound(f"no agent {name!r} is configured{did_you_mean(nearest(name, self.agents))}", hint=f"configured: {', '.join(sorted(self.agents))}")

    def all(self) -> list[Explained]:
        """Every declared setting, then what agents set."""
        keys = [f"agents.{agent.name}.{key}" for agent in self.agents.values() for key in _set_keys(agent)]
        keys += [f"{TABLE}.{server.name}.{key}" for server in self.servers.values() for key in server.sources]
        return [self.explain(path) for path in (*(setting.path for setting in SETTINGS), *keys)]

    def explain(self, path: str) -> Explained:
        """The value of a path, its source and what it shadows; `ConfigError` with the nearest path when there is no such."""
        parts = path_parts(path)
        if parts[0] == "agents" and len(parts) > 1:
            return self._explain_agent(path)
        if parts[0] == TABLE and len(parts) > 1:
            return self._explain_server(path)
        path = ".".join(parts)
        setting = _declared(path)
        return _explained(path, setting, self._effective(setting), self._given(path))

    def _given(self, path: str) -> list[tuple[str, SettingValue]]:
        return [(layer.source, layer.settings[path]) for layer in self.layers if path in layer.settings]

    def _effective(self, setting: Setting) -> tuple[str, SettingValue]:
        given = self._given(setting.path)
        if given:
            return given[-1]
        role = _ROLES.get(setting.path)
        return "default", role if role in self.agents else setting.default

    def _role(self, role: str) -> str:
        name = self.value(role)
        if name is not None:
            return str(name)
        choice = ", ".join(sorted(self.agents))
        raise ConfigError(f"`{role}` is not set, and there is no agent `{_ROLES[role]}`", hint=f'set {role} = "NAME" to one of: {choice}')

    def _explain_agent(self, path: str) -> Explained:
        _, name, *rest = path_parts(path)
        if name not in self.agents:
            raise ConfigError(f"{path}: no agent {name!r} is configured{did_you_mean(nearest(name, self.agents))}")
        if rest[:1] == ["limits"] and len(rest) == 2:
            return self._explain_limit(path, name, rest[1])
        given = [(layer.source, value) for layer in self.layers if (value := _inner(_masked_options(layer.agents.get(name, {})), rest)) is not None]
        if not rest or not (given or (len(rest) == 1 and (rest[0] in AGENT_KEYS or rest[0] in AGENT_OPTIONS))):
            raise ConfigError(f"{path} is not set{did_you_mean(_near_key(name, rest))}")
        agent = self.agents[name]
        value = _inner(_agent_values(agent), rest)
        # A table that was replaced as a whole takes what was below it with it.
        source = (given[-1][0] if len(rest) > 1 else agent.sources.get(rest[0], "default")) if value is not None else "default"
        return Explained(
            path, value, None, source, tuple(reversed(given[:-1])), _type_of(value), f"Of the agent `{name}`, for its provider `{agent.provider}`."
        )

    def _explain_server(self, path: str) -> Explained:
        _, name, *rest = path_parts(path)
        if name not in self.servers:
            raise ConfigError(f"{path}: no server {name!r} is configured{did_you_mean(nearest(name, self.servers))}")
        tables = [(layer.source, _masked_table(layer.servers[name]), layer.merges) for layer in self.layers if name in layer.servers]
        # A file's table stands in for those below it as a whole.
        first = max((position for position, (_, _, merges) in enumerate(tables) if not merges), default=0)
        given = [(source, value) for source, table, _ in tables[first:] if (value := _inner(table, rest)) is not None]
        if not rest or not (given or rest in [[key] for key in SERVER_KEYS]):
            near = nearest(".".join(rest), SERVER_KEYS)
            raise ConfigError(f"{path} is not set{did_you_mean(f'{TABLE}.{name}.{near}' if near else None)}")
        source, value = given[-1] if given else ("default", None)
        return Explained(path, _json(value), None, source, tuple(reversed(given[:-1])), _type_of(_json(value)), f"Of the MCP server `{name}`.")

    def _explain_limit(self, path: str, agent: str, name: str) -> Explained:
        if name not in LIMITS:
            near = nearest(name, LIMITS)
            raise ConfigError(f"{path}: unknown limit{did_you_mean(f'agents.{agent}.limits.{near}' if near else None)}")
        own = [(layer.source, layer.agent_limits[agent][name]) for layer in self.layers if name in layer.agent_limits.get(agent, {})]
        setting = LIMITS[name]
        inherited = self._given(setting.path)
        given = [*inherited, *own]
        return _explained(path, setting, given[-1] if given else ("default", setting.default), given)


@dataclass(frozen=True, slots=True)
class Sources:
    """Where one process takes its values from, beside what is set while it runs. Files are found anew each time they are read."""

    environ: Mapping[str, str] = field(repr=False)
    workspace: Path
    paths: Paths
    config_file: Path | None = None
    """Stands in for the user's and the project's file, and is trusted."""
    flags: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Texts by the path of their setting."""
    sets: Sequence[str] = field(default=(), repr=False)

    @property
    def home(self) -> Path | None:
        return home_of(self.environ)

    @property
    def user_file(self) -> Path:
        """The file of the user's own settings, be it there or not."""
        return self.config_file or self.paths.user_file

    def find_project_file(self) -> Path | None:
        """The project's file, where there is one and it counts."""
        return find_project_file(self.workspace, home=self.home) if self.config_file is None else None


@dataclass(frozen=True, slots=True)
class Files:
    """The configuration files as they were read once, and whether the user has accepted the project's."""

    user: ConfigFile | None = None
    project: ConfigFile | None = None
    trusted: bool = False


def read_files(sources: Sources, *, to_change: bool = False) -> Files:
    """The files as they are now; `ConfigError` for one that cannot be read. One that is named and not there is made when it is changed."""
    project_file = sources.find_project_file()
    user = read_config(sources.config_file) if sources.config_file and not to_change else _read_if_there(sources.user_file)
    project = read_config(project_file, found=True) if project_file else None
    return Files(user, project, trusted=project is not None and TrustStore(sources.paths.trust_file).is_trusted(project.path, project.content))


def resolved(sources: Sources, files: Files, *, runtime: Mapping[str, object] | None = None) -> tuple[Settings, list[Problem]]:
    """All sources laid over each other, low to high: user file, project file, environment, flags, `--set`, runtime; and all that is wrong with them."""
    reader = LayerReader(sources.workspace)
    lowest = [reader.file(files.user)] if files.user else []
    upper = [
        *reader.environment(sources.environ),
        *reader.flags(sources.flags),
        *reader.assignments(sources.sets),
        *([reader.runtime(runtime)] if runtime else []),
    ]
    middle, notices = _project_layer(reader, files.project, files.trusted, lowest=lowest, upper=upper, home=sources.home)
    layers = (*lowest, *middle, *upper)
    settings = Settings(
        layers=layers,
        agents=merge_agents(layers, home=sources.home),
        servers=merge_servers(layers, home=sources.home),
        notices=tuple(notices),
        zero_config=not names_provider(layers),
        user_file=sources.user_file,
        project_file=files.project.path if files.project else None,
        project_trusted=files.trusted,
    )
    return settings, list(dict.fromkeys([*reader.problems, *_across(settings)]))


def load_settings(
    *,
    environ: Mapping[str, str],
    workspace: Path,
    paths: Paths,
    config_file: Path | None = None,
    flags: Mapping[str, str] | None = None,
    sets: Sequence[str] = (),
    runtime: Mapping[str, object] | None = None,
    check: Callable[[Settings], Iterable[Problem]] | None = None,
) -> Settings:
    """Read every source and lay them over each other.

    `check` may add problems of its own (agents' options, which only plugins know), so that one start reports everything.
    Raises `ConfigError`: a file that cannot be read, or every unknown key and unusable value at once.
    """
    sources = Sources(environ, workspace, paths, config_file, flags or {}, sets)
    settings, problems = resolved(sources, read_files(sources), runtime=runtime)
    raise_problems([*problems, *(check(settings) if check else ())])
    return settings


def zero_config_notice(settings: Settings) -> str | None:
    """What to tell who has configured nothing: what answers, and how to name a real model."""
    return ZERO_CONFIG_NOTICE.format(user_file=settings.user_file) if settings.zero_config else None


def _read_if_there(path: Path) -> ConfigFile | None:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"cannot read {shown_path(path)}: {error.strerror}") from error
    return read_config(path)


def _project_layer(
    reader: LayerReader, project: ConfigFile | None, trusted: bool, *, lowest: Sequence[Layer], upper: Sequence[Layer], home: Path | None
) -> tuple[list[Layer], list[str]]:
    """The project file's layer, cut down to what is harmless unless it is trusted, and the notice about what is left out."""
    if project is None:
        return [], []
    before = len(reader.problems)
    layer = reader.file(project)
    if trusted:
        return [layer], []
    # What is ignored anyway cannot stop the program.
    found, reader.problems[before:] = reader.problems[before:], []
    reader.problems += [problem for problem in found if not _is_ignored(problem)]
    agents = merge_agents([*lowest, *upper], home=home)
    harmless, ignored = harmless_part(layer, agents=agents)
    if _role_problems(Settings((*lowest, harmless, *upper), agents)) and not _role_problems(Settings((*lowest, *upper), agents)):
        # The roles that it chooses do not go with those that the user has given.
        ignored += [role for role in _ROLES if role in harmless.settings]
        harmless = replace(harmless, settings={path: value for path, value in harmless.settings.items() if path not in _ROLES})
    ignored += [problem.path for problem in found if _is_ignored(problem) and problem.path not in ignored]
    return [harmless], [_ignored_notice(project.path, ignored)] if ignored else []


def _is_ignored(problem: Problem) -> bool:
    return problem.path.startswith(_IGNORED) and ".limits" not in problem.path


def _ignored_notice(path: Path, ignored: Sequence[str]) -> str:
    """All of them, however many a file has to hide something among: what runs or sends something first."""
    named = ", ".join(shown_key(key) for key in sorted(ignored, key=weight))
    return f"{shown_path(path)} is not trusted, so these are ignored: {named}. To see what they would do and accept the file as it is: escalera trust"


def _across(settings: Settings) -> list[Problem]:
    """What only shows when all sources are seen together."""
    problems = unusable_agents(settings.layers, settings.agents)
    problems += mixed_secrets(settings.layers, settings.agents, settings.servers, project=f"file:{settings.project_file}")
    problems += server_problems(settings.servers.values(), agents=settings.agents)
    for family in (("questions.ttl", "questions.max_age"), ("tasks.ttl", "tasks.max_age"), ("artifacts.idle_ttl", "artifacts.ttl")):
        problems += _short_ceiling(settings, *family)
    return problems + _role_problems(settings)


def _short_ceiling(settings: Settings, span: str, ceiling: str) -> list[Problem]:
    ttl, max_age = settings.explain(span), settings.explain(ceiling)
    if ttl.value is None or settings.value(ttl.path) <= settings.value(max_age.path):
        return []
    source = ttl if ttl.source != "default" else max_age
    return [Problem(source.source, source.path, f"{ttl.path} {ttl.value} ({ttl.source}) is longer than {max_age.path} {max_age.value} ({max_age.source})")]


def _role_problems(settings: Settings) -> list[Problem]:
    problems = []
    roles = {role: settings.explain(role) for role in _ROLES}
    for role, given in roles.items():
        if given.value is not None and given.value not in settings.agents:
            is_gone = given.value in BUILT_IN
            way = _GONE.format(given.value, BUILT_IN_PROVIDER) if is_gone else did_you_mean(nearest(given.value, settings.agents))
            problems.append(Problem(given.source, role, f"no agent {given.value!r} is configured{way}"))
    if roles["primary"].value is not None and roles["primary"].value == roles["escalation"].value:
        source = roles["escalation"].source
        text = f"is {roles['primary'].value!r}, as `primary` is; give the second role an agent of its own, which may use the same provider and model"
        problems.append(Problem(source, "escalation", text))
    return problems


def _declared(path: str) -> Setting:
    if path not in BY_PATH:
        raise ConfigError(f"there is no setting {path!r}{did_you_mean(nearest(path, BY_PATH))}")
    return BY_PATH[path]


def _explained(path: str, setting: Setting, effective: tuple[str, SettingValue], given: Sequence[tuple[str, SettingValue]]) -> Explained:
    per_agent = path != setting.path
    below = [*reversed(given[:-1]), *([("default", setting.default)] if given and setting.default not in (None, ()) else [])]
    return Explained(
        path=path,
        value=_shown(setting, effective[1]),
        default=_json(setting.default),
        source=effective[0],
        shadowed=tuple((source, _shown(setting, value)) for source, value in below),
        type=setting.type,
        help=setting.help,
        unit=setting.unit,
        flag=None if per_agent else setting.flag,
        env=None if per_agent else setting.env,
    )


def _shown(setting: Setting, value: SettingValue) -> Any:
    """As it may be shown: a command or an address in a list may hold secrets like any other."""
    return showable(setting.name, _json(value)) if setting.type == "list" else _json(value)


def _json(value: SettingValue) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _set_keys(agent: AgentConfig) -> list[str]:
    keys = [key for key, value in _agent_values(agent).items() if value is not None]
    return [*keys, *(f"limits.{name}" for name in agent.limits)]


def _agent_values(agent: AgentConfig) -> dict[str, Any]:
    """An agent's keys as they may be shown."""
    own = {"provider": agent.provider, "prompt": agent.prompt, "prompt_file": str(agent.prompt_file) if agent.prompt_file else None}
    return {**own, "prices": dict(agent.prices) or None, "extra_tools": list(agent.extra_tools) or None, **_masked_options(agent.options)}


def _masked_options(table: Mapping[str, Any]) -> dict[str, Any]:
    """An agent's table: a name that is no option known here may be a misspelt one, of a secret."""
    known = (*AGENT_KEYS, *AGENT_OPTIONS)
    return {key: showable(key, value) if key in known else showable_stranger(key, value) for key, value in table.items()}


def _masked_table(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: showable(key, value) for key, value in table.items()}


def _inner(table: Any, path: Sequence[str]) -> Any:
    """What stands at that path in nested tables; `None` where there is nothing."""
    for part in path:
        table = table.get(part) if isinstance(table, Mapping) else None
    return table


def _near_key(agent: str, rest: Sequence[str]) -> str | None:
    near = nearest(".".join(rest), [*AGENT_KEYS, *AGENT_OPTIONS, *(f"limits.{name}" for name in LIMITS)])
    return f"agents.{agent}.{near}" if near else None


def _type_of(value: object) -> str:
    kinds = {bool: "bool", int: "int", float: "number", str: "text", list: "list", dict: "table"}
    return kinds.get(type(value), "text")
