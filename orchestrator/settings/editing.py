"""Keys of a configuration file that are set and unset by the program: checked as at every start, written as a whole or not at all (page 5)."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from orchestrator.errors import ConfigError, UsageError
from orchestrator.settings.agent_config import AgentConfig
from orchestrator.settings.declarations import BY_PATH, SettingValue
from orchestrator.settings.files import PROJECT_FILE, ConfigFile, config_file, decode_text, is_stream, shown_path
from orchestrator.settings.hiding import has_written_secret
from orchestrator.settings.known import SHORTEST, written_secrets
from orchestrator.settings.layers import LayerReader, assigned_value, is_agent_name
from orchestrator.settings.named_files import leads_into
from orchestrator.settings.problems import Problem, raise_problems
from orchestrator.settings.resolution import Files, Settings, Sources, read_files, resolved
from orchestrator.settings.toml_text import Path as Key
from orchestrator.settings.toml_text import with_key, without_key
from orchestrator.settings.tool_servers import TABLE
from orchestrator.settings.trust import TrustStore
from orchestrator.settings.values import path_parts, shown
from orchestrator.settings.writing import locked, replace_file

Change = Callable[[str], str]
"""From a file's text to its new text; `ValueError` where that cannot be."""

_BOM = b"\xef\xbb\xbf"
_REFERENCES = 'use { env = "NAME" }, { cmd = ["program", "argument"] } or { keyring = "service/name" }, or write it into the file with an editor'


@dataclass(frozen=True, slots=True)
class Edit:
    """What became of a change."""

    file: Path
    settings: Settings
    """As they are now, for this process."""
    meant: Settings
    """As they would be if the file were accepted; `settings` where it is."""
    changed: bool
    """False where the file said so already, or did not have the key."""
    problems: tuple[Problem, ...]
    """What was wrong before and still is."""
    accepted: bool | None
    """Of a project file: whether what it says now is accepted. A file that was accepted stays so, since nothing but this change came to it."""


def edit(sources: Sources, change: Change, *, project: bool = False, check: Callable[[Settings], Iterable[Problem]] | None = None) -> Edit:
    """Change the user's file, or the project's, which is made where there is none.

    The change is refused with `ConfigError` when the file cannot be read or parsed, when it would bring a problem that is not there yet, and when
    nothing can be written; the file is then as it was. `check` finds further problems of settings. Processes take turns.
    """
    if project and sources.config_file is not None:
        raise UsageError("--config stands in for the project's file too", hint="leave out --project, or --config")
    with locked(sources.paths.state / "settings.lock"):
        files = read_files(sources, to_change=True)
        old = files.project if project else files.user
        file = old.path if old else sources.workspace / PROJECT_FILE if project else sources.user_file
        if is_stream(file):
            raise ConfigError(f"{shown_path(file)} is no file that could be changed")
        if project and file.is_symlink() and not leads_into(file.parent, file):
            raise ConfigError(f"{shown_path(file)} is a link that leads out of the project, to {shown_path(file.resolve())}", hint="change that file itself")
        accepted = files.trusted or files.project is None if project else None
        new = _changed(file, old, change)
        if new is None:
            settings, problems = resolved(sources, files)
            meant = settings if not project or files.trusted else resolved(sources, replace(files, trusted=True))[0]
            return Edit(file, settings, meant, False, tuple(problems), files.trusted if project else None)
        _refuse_new_problems(sources, files, _with(files, new, project=project, trusted=True), check)
        _refuse_overwriting(file, old)
        replace_file(file, new.content, mode=0o666 if project else 0o600)
        if accepted:
            TrustStore(sources.paths.trust_file).trust(file, new.content)
        settings, problems = resolved(sources, _with(files, new, project=project, trusted=bool(accepted)))
        meant = settings if not project or accepted else resolved(sources, _with(files, new, project=project, trusted=True))[0]
        return Edit(file, settings, meant, True, tuple(problems), accepted)


def setting_keys(values: Mapping[str, str], *, workspace: Path) -> Change:
    """The change that sets these paths to these values, both as they are written after `--set`.

    Raises `ConfigError` for an unknown path, a value it cannot take, and a secret that is written out: a command line is no place for one.
    """
    for path, text in values.items():
        if any("\ud800" <= character <= "\udfff" for character in path + text):
            raise ConfigError(f"{path if path.isprintable() else shown(path)}: there are bytes in it that are no text in UTF-8")
    written = {_key(path): _checked(path, text, workspace) for path, text in values.items()}

    def change(text: str) -> str:
        for key, value in written.items():
            text = with_key(text, key, value)
        return text

    return change


def adding_agent(name: str, values: Mapping[str, str], *, known: Mapping[str, AgentConfig], workspace: Path) -> Change:
    """The change that writes the table of a new agent; `values` by its keys.

    Raises `ConfigError` for a name that is none, and for one that is taken.
    """
    if not is_agent_name(name):
        raise ConfigError(f"{shown(name)} is no name for an agent", hint="use letters, digits, `-` and `_`, 64 at most")
    if name in known and "provider" in known[name].sources:
        raise ConfigError(f"there is an agent {name!r} already ({known[name].source})", hint=f"escalera settings set agents.{name}.KEY VALUE changes it")
    change = setting_keys({f"agents.{name}.{key}": value for key, value in values.items()}, workspace=workspace)

    def add(text: str) -> str:
        # Another process may have been quicker; this is looked at under the lock.
        if "provider" in tomllib.loads(text).get("agents", {}).get(name, {}):
            raise ValueError(f"there is an agent {name!r} already")
        return change(text)

    return add


def unsetting_key(path: str) -> Change:
    """The change that takes a path out of a file, be it one that is known or a misspelt one."""
    return lambda text: without_key(text, _key(path))


def _key(path: str) -> Key:
    return path_parts(path)


def _checked(path: str, text: str, workspace: Path) -> Any:
    """The value for the file, checked as one from the command line."""
    key = _key(path)
    if not all(key):
        raise ConfigError(f"{shown(path)} is no path: there is nothing between two of its dots, or at an end")
    reader = LayerReader(workspace)
    layer = reader.assignment(path, text, "this change")
    raise_problems(reader.problems)
    if ".".join(key) in BY_PATH:
        setting, declared = BY_PATH[".".join(key)], _listed(layer.settings[".".join(key)])
        if setting.is_command or (setting.type == "list" and has_written_secret(key[-1], declared)):
            _refuse_secret(path, key[-1], declared)
        return declared
    if key[0] not in ("agents", TABLE) or len(key) < 3 or (key[0] == "agents" and key[2] == "limits" and len(key) != 4):
        raise ConfigError(f"{path} is a table, no value", hint=f"set one of its keys: {path}.KEY")
    if key[0] == "agents" and key[2] == "limits":
        return _listed(layer.agent_limits[key[1]][key[3]])
    value = assigned_value(list(key), text)
    _refuse_secret(path, *_nested(key[2:], value))
    return value


def _refuse_secret(path: str, name: str, value: object) -> None:
    if has_written_secret(name, value) or any(len(text) >= SHORTEST for text in written_secrets(name, value)):
        raise ConfigError(f"{path}: a secret on the command line stays in the shell's history and is seen by every process", hint=_REFERENCES)


def _listed(value: SettingValue) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _nested(key: Key, value: object) -> tuple[str, object]:
    for part in reversed(key[1:]):
        value = {part: value}
    return key[0], value


def _changed(file: Path, old: ConfigFile | None, change: Change) -> ConfigFile | None:
    """The file as it would be, read again; nothing where nothing changes."""
    text = decode_text(old.content, file) if old else ""
    try:
        changed = change(text)
        content = changed.encode("utf-8")
    except ValueError as error:
        raise ConfigError(f"{shown_path(file)}: {error}", hint="change it with an editor") from error
    if changed == text:
        return None
    return config_file(file, _BOM + content if old and old.content.startswith(_BOM) else content)


def _with(files: Files, new: ConfigFile, *, project: bool, trusted: bool) -> Files:
    return replace(files, project=new, trusted=trusted) if project else replace(files, user=new)


def _refuse_new_problems(sources: Sources, before: Files, after: Files, check: Callable[[Settings], Iterable[Problem]] | None) -> None:
    """A file with a problem may be mended step by step; a change brings none. Both are judged as if they were accepted."""
    (settings, problems), (earlier, known) = resolved(sources, after), resolved(sources, replace(before, trusted=after.trusted))
    if check:
        problems, known = [*problems, *check(settings)], [*known, *check(earlier)]
    new = (problem for problem in problems if problem not in known)
    changed = {f"file:{file.path}" for file, old in ((after.user, before.user), (after.project, before.project)) if file and file != old}
    raise_problems(replace(problem, source="this change") if problem.source in changed else problem for problem in new)


def _refuse_overwriting(file: Path, old: ConfigFile | None) -> None:
    """An editor knows nothing of our lock."""
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        content = None
    except OSError as error:
        raise ConfigError(f"cannot read {shown_path(file)}: {error.strerror}") from error
    if content != (old.content if old else None):
        raise ConfigError(f"{shown_path(file)} was changed by something else just now", hint="try again")
