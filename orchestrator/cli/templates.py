"""`escalera templates`: the texts that agents are told, and what stands in for them."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

import click

from orchestrator.cli.front import Front
from orchestrator.templates import Override, Template, built_in_text

if TYPE_CHECKING:
    from orchestrator.documents.kinds.settings import IgnoredTemplate, TemplateObject
    from orchestrator.templates import Templates


@click.group("templates")
def command() -> None:
    """The texts that agents are told, each of which a file can stand in for."""


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print the document.")
@click.pass_obj
def list_(front: Front, as_json: bool) -> None:
    """Each template with the file that is used, and the files that are not, with the reason.

    A file NAME.jinja in the folder `templates` beside the user's configuration goes before one in the project's
    `.escalera/templates`, that before a plugin's, and all of them before the built-in one.
    """
    templates = _templates(front)
    if as_json:
        found = [_template_object(template) for template in templates.all()]
        unknown = [_ignored_object(override) for override in templates.unknown()]
        front.output.print_json({"format": "escalera.templates/1", "templates": found, "unknown": unknown})
        return
    for template in templates.all():
        front.output.say(f"{template.name}  {_where(template)}  (given: {', '.join(template.values) or 'nothing'})")
        for override in template.ignored:
            front.output.say(f"  not used: {override.path}: {override.problem or 'another one goes before it'}")
    for override in templates.unknown():
        front.output.say(f"of no template: {override.path}" + (f": {override.problem}" if override.problem else ""))


@command.command("show")
@click.argument("name")
@click.pass_obj
def show(front: Front, name: str) -> None:
    """The template NAME as it is used."""
    front.output.say(_templates(front).get(name.removesuffix(".jinja")).text.rstrip("\n"))


@command.command("diff")
@click.argument("name")
@click.pass_obj
def diff(front: Front, name: str) -> None:
    """What the template NAME as it is used has changed in the built-in one; nothing where that is used."""
    template = _templates(front).get(name.removesuffix(".jinja"))
    built_in = built_in_text(template.name).splitlines()
    for line in difflib.unified_diff(built_in, template.text.splitlines(), f"built-in {template.name}", _where(template), lineterm=""):
        front.output.say(line)


def _templates(front: Front) -> Templates:
    project = front.project(front.workspace)
    if project.notice is not None:
        front.tell_once(project.notice)
    return front.templates(project)


def _where(template: Template) -> str:
    if template.origin == "built-in":
        return template.origin
    return f"{template.origin}{f' {template.plugin}' if template.plugin else ''}: {template.path}"


def _template_object(template: Template) -> TemplateObject:
    return {
        "name": template.name,
        "origin": template.origin,
        "path": str(template.path),
        "plugin": template.plugin,
        "values": list(template.values),
        "ignored": [_ignored_object(override) for override in template.ignored],
    }


def _ignored_object(override: Override) -> IgnoredTemplate:
    return {"origin": override.origin, "path": str(override.path), "plugin": override.plugin, "problem": override.problem}
