"""The Jinja templates that every prompt text of ours comes from, overridable file by file (page 2).

Only files are templates. What users, models, tools and memory said goes in as values and is never rendered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from orchestrator.errors import ConfigError

if TYPE_CHECKING:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

SUFFIX = ".jinja"


class Templates:
    """Templates by name; a file in one of `folders`, the first of them first, goes before the built-in one.

    A file is read and compiled once, at its first use: what changes later is seen by a new `Templates` only,
    so whoever reloads can `check` the new one and keep the old one when that fails.
    """

    def __init__(self, folders: Sequence[Path] = ()) -> None:
        self._overrides = tuple(folders)

    def render(self, name: str, **values: object) -> str:
        """The text of template `name` (without suffix) with trailing blanks removed; `""` where it is blank.

        Raises `ConfigError` with file and line for a template that is broken.
        """
        from jinja2 import TemplateError

        try:
            return self._environment.get_template(name + SUFFIX).render(values).rstrip()
        except UnicodeDecodeError as error:
            raise ConfigError(f"template {name}{SUFFIX} is not UTF-8: {error.reason} at byte {error.start}", hint="save it as UTF-8") from error
        except (TemplateError, ArithmeticError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError) as error:
            raise self._broken(name, error) from error

    def check(self) -> None:
        """Compile every override, and see that it uses no name that the built-in one is not given.

        Raises one `ConfigError` that names every broken file and line; touches nothing where there are no overrides.
        """
        problems = [problem for name, path in self._overriding() for problem in self._problems(name, path)]
        if problems:
            raise ConfigError("\n".join(problems), hint="correct the file, or remove it to get the built-in text")

    @cached_property
    def _environment(self) -> ImmutableSandboxedEnvironment:
        from jinja2 import FileSystemLoader, StrictUndefined
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        return ImmutableSandboxedEnvironment(
            loader=FileSystemLoader([*self._overrides, built_in_folder()], encoding="utf-8-sig"),
            undefined=StrictUndefined,
            autoescape=False,
            auto_reload=False,
            trim_blocks=True,
            lstrip_blocks=True,
        )

    def _overriding(self) -> Iterator[tuple[str, Path]]:
        for name in sorted(path.name for path in built_in_folder().glob(f"*{SUFFIX}")):
            path = next((folder / name for folder in self._overrides if (folder / name).is_file()), None)
            if path is not None:
                yield name, path

    def _problems(self, name: str, path: Path) -> Iterator[str]:
        from jinja2 import TemplateError
        from jinja2.meta import find_undeclared_variables

        try:
            self._environment.get_template(name)
            used = find_undeclared_variables(self._environment.parse(path.read_text("utf-8-sig"), name, str(path)))
        except TemplateError as error:
            yield self._broken(name.removesuffix(SUFFIX), error).message
        except (OSError, UnicodeDecodeError) as error:
            yield f"template {path} cannot be read: {error}"
        else:
            given = find_undeclared_variables(self._environment.parse((built_in_folder() / name).read_text("utf-8")))
            yield from (f"template {path}: {unknown!r} is not given; known are {', '.join(sorted(given))}" for unknown in sorted(used - given))

    def _broken(self, name: str, error: Exception) -> ConfigError:
        from jinja2 import TemplateNotFound, TemplateSyntaxError

        if isinstance(error, TemplateSyntaxError):
            where, reason = f"{error.filename or name + SUFFIX}, line {error.lineno}", error.message or "cannot be read"
        elif isinstance(error, TemplateNotFound) and error.name == name + SUFFIX:
            return ConfigError(f"template {name}{SUFFIX} is missing from {built_in_folder()}", hint="install Escalera again")
        else:
            where, reason = _line_of(error.__traceback__) or name + SUFFIX, str(error) or type(error).__name__
        return ConfigError(f"template {where}: {reason}", hint="correct the file, or remove it to get the built-in text")


def built_in_folder() -> Path:
    """Where the templates lie that come with Escalera: in the package, or beside it in a checkout."""
    packaged = Path(__file__).with_name("templates")
    return packaged if packaged.is_dir() else Path(__file__).resolve().parent.parent / "templates"


def _line_of(traceback: TracebackType | None) -> str | None:
    """File and line of the innermost template frame; Jinja rewrites tracebacks so that they point there."""
    found = None
    while traceback is not None:
        filename = traceback.tb_frame.f_code.co_filename
        if filename.endswith(SUFFIX):
            found = f"{filename}, line {traceback.tb_lineno}"
        traceback = traceback.tb_next
    return found
