"""The files of a project that its escalera.toml names: which they are, where they lie, and whether the user has accepted them (page 5)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.errors import ConfigError
from orchestrator.settings.files import read_bytes, shown_path
from orchestrator.settings.secrets import SecretRef

IsTrusted = Callable[[Path, bytes], bool]

_WORDS = ("args", "extra_args", "env")
"""Values made of words that the core hands on as they are, to a program that takes relative names from its working directory."""

_COMMAND = "token_cmd"
_FROM_FILE = ("bin", "prompt_file", "mcp_config", "tls_ca", "model_path", "add_dirs", _COMMAND)
"""Values whose relative names count from the file that gives them, and from nowhere else."""


@dataclass(frozen=True, slots=True)
class ProjectPart:
    """One file, as it was read once: what is accepted and what is used are the same bytes."""

    path: Path
    content: bytes
    accepted: bool

    @property
    def text(self) -> str:
        """Its text, whatever bytes it is made of."""
        return self.content.decode("utf-8-sig", "replace")


@dataclass(frozen=True, slots=True)
class Places:
    """Where a name in an escalera.toml may lead: into the folder of that file, and from the directory in which programs run."""

    root: Path
    workspace: Path

    def named_parts(self, values: Mapping[str, object], is_trusted: IsTrusted) -> Iterator[ProjectPart]:
        """The files of the project that texts in these values, by their keys, name at any depth, as they are now."""
        paths = (path for key, value in values.items() for path in self._paths(key, self.placed(key, value)))
        return parts_at(self.root, dict.fromkeys(paths), is_trusted)

    def _paths(self, key: str, value: object) -> Iterator[Path]:
        if isinstance(value, SecretRef):
            yield from self._paths(_COMMAND, value.cmd)
        elif isinstance(value, Mapping | list | tuple):
            for item in value.values() if isinstance(value, Mapping) else value:
                yield from self._paths(key, item)
        elif isinstance(value, str):
            folders = (self.root,) if key in _FROM_FILE else (self.root, self.workspace)
            yield from (Path(os.path.abspath(folder / name)) for folder in folders for name in _names(value) if name and "\0" not in name)
            yield from self._paths(key, _json(value))

    def placed(self, key: str, value: Any) -> Any:  # any: what stands in a file
        """A value whose words are handed on, with those that plainly name a file beside the escalera.toml made absolute.

        A bare word stays as it is, for it may be anything: `run` is a command of many programs, even where a file is called so.
        """
        return self.placed_words(value) if key in _WORDS else value

    def placed_words(self, value: Any) -> Any:  # any: as above
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

    def require_accepted(self, owner: str, values: Mapping[str, object], sources: Mapping[str, str], is_trusted: IsTrusted) -> None:
        """A file of the project's own counts only as the user has accepted it, like the file that names it. Raises `ConfigError`."""
        for key, value in values.items():
            for part in self.named_parts({key: value}, is_trusted):
                if not part.accepted:
                    text = f"{owner}.{key} ({sources[key]}): {shown_path(part.path)} is not accepted as it is now"
                    raise ConfigError(text, hint="`escalera trust` shows it and accepts it")


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
