"""`escalera settings`: every setting, its value and where that comes from; set and unset in a file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from orchestrator.cli.edits import file_options, tell
from orchestrator.cli.front import Front
from orchestrator.cli.tree import Suggested
from orchestrator.documents.setting import setting_document, settings_document
from orchestrator.edits import edited
from orchestrator.errors import ConfigError
from orchestrator.settings.declarations import SETTINGS
from orchestrator.settings.resolution import Explained
from orchestrator.settings.toml_text import spelled

if TYPE_CHECKING:
    from orchestrator.settings.resolution import Settings

json_option = click.option("--json", "as_json", is_flag=True, help="Print the document.")

path_argument = click.argument("path", type=Suggested(*(setting.path for setting in SETTINGS)))

_NEGATIVE = re.compile(r"-\d+(\.\d+)?[A-Za-z]{0,3}", re.ASCII)
"""Also with a unit: that it is too small is for the setting to say."""


class _TakesNegativeNumbers(click.Command):
    """A command whose last argument may be a negative number, which is no option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        numbers = [arg for arg in args if _NEGATIVE.fullmatch(arg)]
        if len(numbers) == 1 and "--" not in args:
            args = [*(arg for arg in args if arg not in numbers), "--", *numbers]
        return super().parse_args(ctx, args)


@click.group("settings")
def command() -> None:
    """Settings: default < user file < project file < environment < flag < set while running."""


@command.command("list")
@json_option
@click.pass_obj
def list_(front: Front, as_json: bool) -> None:
    """All of them, with value and source."""
    settings = front.settings.all()
    if as_json:
        front.output.print_json(settings_document(settings))
        return
    for setting in settings:
        front.output.say(f"{setting.path} = {_written(setting.value)}  [{setting.source}]  {setting.help}")


@command.command("get")
@path_argument
@json_option
@click.pass_obj
def get(front: Front, path: str, as_json: bool) -> None:
    """One of them: value, default, source, and what it shadows."""
    setting = front.settings.explain(path)
    if as_json:
        _print_document(front, setting)
        return
    front.output.say(f"{setting.path} = {_written(setting.value)}  [{setting.source}]")
    for source, value in setting.shadowed:
        front.output.say(f"  shadows {_written(value)}  [{source}]")
    front.output.say(f"  default {_written(setting.default)}; {setting.type}{f' in {setting.unit}' if setting.unit else ''}")
    front.output.say(f"  {setting.help}")
    for way in (setting.flag, setting.env):
        if way:
            front.output.say(f"  {way}")


@command.command("set", cls=_TakesNegativeNumbers)
@path_argument
@click.argument("value")
@file_options
@json_option
@click.pass_obj
def set_(front: Front, path: str, value: str, project: bool, as_json: bool) -> None:
    """Set PATH to VALUE in the user's file, or in the project's; nothing else in it changes.

    PATH is a setting (limits.idle_timeout) or an agent's (agents.NAME.model, agents.NAME.limits.idle_timeout). VALUE is written as after
    --set: as in TOML, or as it is. A file that is not there is made. With --json: what `settings get PATH --json` says then.
    """
    done = edited(front, {path: value}, project=project)
    setting = _what_counts(done.settings, path, changed=done.accepted is False)
    tell(front, done, setting)
    _print(front, setting, as_json=as_json)


@command.command("unset")
@path_argument
@file_options
@json_option
@click.pass_obj
def unset(front: Front, path: str, project: bool, as_json: bool) -> None:
    """Take PATH out of the user's file, or out of the project's; nothing else in it changes."""
    from orchestrator.settings.editing import edit, unsetting_key

    done = edit(front.sources, unsetting_key(path), project=project)
    setting = _what_counts(done.settings, path, changed=done.changed)
    if not done.changed:
        front.output.notice(f"{done.file} does not set {path}")
    tell(front, done, None)
    _print(front, setting, as_json=as_json)


def _what_counts(settings: Settings, path: str, *, changed: bool) -> Explained:
    """What is said of the path now: nothing, of a key that nothing declares and that was the last of its name or stands where it does not count."""
    try:
        return settings.explain(path)
    except ConfigError:
        if not changed:
            raise
        return Explained(path, None, None, "default", (), "text", "Set nowhere that counts.")


def _print(front: Front, setting: Explained, *, as_json: bool) -> None:
    if as_json:
        _print_document(front, setting)
    else:
        front.output.say(f"{setting.path} = {_written(setting.value)}  [{setting.source}]")


def _print_document(front: Front, setting: Explained) -> None:
    front.output.print_json(setting_document(setting))


def _written(value: object) -> str:
    return "(unset)" if value is None else value if isinstance(value, str) else spelled(value)
