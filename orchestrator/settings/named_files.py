"""The files of a project that its escalera.toml names: which they are, where they lie, and whether the user has accepted them (page 5)."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from orchestrator.errors import ConfigError
from orchestrator.settings.files import read_bytes, shown_path
from orchestrator.settings.placing import placed_file
from orchestrator.settings.secrets import SecretRef

IsTrusted = Callable[[Path, bytes], bool]

_WORDS = ("args", "extra_args", "env")
"""Values made of words that the core hands on as they are, to a program that takes relative names from its working directory."""

_LINES = ("command", "args", "extra_args", "token_cmd")
"""Values that are a command line or a part of one."""
_FROM_FILE = ("bin", "prompt_file", "mcp_config", "tls_ca", "model_path", "add_dirs", "token_cmd")
"""Values whose relative names count from the file that gives them, and from nowhere else."""

_INTERPRETER = re.compile(
    r"(ba|z|da|k|fi|c|tc)?sh|python[\d.]*|pypy[\d.]*|node|nodejs|deno|bun|tsx|ts-node|ruby|perl|php|lua|Rscript|java|pwsh|powershell|tclsh|osascript", re.ASCII
)
"""A program whose first word that is no option is a program itself, whatever it is called."""
_SCRIPTS = frozenset(
    {
        *("", ".py", ".pyz", ".pyw", ".sh", ".bash", ".zsh", ".fish", ".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".tsx", ".jsx", ".rb", ".pl", ".pm"),
        *(".php", ".lua", ".r", ".jar", ".war", ".class", ".wasm", ".exe", ".dll", ".so", ".dylib", ".bat", ".cmd", ".ps1", ".psm1", ".vbs", ".tcl", ".go"),
    }
)
_CONFIGURES = re.compile(
    r"conf|cfg|setting|rcfile|env[-_]?file|bash_env|script|hook|plugin|rules|polic|require|import|preload|init|startup|prompt|^-[cfr]$", re.IGNORECASE
)
"""An option or a variable of such a name brings settings or code into the program that it is given to."""
_PLAIN_DATA = frozenset({".db", ".db3", ".sqlite", ".sqlite3", ".duckdb", ".log", ".jsonl", ".ndjson", ".csv", ".tsv", ".parquet", ".pid", ".lock", ".out"})


@dataclass(frozen=True, slots=True)
class ProjectPart:
    """One file, as it was read once: what is accepted and what is used are the same bytes."""

    path: Path
    content: bytes
    accepted: bool
    pinned: bool = True
    """It counts only as it was accepted; what is not pinned may as well be what a program keeps there."""

    @property
    def text(self) -> str:
        """Its text, whatever bytes it is made of."""
        return self.content.decode("utf-8-sig", "replace")


@dataclass(frozen=True, slots=True)
class _Name:
    """What in a value may be the name of a file, and what it would be there for."""

    text: str
    under: str = ""
    """The option or the variable that it is given by."""
    runs: bool = False
    """It stands where a program does, or in a value that is made for one file of a kind that counts."""
    is_secrets: bool = False
    """It is of the command of a secret, which runs in the folder of the file that gives it."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where a name in an escalera.toml may lead: into the folder of that file, and from the directory in which programs run."""

    root: Path
    workspace: Path
    home: Path | None = None

    def named_parts(self, values: Mapping[str, object], is_trusted: IsTrusted, *, only: str | None = None) -> Iterator[ProjectPart]:
        """The files of the project that texts in these values, by their keys, name at any depth, as they are now; not what is plainly data.

        `only` is the one key that is asked about, where the others are there to tell what it means.
        """
        pinned: dict[Path, bool] = {}
        for key, value in values.items() if only is None else [(only, values[only])]:
            program = values.get("command", "") if key in ("args", "extra_args") else None
            for name, path in self._named(key, self.placed(key, value), program):
                kind = _is_pinned(name, path)
                if kind is not None:
                    pinned[path] = pinned.get(path, False) or kind
        for part in parts_at(self.root, pinned, is_trusted):
            yield replace(part, pinned=pinned[part.path] or part.content.startswith(b"#!"))

    def _named(self, key: str, value: object, program: object) -> Iterator[tuple[_Name, Path]]:
        for name in _names_in(key, value, program):
            if name.text and "\0" not in name.text:
                folders = (self.root,) if key in _FROM_FILE or name.is_secrets else dict.fromkeys((self.root, self.workspace))
                yield from ((name, Path(os.path.abspath(placed_file(name.text, folder, self.home)))) for folder in folders)

    def placed(self, key: str, value: Any) -> Any:  # any: what stands in a file
        """A value whose words are handed on, with those that plainly name a file beside the escalera.toml made absolute.

        A bare word stays as it is, for it may be anything: `run` is a command of many programs, even where a file is called so. All stays where
        programs run in that folder anyway: the program may be one that runs its words elsewhere, as in a container.
        """
        return self.placed_words(value) if key in _WORDS else value

    def placed_words(self, value: Any) -> Any:  # any: as above
        if os.path.realpath(self.root) == os.path.realpath(self.workspace):
            return value
        if isinstance(value, Mapping):
            return {name: self.placed_words(item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(map(self.placed_words, value))
        return self._placed_word(value) if isinstance(value, str) else value

    def _placed_word(self, word: str) -> str:
        for name in _names(word):
            plainly = ("." in name or "/" in name or os.sep in name) and "\0" not in name
            if plainly and not os.path.isabs(name) and os.path.isfile(self.root / name):
                return word.removesuffix(name) + os.path.abspath(self.root / name)
        return word

    def variables(self, values: Mapping[str, object]) -> Iterator[tuple[str, Mapping[str, object]]]:
        """The tables of variables (`env`) in JSON that words give, as it stands there or in a file of the project, each with where it is."""
        for key in (key for key in _LINES if key in values):
            for name in _texts_in(values[key]):
                yield key, variables_of(name)
            for part in self.named_parts(values, lambda *_: True, only=key):
                yield f"{key}, in {self._shown(part.path)}", variables_of(part.text)

    def _shown(self, path: Path) -> str:
        return shown_path(Path(os.path.relpath(path, self.root)))

    def require_accepted(self, owner: str, values: Mapping[str, object], sources: Mapping[str, str], is_trusted: IsTrusted) -> None:
        """A program or configuration of the project's own counts only as the user has accepted it, like the file that names it. Raises `ConfigError`.

        Asked about are the values that `sources` has the source of.
        """
        for key in sources:
            for part in self.named_parts(values, is_trusted, only=key):
                if part.pinned and not part.accepted:
                    text = f"{owner}.{key} ({sources[key]}): {shown_path(part.path)} is not accepted as it is now"
                    raise ConfigError(text, hint="`escalera trust` shows it and accepts it")


def variables_of(text: str) -> Mapping[str, object]:
    """What `env` is in a text that is a JSON object, as in the settings of Claude Code."""
    data = _json(text)
    found = data.get("env") if isinstance(data, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def parts_at(root: Path, paths: Iterable[Path], is_trusted: IsTrusted) -> Iterator[ProjectPart]:
    """Those of the files that are there and do not lead out of the project."""
    for path in paths:
        if not os.path.isfile(path) or not leads_into(root, path):
            continue
        try:
            content = read_bytes(path)
        except ConfigError:
            continue
        yield ProjectPart(path, content, is_trusted(path, content))


def leads_into(folder: Path, path: Path) -> bool:
    """Whether that is where the path really ends, links followed."""
    inside = os.path.realpath(folder)
    return os.path.commonpath([inside, os.path.realpath(path)]) == inside


def _names_in(key: str, value: object, command: object = None) -> Iterator[_Name]:
    """The names in a value, at any depth; `command` is the program that words are given to."""
    if isinstance(value, SecretRef):
        yield from (replace(name, is_secrets=True) for name in _words(value.cmd, None))
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _under(name, item) if key == "env" and isinstance(item, str) else _names_in(str(name), item, value.get("command"))
    elif isinstance(value, list | tuple):
        yield from _words(value, command) if key in _LINES else (name for item in value for name in _names_in(key, item))
    elif isinstance(value, str):
        yield from (_Name(text, runs=True) for text in _names(value))
        yield from _names_in("", _json(value))


def _words(words: Sequence[object], command: object) -> Iterator[_Name]:
    """A command line, or a part of one: a program first where `command` is none, and behind an interpreter."""
    is_due, before = command is None or _is_interpreter(command), ""
    for word in words:
        if not isinstance(word, str):
            yield from _names_in("", word)
        elif word.startswith("-"):
            option, given, text = word.partition("=")
            yield from _under(option, text) if given else ()
        else:
            _, given, text = word.partition("=")
            yield _Name(word, before, runs=is_due)
            yield from [_Name(text, before)] if given else ()
            yield from _names_in("", _json(word))
            is_due = _is_interpreter(word)
        before = word if isinstance(word, str) and word.startswith("-") and "=" not in word else ""


def _under(name: str, text: str) -> Iterator[_Name]:
    """What an option or a variable is set to."""
    yield from (_Name(part, name) for part in _names(text))
    yield from _names_in("", _json(text))


def _texts_in(words: object) -> Iterator[str]:
    for word in words if isinstance(words, list | tuple) else ():
        yield from _names(word) if isinstance(word, str) and not word.startswith("{") else [word] if isinstance(word, str) else ()


def _is_interpreter(word: object) -> bool:
    return isinstance(word, str) and _INTERPRETER.fullmatch(os.path.basename(word).removesuffix(".exe")) is not None


def _is_pinned(name: _Name, path: Path) -> bool | None:
    """Whether the file brings code or settings into what runs; nothing of one that is plainly what a program keeps."""
    suffix = path.suffix.lower()
    if name.runs or (suffix in _SCRIPTS and (suffix or not name.under)) or _CONFIGURES.search(name.under) or _is_executable(path):
        return True
    return None if suffix in _PLAIN_DATA else False


def _is_executable(path: Path) -> bool:
    try:
        return os.stat(path).st_mode & 0o111 != 0
    except (OSError, ValueError):
        return False


def _names(text: str) -> Sequence[str]:
    """What in a word may be the name of a file: all of it, and in `--option=NAME` what stands behind the sign."""
    _, given, rest = text.partition("=")
    return (text, rest) if given else (text,)


def _json(text: str) -> object:
    """What a text holds that is a JSON object, as some options are: programs may be named in it, too."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
