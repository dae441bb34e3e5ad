"""`escalera settings`: every setting, its value and where that comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from orchestrator.cli.front import Front
from orchestrator.settings.resolution import Explained

if TYPE_CHECKING:
    from orchestrator.documents.kinds import SettingObject

json_option = click.option("--json", "as_json", is_flag=True, help="Print the document.")


@click.group("settings")
def command() -> None:
    """Settings: default < user file < project file < environment < flag."""


@command.command("list")
@json_option
@click.pass_obj
def list_(front: Front, as_json: bool) -> None:
    """All of them, with value and source."""
    settings = front.settings.all()
    if as_json:
        front.output.print_json({"format": "escalera.settings/1", "settings": [_setting_object(setting) for setting in settings]})
        return
    for setting in settings:
        front.output.say(f"{setting.path} = {_written(setting.value)}  [{setting.source}]  {setting.help}")


@command.command("get")
@click.argument("path")
@json_option
@click.pass_obj
def get(front: Front, path: str, as_json: bool) -> None:
    """One of them: value, default, source, and what it shadows."""
    setting = front.settings.explain(path)
    if as_json:
        front.output.print_json({"format": "escalera.setting/1", **_setting_object(setting)})
        return
    front.output.say(f"{setting.path} = {_written(setting.value)}  [{setting.source}]")
    for source, value in setting.shadowed:
        front.output.say(f"  shadows {_written(value)}  [{source}]")
    front.output.say(f"  default {_written(setting.default)}; {setting.type}{f' in {setting.unit}' if setting.unit else ''}")
    front.output.say(f"  {setting.help}")
    for way in (setting.flag, setting.env):
        if way:
            front.output.say(f"  {way}")


def _setting_object(setting: Explained) -> SettingObject:
    return {
        "path": setting.path,
        "value": setting.value,
        "default": setting.default,
        "source": setting.source,
        "shadowed": [{"source": source, "value": value} for source, value in setting.shadowed],
        "type": setting.type,
        "unit": setting.unit,
        "help": setting.help,
        "flag": setting.flag,
        "env": setting.env,
    }


def _written(value: object) -> str:
    return "(unset)" if value is None else str(value)
