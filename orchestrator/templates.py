"""The Jinja templates that every prompt text of ours comes from, overridable file by file (page 2).

Only files are templates. What users, models, tools and memory said goes in as values and is never rendered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from orchestrator.errors import ConfigError
from orchestrator.settings.files import decode_text, read_bytes
from orchestrator.settings.problems import did_you_mean, nearest

if TYPE_CHECKING:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

SUFFIX = ".jinja"

Origin = Literal["user", "project", "plugin"]
"""Where an override comes from; of several with one name, the first in this order counts."""

_REMEMBERED = 128
"""Texts, a few thousand characters each."""
_MOST_KEPT = 4
"""Versions of a file of which none was rendered yet."""
_STAYS = "; its last good version stays"
_HINT = "correct the file, or remove it to get the built-in text"


@dataclass(frozen=True, slots=True)
class Override:
    """A file that may stand in for a built-in template, as it was read once."""

    path: Path
    origin: Origin
    content: bytes
    plugin: str | None = None
    accepted: bool = True
    """Whether the user trusts this content; a file of a project waits for it."""
    problem: str | None = None
    """Why it is not used."""

    @property
    def name(self) -> str:
        """The template's name, without suffix."""
        return self.path.name.removesuffix(SUFFIX)


@dataclass(frozen=True, slots=True)
class Template:
    """A built-in template as it is in use: the file that counts, the names it is given, and the files that do not count."""

    name: str
    origin: Origin | Literal["built-in"]
    path: Path
    text: str
    plugin: str | None
    values: tuple[str, ...]
    ignored: tuple[Override, ...]


class Templates:
    """Templates by name; of `overrides` with one name, the first that works goes before the built-in one.

    A broken override is told once, with file and line, and the next one counts: a turn is never lost to it. `before` is what was
    loaded until now, whose last good version of a file stays where the new one is broken.
    """

    def __init__(self, overrides: Iterable[Override] = (), *, tell: Callable[[str], object] = lambda _: None, before: Templates | None = None) -> None:
        self._tell = tell
        self.render_once = lru_cache(maxsize=_REMEMBERED)(self.render)
        """As `render`, but the same values, which have to be hashable, are rendered once: for texts that stay the same for a session."""
        self._straight: dict[str, Sequence[tuple[str, bool]] | None] = {}
        """The parts of the templates that are text with values in it, and nothing else."""
        self._overrides: dict[Path, Override] = {}
        self._good: dict[str, list[Override]] = {}
        self._older: dict[Path, tuple[Override, ...]] = {}
        """Versions of a file from before, the last one first, down to one that was rendered."""
        kept = {} if before is None else {override.path: override for known in before._good.values() for override in known}
        self._rendered: set[Override] = set() if before is None else before._rendered & set(kept.values())
        for override in overrides:
            last_good = kept.get(override.path)
            if before is not None and last_good is not None:
                older = () if last_good in self._rendered else before._older.get(override.path, ())
                self._older[override.path] = (last_good, *older)[:_MOST_KEPT]
            self._add(override, last_good)

    def render(self, name: str, **values: object) -> str:
        """The text of template `name` (without suffix) with trailing blanks removed; `""` where it is blank.

        Raises `ConfigError` with file and line for a built-in template that is broken; an override that is gives way.
        """
        if (parts := self._straight.get(name)) is not None and (text := _joined(parts, values)) is not None:
            return text
        from jinja2 import TemplateError

        while True:
            try:
                text = self._environment.get_template(name).render(values).rstrip()
                if name not in self._straight:
                    self._straight[name] = self._parts_of(name)
            except (TemplateError, ArithmeticError, AttributeError, LookupError, MemoryError, OSError, RuntimeError, TypeError, ValueError) as error:
                problem = self._broken(name, error)
                if not self._good.get(name):
                    raise ConfigError(problem, hint="install Escalera again") from error
                self._drop(name, problem)
            else:
                self._rendered.update(self._good.get(name, ())[:1])
                return text

    def all(self) -> tuple[Template, ...]:
        """Every built-in template, by name."""
        return tuple(map(self.get, built_in_names()))

    def get(self, name: str) -> Template:
        """The template as it is in use. Raises `ConfigError` for a name that no built-in one has."""
        if name not in built_in_names():
            raise ConfigError(f"there is no template {name!r}{did_you_mean(nearest(name, built_in_names()))}", hint="`escalera templates list` has them all")
        used = next(iter(self._good.get(name, ())), None)
        ignored = tuple(override for override in self._overrides.values() if override.name == name and (used is None or override.path != used.path))
        if used is None:
            return Template(name, "built-in", _built_in(name), built_in_text(name), None, self._given(name), ignored)
        return Template(name, used.origin, used.path, _decoded(used), used.plugin, self._given(name), ignored)

    def unknown(self) -> tuple[Override, ...]:
        """Overrides of no built-in template: parts that others include, or misspelt names."""
        return tuple(override for override in self._overrides.values() if override.name not in built_in_names())

    @cached_property
    def _environment(self) -> ImmutableSandboxedEnvironment:
        from jinja2 import FunctionLoader, StrictUndefined
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        return ImmutableSandboxedEnvironment(
            loader=FunctionLoader(self._source), undefined=StrictUndefined, autoescape=False, auto_reload=False, trim_blocks=True, lstrip_blocks=True
        )

    def _source(self, name: str) -> tuple[str, str, None] | None:
        """Text and file of a template, for Jinja; names that are included come with their suffix."""
        name = name.removesuffix(SUFFIX)
        for override in self._good.get(name, ()):
            return _decoded(override), str(override.path), None
        return (built_in_text(name), str(_built_in(name)), None) if name in built_in_names() else None

    def _parts_of(self, name: str) -> Sequence[tuple[str, bool]] | None:
        """Each text or name of a value, and whether it is the latter; `None` for a template that decides something, which needs Jinja."""
        from jinja2.nodes import Name, Output, TemplateData

        found = self._source(name)
        nodes = [] if found is None else self._environment.parse(found[0], name, found[1]).body
        parts = [part for node in nodes for part in (node.nodes if isinstance(node, Output) else [node])]
        if not all(isinstance(part, Name | TemplateData) for part in parts):
            return None
        return [(part.name, True) if isinstance(part, Name) else (part.data, False) for part in parts if isinstance(part, Name | TemplateData)]

    def _add(self, override: Override, last_good: Override | None) -> None:
        if not override.accepted:
            self._overrides[override.path] = replace(override, problem="is not trusted; `escalera trust` shows it and accepts it as it is")
            return
        problem = override.problem or self._problem(override)
        self._overrides[override.path] = replace(override, problem=problem)
        if problem is not None:
            self._tell(f"{problem}{_STAYS if last_good is not None else ''} ({_HINT})")
        good = override if problem is None else last_good
        if good is not None:
            self._good.setdefault(override.name, []).append(good)

    def _problem(self, override: Override) -> str | None:
        """What is wrong with it, as far as that shows without rendering."""
        from jinja2 import TemplateError

        try:
            used = self._names_in(_decoded(override), override.path)
        except (TemplateError, RecursionError, MemoryError, OverflowError, SyntaxError) as error:  # the last ones for nesting that Python refuses
            return self._broken(override.name, error, override.path)
        except ConfigError as error:
            return f"template {error.message}"
        known = self._given(override.name) if override.name in built_in_names() else tuple(used)
        unknown = min((name for name in used if name not in known), key=lambda name: used[name], default=None)
        return None if unknown is None else f"template {override.path}, line {used[unknown]}: {unknown!r} is not given; known are {', '.join(known)}"

    def _given(self, name: str) -> tuple[str, ...]:
        return tuple(sorted(self._names_in(built_in_text(name), _built_in(name))))

    def _names_in(self, text: str, path: Path) -> dict[str, int]:
        """The values that a template uses, each with the first line; it is compiled on the way."""
        from jinja2.meta import find_undeclared_variables
        from jinja2.nodes import Name

        self._environment.compile(text, path.name, str(path))
        tree = self._environment.parse(text, path.name, str(path))
        used = find_undeclared_variables(tree)
        lines = sorted((node.lineno, node.name) for node in tree.find_all(Name) if node.name in used)
        return {name: line for line, name in reversed(lines)}

    def _drop(self, name: str, problem: str) -> None:
        """The override that counts turned out to be broken only now: its last good version counts, or the next one."""
        dropped = self._good[name].pop(0)
        older = tuple(version for version in self._older.pop(dropped.path, ()) if version != dropped)
        if older:
            self._good[name].insert(0, older[0])
            self._older[dropped.path] = older[1:]
        self._overrides[dropped.path] = replace(self._overrides[dropped.path], problem=problem)
        if self._environment.cache is not None:
            self._environment.cache.clear()
        self._straight.clear()
        self.render_once.cache_clear()
        self._tell(f"{problem}{_STAYS if older else ''} ({_HINT})")

    def _broken(self, name: str, error: Exception, path: Path | None = None) -> str:
        from jinja2 import TemplateSyntaxError

        if isinstance(error, TemplateSyntaxError):
            return f"template {error.filename or path or name + SUFFIX}, line {error.lineno}: {error.message or 'cannot be read'}"
        own = str(path or (self._source(name) or ("", name + SUFFIX))[1])
        frames = _lines_of(error.__traceback__)
        where = next((frame for frame in frames if frame[0] == own), None)
        inner = f" (in {frames[-1][0]}, line {frames[-1][1]}, which it includes)" if where is not None and frames[-1][0] != own else ""
        return f"template {own if where is None else f'{own}, line {where[1]}'}: {str(error) or type(error).__name__}{inner}"


def overrides_in(folder: Path, origin: Origin, *, plugin: str | None = None) -> Iterator[Override]:
    """The templates of a folder, by name; one that cannot be read has a problem. A folder that is not there has none."""
    try:
        paths = sorted(path for path in folder.iterdir() if path.name.endswith(SUFFIX) and path.is_file())
    except OSError:
        return
    for path in paths:
        try:
            yield Override(path, origin, read_bytes(path), plugin)
        except ConfigError as error:
            yield Override(path, origin, b"", plugin, problem=f"template: {error.message}")


def built_in_folder() -> Path:
    """Where the templates lie that come with Escalera: in the package, or beside it in a checkout."""
    packaged = Path(__file__).with_name("templates")
    return packaged if packaged.is_dir() else Path(__file__).resolve().parent.parent / "templates"


def built_in_names() -> Sequence[str]:
    """The names of the templates that come with Escalera."""
    return sorted(path.name.removesuffix(SUFFIX) for path in built_in_folder().glob(f"*{SUFFIX}"))


def built_in_text(name: str) -> str:
    """A template as it comes with Escalera. Raises `ConfigError` where it is missing."""
    try:
        return _built_in(name).read_text("utf-8")
    except OSError as error:
        raise ConfigError(f"template {name}{SUFFIX} is missing from {built_in_folder()}", hint="install Escalera again") from error


def _built_in(name: str) -> Path:
    return built_in_folder() / f"{name}{SUFFIX}"


def _joined(parts: Sequence[tuple[str, bool]], values: Mapping[str, object]) -> str | None:
    """As Jinja has it; `None` where a value is missing or no text, which it has its own ways with."""
    texts = [values.get(part) if is_name else part for part, is_name in parts]
    return "".join(texts).rstrip() if all(type(text) is str for text in texts) else None  # type: ignore[arg-type]  # which was just looked at


def _decoded(override: Override) -> str:
    return decode_text(override.content, override.path)


def _lines_of(traceback: TracebackType | None) -> list[tuple[str, int]]:
    """File and line of each template frame, the innermost last; Jinja rewrites tracebacks so that they point there."""
    found = []
    while traceback is not None:
        filename = traceback.tb_frame.f_code.co_filename
        if filename.endswith(SUFFIX):
            found.append((filename, traceback.tb_lineno))
        traceback = traceback.tb_next
    return found
