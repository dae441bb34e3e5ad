"""From a configured agent to its provider: options checked by the kind's own model, secrets resolved at the last moment (pages 5 and 7)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.errors import ConfigError, EscaleraError, PluginError, foreign
from orchestrator.guarded import BROKEN, Guarded
from orchestrator.plugins import PluginReport, missing_kind
from orchestrator.providers import AgentContext, Provider, ProviderKind
from orchestrator.settings.agent_config import AgentConfig
from orchestrator.settings.declarations import LIMITS
from orchestrator.settings.files import decode_text, read_bytes, read_found, shown_path
from orchestrator.settings.hiding import masked
from orchestrator.settings.known import KnownSecrets, resolved_secrets, written_secrets
from orchestrator.settings.layers import AGENT_KEYS
from orchestrator.settings.problems import Problem, did_you_mean, nearest, raise_problems
from orchestrator.settings.secrets import MASK, has_secret, is_secret_name, resolve, secret_texts, secret_variables
from orchestrator.settings.tool_servers import TABLE, ToolServer
from orchestrator.settings.values import quoted, shown

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic_core import ErrorDetails

_SHORTEST_SECRET = 8
"""Characters. A shorter one is a stand-in for a server that wants none (`1`, `true`, `local`), and may be the value of any variable."""


def build_provider(
    config: AgentConfig,
    kinds: Mapping[str, ProviderKind],
    *,
    environ: Mapping[str, str],
    workspace: Path,
    others: Iterable[AgentConfig] = (),
    reports: Iterable[PluginReport] = (),
    with_secrets: bool = True,
    long_lived: bool = False,
    session_wait: float = 0.0,
    known: KnownSecrets | None = None,
) -> Guarded:
    """An agent's provider, with its secrets resolved; nothing is opened yet.

    Without them, `***` stands in each one's place: a plan shows no more, and needs no key and no program that gives one.
    `others` are the other agents, whose secrets this one's children must not see; `long_lived` says that many turns are to come, and
    `session_wait` how many seconds to wait for a conversation that another session is in; `reports` say what became of the plugins;
    `known` is told the secrets, so that they stay out of what is shown and written down.
    Raises `PluginError` for a kind that is not there or does not work, and `ConfigError` for an option or a secret that cannot be used.
    """
    kind = kinds.get(config.provider)
    if kind is None:
        raise missing_kind(config.provider, kinds, reports)
    known = KnownSecrets() if known is None else known
    known.add(written_secrets("", config.options))
    if with_secrets:
        options = {key: resolve(value, environ=environ, path=f"agents.{config.name}.{key}") for key, value in config.options.items()}
        known.add(resolved_secrets(config.options, options))
    else:
        options = {key: _stand_in(key, value) for key, value in config.options.items()}
    checked, problems = _checked(config, kind, options)
    raise_problems(problems)
    others = [other for other in others if other.name != config.name]
    context = agent_context(kind, config.options, others, kinds, name=config.name, environ=environ, workspace=workspace)
    folders = {key: str(folder) for key, folder in config.folders.items()}
    context = replace(context, long_lived=long_lived, session_wait=session_wait, folders=folders)
    try:
        provider = kind.factory(checked, context)
    except (EscaleraError, KeyboardInterrupt):
        raise
    except BaseException as error:
        # A factory is code of strangers, which may raise anything. What it says is not repeated: it may hold a secret.
        raise PluginError(f"agents.{config.name}: the provider {kind.name} cannot be made: {foreign(error)}", hint=BROKEN) from None
    missing = [name for name in ("run", "preview", "check") if not _has(provider, name)]
    if missing:
        text = f"its factory gave {type(provider).__name__}, which has no {', '.join(missing)}"
        raise PluginError(f"agents.{config.name}: the provider {kind.name} cannot be used: {text}", hint=BROKEN)
    guarded = Guarded(provider, known, agent=config.name)
    _ = guarded.capabilities, guarded.model, guarded.config_dir  # what they raise is raised here, before anything depends on them
    return guarded


def agent_context(
    kind: ProviderKind,
    options: Mapping[str, Any],
    others: Iterable[AgentConfig],
    kinds: Mapping[str, ProviderKind],
    *,
    name: str,
    environ: Mapping[str, str],
    workspace: Path,
) -> AgentContext:
    """What an agent of that kind gets beside its options, among these other agents.

    Not taken from it are the variables that its own kind reads or its own options name, whoever else uses them.
    """
    mine = {*kind.environment, *_variables(options.values())}
    own = {*_texts_of(options.values(), environ), *(environ[variable] for variable in mine if variable in environ)}
    others = list(others)
    theirs = {variable for other in others for variable in (*_variables(other.options.values()), *_environment_of(other, kinds))}
    foreign = {text for other in others for text in _texts_of(other.options.values(), environ) if len(text) >= _SHORTEST_SECRET}
    return AgentContext(
        name=name,
        workspace=str(workspace),
        environ=environ,
        secret_values=tuple(sorted(foreign - own)),
        secret_names=tuple(sorted(theirs - mine)),
    )


def tool_environ(environ: Mapping[str, str], agents: Iterable[AgentConfig], servers: Iterable[ToolServer], kinds: Mapping[str, ProviderKind]) -> dict[str, str]:
    """The environment for programs that tools start: what they print goes to a model, and so none of them sees a secret."""
    held = [*((agent, list(agent.options.values())) for agent in agents), *((None, [server.env, server.headers]) for server in servers)]
    names = {name for agent, values in held for name in (*_variables(values), *(() if agent is None else _environment_of(agent, kinds)))}
    texts = {text for _, values in held for text in _texts_of(values, environ) if len(text) >= _SHORTEST_SECRET}
    return {name: value for name, value in environ.items() if not (name in names or value in texts or is_secret_name(name))}


def agent_problems(agents: Iterable[AgentConfig], kinds: Mapping[str, ProviderKind]) -> list[Problem]:
    """What is wrong with the options of all agents, without resolving a secret; agents of kinds that are not there are left alone."""
    problems: list[Problem] = []
    for agent in agents:
        if agent.provider in kinds:
            options = {key: _stand_in(key, value) for key, value in agent.options.items()}
            problems += _checked(agent, kinds[agent.provider], options)[1]
    return problems


def kind_problems(agents: Iterable[AgentConfig], kinds: Mapping[str, ProviderKind]) -> list[Problem]:
    """The agents whose kind of provider is not there."""
    unknown = [agent for agent in agents if agent.provider not in kinds]
    return [
        Problem(agent.sources.get("provider", agent.source), f"agents.{agent.name}.provider", missing_kind(agent.provider, kinds, ()).message)
        for agent in unknown
    ]


def agent_prompt(config: AgentConfig, *, found: bool = False, accepts: Callable[[Path, bytes], bool] = lambda *_: True) -> str:
    """The agent's own instructions, from `prompt` or `prompt_file`; empty when it has none. One that was `found` came with a clone.

    Raises `ConfigError` for a file that cannot be read, and for one that `accepts` does not let through.
    """
    file = config.prompt_file
    if file is None:
        return config.prompt or ""
    where = f"agents.{config.name}.prompt_file ({config.sources.get('prompt_file', 'default')})"
    try:
        content = read_found(file) if found else read_bytes(file)
        text = decode_text(content, file)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error.message}", hint=error.hint) from error
    if not accepts(file, content):
        raise ConfigError(f"{where}: {shown_path(file)} is not accepted as it is now", hint="`escalera trust` shows it and accepts it")
    return text


def _has(provider: Provider, name: str) -> bool:
    try:
        return callable(getattr(provider, name, None))
    except (Exception, SystemExit):  # strangers' code, which may raise anything
        return False


def _texts_of(values: Iterable[object], environ: Mapping[str, str]) -> set[str]:
    return {text for value in values for text in secret_texts(value, environ=environ)}


def _variables(values: Iterable[object]) -> set[str]:
    """The environment variables that options name for a secret."""
    return {variable for value in values for variable in secret_variables(value)}


def _environment_of(agent: AgentConfig, kinds: Mapping[str, ProviderKind]) -> tuple[str, ...]:
    return kinds[agent.provider].environment if agent.provider in kinds else ()


def _checked(config: AgentConfig, kind: ProviderKind, options: Mapping[str, Any]) -> tuple[BaseModel | None, list[Problem]]:
    from pydantic import ValidationError

    try:
        return kind.options.model_validate(dict(options)), []
    except ValidationError as error:
        return None, _merged(_problem(config, kind, details, options) for details in error.errors(include_url=False, include_context=False))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        # A model is code of strangers like a factory, and as little is repeated of what it says.
        text = f"the provider {kind.name} breaks when it checks the options: {foreign(error)}; {BROKEN}"
        return None, [Problem(config.source, f"agents.{config.name}", text)]


def _problem(config: AgentConfig, kind: ProviderKind, details: ErrorDetails, options: Mapping[str, Any]) -> Problem:
    """One of pydantic's errors in our words. What a secret's value was is not among them."""
    place = _place(details, options)
    key = place[0] if place else ""
    # A plain key is shown as it is, anything else escaped: keys come from files of strangers.
    path = ".".join(["agents", config.name, *(part if part.replace("_", "").replace("-", "").isalnum() and part.isascii() else shown(part) for part in place)])
    source = config.sources.get(key, config.source)
    if details["type"] == "extra_forbidden":
        return Problem(source, path, f"unknown option of the provider {kind.name}{_suggestion(config, kind, key) if len(place) == 1 else ''}")
    if details["type"] == "missing":
        return Problem(source, path, f"is missing; the provider {kind.name} needs it")
    hidden = any(map(is_secret_name, place)) or key in ("headers", "env") or has_secret(config.options.get(key))
    value = "" if hidden else f"{_quoted(key, details['input'])} is not usable: "
    return Problem(source, path, _without(f"{value}{details['msg']}", config, options))


def _place(details: ErrorDetails, options: Any) -> list[str]:  # any: what stands in a file
    """The keys on the way to a value. Beside them pydantic names the ways in which it tried to read it."""
    place: list[str] = []
    *before, last = details["loc"] or ("",)
    for part in before:
        if isinstance(options, list | Mapping) and part in (options if isinstance(options, Mapping) else range(len(options))):
            options = options[part]  # type: ignore[index]  # the key of a table, or the place in a list
            place.append(str(part))
    is_key = details["type"] == "missing" or (isinstance(options, Mapping) and last in options) or (isinstance(options, list) and isinstance(last, int))
    return [*place, str(last)] if is_key else place


def _quoted(name: str, value: object) -> str:
    return shown(masked(name, value)) if isinstance(value, str) and "://" in value else quoted(value)


def _merged(problems: Iterable[Problem]) -> list[Problem]:
    """One for each place: of a value that may be of several kinds, pydantic says of each why it is not that."""
    merged: dict[str, Problem] = {}
    for problem in problems:
        before = merged.get(problem.path)
        merged[problem.path] = problem if before is None else replace(before, text=f"{before.text}; or: {problem.text}")
    return list(merged.values())


def _suggestion(config: AgentConfig, kind: ProviderKind, key: str) -> str:
    if key in LIMITS:
        return f"; it belongs under [agents.{config.name}.limits]"
    if key == TABLE:
        return f"; servers stand in tables of their own: [{TABLE}.NAME], with agents = [{config.name!r}] for this one alone"
    return did_you_mean(nearest(key, [*_option_names(kind), *AGENT_KEYS]))


def _option_names(kind: ProviderKind) -> list[str]:
    return [field.alias or name for name, field in kind.options.model_fields.items()]


def _stand_in(name: str, value: object) -> Any:
    """The value with `***` for every secret in it, also for one that is in a URL or under a telling name deep inside."""
    if isinstance(value, Mapping):
        return {key: _stand_in(key, item) for key, item in value.items()}
    if isinstance(value, list) and has_secret(value):
        return [_stand_in(name, item) for item in value]
    return MASK if has_secret(value) else masked(name, value)


def _without(text: str, config: AgentConfig, options: Mapping[str, Any]) -> str:
    """A text of somebody else's with every secret among the options blotted out."""
    secrets = {*_texts(options, secret=False), *written_secrets("", config.options), *resolved_secrets(config.options, options)}
    for secret in sorted(filter(None, secrets - {MASK}), key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def _texts(value: object, *, secret: bool) -> list[str]:
    if isinstance(value, Mapping):
        return [text for key, item in value.items() for text in _texts(item, secret=secret or is_secret_name(key) or key in ("headers", "env"))]
    return [value] if secret and isinstance(value, str) and value else []
