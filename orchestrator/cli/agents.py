"""`escalera agents`: who is configured, and whether it can be asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from orchestrator.cli.checks import check_object, checked_agents, said
from orchestrator.cli.front import Front
from orchestrator.errors import EscaleraError
from orchestrator.providers import CheckResult
from orchestrator.session import Role
from orchestrator.settings.agent_config import AgentConfig

if TYPE_CHECKING:
    from orchestrator.documents.kinds import AgentObject


@click.group("agents")
def command() -> None:
    """The configured agents."""


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print the document.")
@click.pass_obj
def list_(front: Front, as_json: bool) -> None:
    """Agents with role, provider and model; one whose plugin is missing says so."""
    agents = [_agent_object(front, name) for name in front.settings.agents]
    if as_json:
        front.output.print_json({"format": "escalera.agents/1", "agents": agents})
        return
    front.greet()
    for agent in agents:
        roles = f" [{', '.join(agent['roles'])}]" if agent["roles"] else ""
        problem = f"  — {agent['problem']}" if agent["problem"] else ""
        front.output.say(f"{agent['name']}{roles}  {agent['provider']}  {agent['model'] or ''}{problem}".rstrip())


@command.command("check")
@click.argument("name", required=False)
@click.option("--timeout", "limit", default="20s", show_default=True, metavar="TIME", help="How long to wait for them, as in 5s.")
@click.option("--json", "as_json", is_flag=True, help="Print the document.")
@click.pass_obj
def check(front: Front, name: str | None, limit: str, as_json: bool) -> int:
    """Whether each agent, or the one named, can work; all are asked at once, and no tokens are spent where that can be avoided.

    Says works, not_installed, not_logged_in, no_credentials, no_region, unknown_model, refused, quota or error, and what to do.
    """
    agents = [front.settings.agent(name)] if name is not None else list(front.settings.agents.values())
    results = checked_agents(front, agents, seconds=front.duration(limit, "--timeout"))
    if as_json:
        front.output.print_json({"format": "escalera.checks/1", "agents": [check_object(agent, results[agent.name]) for agent in agents]})
    else:
        _print_checks(front, agents, results)
    return 0 if all(result.ok for result in results.values()) else 1


def _print_checks(front: Front, agents: Sequence[AgentConfig], results: Mapping[str, CheckResult]) -> None:
    width = max(map(len, results), default=0)
    for agent in agents:
        result = results[agent.name]
        front.output.say(f"{agent.name.ljust(width)}  {said(result)}")
        if result.hint and not result.ok:
            front.output.say(f"{''.ljust(width)}  next: {result.hint}")


def _agent_object(front: Front, name: str) -> AgentObject:
    config = front.settings.agent(name)
    roles = [role for role in Role if front.settings.explain(role).value == name]
    problem: str | None = None
    try:
        front.crew(front.workspace).agent(name)
    except EscaleraError as error:
        problem = error.message
    return {"name": name, "roles": roles, "provider": config.provider, "model": config.model, "source": config.source, "problem": problem}
