"""Configuration files changed by a command: which file, checked how, and what there is to say about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from orchestrator.cli.front import Front
from orchestrator.settings.files import shown_path

if TYPE_CHECKING:
    from orchestrator.settings.editing import Edit
    from orchestrator.settings.resolution import Explained


file_options = click.option("--project/--user", default=False, help="The project's escalera.toml, or the user's own file (the default).")


def tell(front: Front, done: Edit, setting: Explained | None) -> None:
    """What the user should know beside the value."""
    for problem in done.problems:
        front.output.notice(f"still wrong: {problem}")
    front.tell_once(*done.settings.notices)
    if done.accepted and done.changed:
        front.output.notice(f"{shown_path(done.file)} is accepted with this change")
    if setting is not None and any(source == f"file:{done.file}" for source, _ in setting.shadowed):
        front.output.notice(f"{setting.source} goes before {shown_path(done.file)}")
