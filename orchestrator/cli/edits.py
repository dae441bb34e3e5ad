"""Configuration files changed by a command: which file, checked how, and what there is to say about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import click

from orchestrator.cli.front import Front
from orchestrator.settings.files import shown_path

if TYPE_CHECKING:
    from orchestrator.providers import ProviderKind
    from orchestrator.settings.editing import Edit
    from orchestrator.settings.problems import Problem
    from orchestrator.settings.resolution import Explained, Settings


file_options = click.option("--project/--user", default=False, help="The project's escalera.toml, or the user's own file (the default).")


def edited(front: Front, values: Mapping[str, str], *, project: bool) -> Edit:
    """Set these paths in a file; options of agents are checked by what their provider takes, as far as it is installed."""
    from orchestrator.settings.editing import edit, setting_keys

    change = setting_keys(values, workspace=front.cwd)
    of_agents = [path for path in values if path.startswith("agents.")]
    plugins = front.plugins_at_hand() if of_agents else None
    return edit(front.sources, change, project=project, check=_option_check(plugins.kinds(), of_agents) if plugins else None)


def added(front: Front, name: str, values: Mapping[str, str], *, project: bool) -> Edit:
    """Write the table of a new agent, whole as its provider wants it."""
    from orchestrator.settings.editing import adding_agent, edit

    front.plugins.kind(values["provider"])
    change = adding_agent(name, values, known=front.settings.agents, workspace=front.cwd)
    return edit(front.sources, change, project=project, check=_option_check(front.plugins.kinds(), [f"agents.{name}"]))


def tell(front: Front, done: Edit, setting: Explained | None) -> None:
    """What the user should know beside the value."""
    for problem in done.problems:
        front.output.notice(f"still wrong: {problem}")
    front.tell_once(*done.settings.notices)
    if done.accepted and done.changed:
        front.output.notice(f"{shown_path(done.file)} is accepted with this change")
    if setting is not None and any(source == f"file:{done.file}" for source, _ in setting.shadowed):
        front.output.notice(f"{setting.source} goes before {shown_path(done.file)}")


def _option_check(kinds: Mapping[str, ProviderKind], paths: Iterable[str]) -> Callable[[Settings], list[Problem]]:
    """Problems of what is being set; that another option is missing still, or is one of another provider, is no reason to refuse it."""

    from orchestrator.agents import agent_problems

    def check(settings: Settings) -> list[Problem]:
        found = agent_problems(settings.agents.values(), kinds)
        return [problem for problem in found if any(f"{problem.path}.".startswith(f"{path}.") for path in paths)]

    return check
