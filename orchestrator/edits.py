"""Keys of configuration files that commands and the server set, checked also by what the providers of agents take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from orchestrator.premises import Premises

if TYPE_CHECKING:
    from orchestrator.providers import ProviderKind
    from orchestrator.settings.editing import Edit
    from orchestrator.settings.problems import Problem
    from orchestrator.settings.resolution import Settings


def edited(premises: Premises, values: Mapping[str, str], *, project: bool) -> Edit:
    """Set these paths in a file; options of agents are checked by what their provider takes, and that by what is installed."""
    from orchestrator.settings.editing import edit, setting_keys
    from orchestrator.settings.values import path_parts

    change = setting_keys(values, workspace=premises.cwd)
    of_agents = [path for path in values if path_parts(path)[0] == "agents"]
    plugins = premises.plugins_at_hand() if of_agents else None
    return edit(premises.sources, change, project=project, check=_option_check(plugins.kinds(), of_agents) if plugins else None)


def added(premises: Premises, name: str, values: Mapping[str, str], *, project: bool) -> Edit:
    """Write the table of a new agent, whole as its provider wants it."""
    from orchestrator.settings.editing import adding_agent, edit

    premises.plugins.kind(values["provider"])
    change = adding_agent(name, values, known=premises.settings.agents, workspace=premises.cwd)
    return edit(premises.sources, change, project=project, check=_option_check(premises.plugins.kinds(), [f"agents.{name}"]))


def _option_check(kinds: Mapping[str, ProviderKind], paths: Iterable[str]) -> Callable[[Settings], list[Problem]]:
    """Problems of what is being set, and of the tables around it; that another option is missing still, or is one of another provider, is no reason."""

    from orchestrator.agents import agent_problems, kind_problems
    from orchestrator.settings.values import path_parts

    keys = [path_parts(path) for path in paths]

    def check(settings: Settings) -> list[Problem]:
        agents = settings.agents.values()
        found = [*kind_problems(agents, kinds), *agent_problems(agents, kinds)]
        return [problem for problem in found if any(_lies_on_one_way(path_parts(problem.path), path) for path in keys)]

    return check


def _lies_on_one_way(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether one path is the other, or leads to it."""
    return all(part == its for part, its in zip(one, other, strict=False))
