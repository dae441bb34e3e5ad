"""The commands as plain values, for what is written from them: completion scripts and man pages."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import click


class Suggested(click.types.StringParamType):
    """Any text; these are what is mostly meant."""

    def __init__(self, *words: str) -> None:
        self.words = words


@dataclass(frozen=True, slots=True)
class Values:
    """What an option or an argument takes: some words, a file, or anything else."""

    words: tuple[str, ...] = ()
    is_file: bool = False


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a command; `takes` is `None` for a mere flag."""

    names: tuple[str, ...]
    help: str
    metavar: str
    takes: Values | None
    is_setting: bool = False
    """One of the many that the root command has for settings, and does not list."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One positional argument; the last may take all that is left."""

    takes: Values
    repeats: bool


@dataclass(frozen=True, slots=True)
class Place:
    """A command, where what is typed next is looked for. `path` has the names after the program's own."""

    path: tuple[str, ...]
    summary: str
    text: str
    usage: str
    options: tuple[Option, ...]
    arguments: tuple[Argument, ...]
    places: tuple[Place, ...]

    def all(self) -> Iterator[Place]:
        """This one, and all below it."""
        yield self
        for place in self.places:
            yield from place.all()


def tree_of(command: click.Command, name: str, *, summaries: Mapping[str, str] | None = None) -> Place:
    """The whole tree; loads every command's module, and runs nothing. `summaries` say in a line what the first commands do."""
    return _place(command, click.Context(command, info_name=name), (), "", summaries or {})


def _place(command: click.Command, context: click.Context, path: tuple[str, ...], summary: str, summaries: Mapping[str, str]) -> Place:
    places: list[Place] = []
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None and not found.hidden:
                below = click.Context(found, info_name=name, parent=context)
                places.append(_place(found, below, (*path, name), summaries.get(name) or found.get_short_help_str(200), {}))
    parameters = command.get_params(context)
    return Place(
        path,
        summary,
        inspect.cleandoc(command.help or ""),
        " ".join([context.command_path, *command.collect_usage_pieces(context)]),
        tuple(_option(parameter, context) for parameter in parameters if isinstance(parameter, click.Option)),
        tuple(Argument(_values(parameter), parameter.nargs != 1) for parameter in parameters if isinstance(parameter, click.Argument)),
        tuple(places),
    )


def _option(option: click.Option, context: click.Context) -> Option:
    takes = None if option.is_flag or option.count else _values(option)
    metavar = "" if takes is None else option.make_metavar(context)
    return Option((*option.opts, *option.secondary_opts), option.help or "", metavar, takes, option.hidden)


def _values(parameter: click.Parameter) -> Values:
    match parameter.type:
        case click.Choice(choices=choices):
            return Values(tuple(map(str, choices)))
        case Suggested(words=words):
            return Values(words)
        case click.Path() | click.File():
            return Values(is_file=True)
    return Values()
