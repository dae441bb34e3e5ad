"""`escalera agents`: who is configured, and whether it can be asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from orchestrator.cli.checks import check_object, checked_agents, checked_servers, said, servers_of
from orchestrator.cli.edits import file_options, tell
from orchestrator.cli.front import Front
from orchestrator.edits import added, edited
from orchestrator.errors import EscaleraError, UsageError
from orchestrator.providers import CheckResult
from orchestrator.session import Role
from orchestrator.settings.agent_config import AgentConfig

if TYPE_CHECKING:
    from orchestrator.crew import Crew
    from orchestrator.documents.kinds.agents import AgentObject
    from orchestrator.settings.resolution import Settings


@click.group("agents")
def command() -> None:
    """The configured agents."""


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print the document.")
@click.pass_obj
def list_(front: Front, as_json: bool) -> None:
    """Agents with role, provider and model; one whose plugin is missing says so."""
    crew = front.crew(front.workspace)
    agents = [_agent_object(front.settings, crew, name) for name in front.settings.agents]
    if as_json:
        front.output.print_json({"format": "escalera.agents/1", "agents": agents})
        return
    front.greet()
    for agent in agents:
        _print_line(front, agent)


@command.command("check")
@click.argument("name", required=False)
@click.option("--timeout", "limit", default="20s", show_default=True, metavar="TIME", help="How long to wait for them, as in 5s.")
@click.option("--json", "as_json", is_flag=True, help="Print the document.")
@click.pass_obj
def check(front: Front, name: str | None, limit: str, as_json: bool) -> int:
    """Whether each agent, or the one named, can work; all are asked at once, and no tokens are spent where that can be avoided.

    The MCP servers that have tools for them are started, and list their tools.

    Says works, not_installed, not_logged_in, no_credentials, no_region, unknown_model, refused, unreachable, quota or error, and what to do.
    """
    agents = [front.settings.agent(name)] if name is not None else list(front.settings.agents.values())
    seconds = front.duration(limit, "--timeout")
    results, servers = checked_agents(front, agents, seconds=seconds), checked_servers(front, agents, seconds=seconds)
    if as_json:
        checks = [check_object(agent, results[agent.name]) for agent in agents]
        front.output.print_json({"format": "escalera.checks/1", "agents": checks, "mcp_servers": servers})
    else:
        _print_checks(front, agents, results)
        for server in servers:
            front.output.say(f"{server['name']} (MCP)  {server['problem'] or 'works: ' + (', '.join(server['tools']) or 'no tools')}")
    return 0 if all(result.ok for result in results.values()) and all(server["ok"] for server in servers) else 1


@command.command("use")
@click.argument("name")
@click.option("--as", "role", type=click.Choice([role.value for role in Role]), required=True, help="The role it takes.")
@file_options
@click.option("--json", "as_json", is_flag=True, help="Print the document.")
@click.pass_obj
def use(front: Front, name: str, role: str, project: bool, as_json: bool) -> None:
    """Give the agent NAME a role, from the next turn on; a running session goes on with it.

    An agent that has the other role gives that to the one whose role it takes. Written to the user's file, or to the project's.
    """
    front.settings.agent(name)
    done = edited(front, _roles(front.settings, name, role), project=project)
    tell(front, done, done.settings.explain(role))
    _print_agent(front, done.settings, name, as_json=as_json)


@command.command("add")
@click.argument("name")
@click.option("--provider", "kind", required=True, metavar="KIND", help="The kind of its provider, as in `escalera plugins list`.")
@click.option("--model", metavar="MODEL", help="Its model, as the provider calls it.")
@click.option("--option", "options", multiple=True, metavar="KEY=VALUE", help="An option of its provider, such as base_url=…; may be repeated.")
@file_options
@click.option("--json", "as_json", is_flag=True, help="Print the document.")
@click.pass_obj
def add(front: Front, name: str, kind: str, model: str | None, options: Sequence[str], project: bool, as_json: bool) -> None:
    """Configure a new agent NAME, with options that its provider takes; none of the same name is changed.

    A secret is given as --option 'api_key={ env = "NAME" }'. Written to the user's file, or to the project's.
    """
    done = added(front, name, {"provider": kind, **({} if model is None else {"model": model}), **_named(options)}, project=project)
    tell(front, done, None)
    _print_agent(front, done.meant, name, with_secrets=done.accepted is not False, as_json=as_json)
    if not any(done.settings.explain(role).value == name for role in Role):
        front.output.notice(f"to have it asked: escalera agents use {name} --as primary, or --as escalation")


def _roles(settings: Settings, name: str, role: str) -> dict[str, str]:
    """The roles to set: both where the agent leaves the other one, since no agent has two."""
    (other,) = (known.value for known in Role if known.value != role)
    before = settings.explain(role).value
    swap = settings.explain(other).value == name and before not in (None, name)
    return {role: name, **({other: before} if swap else {})}


def _named(options: Sequence[str]) -> dict[str, str]:
    named: dict[str, str] = {}
    for position, option in enumerate(options, start=1):
        key, equals, value = option.partition("=")
        if not equals or not key.strip():
            # What stands there may be a secret whose name was forgotten, so it is not repeated.
            raise UsageError(f"--option: number {position} is not of the form KEY=VALUE")
        if key.strip() in named or key.strip() in ("provider", "model"):
            raise UsageError(f"--option: {key.strip()!r} is given twice")
        named[key.strip()] = value
    return named


def _print_agent(front: Front, settings: Settings, name: str, *, as_json: bool, with_secrets: bool = True) -> None:
    agent = _agent_object(settings, front.crew(front.workspace, settings=settings, with_secrets=with_secrets), name)
    if as_json:
        front.output.print_json({"format": "escalera.agent/1", **agent})
    else:
        _print_line(front, agent)


def _print_checks(front: Front, agents: Sequence[AgentConfig], results: Mapping[str, CheckResult]) -> None:
    width = max(map(len, results), default=0)
    for agent in agents:
        result = results[agent.name]
        front.output.say(f"{agent.name.ljust(width)}  {said(result)}")
        if result.hint and not result.ok:
            front.output.say(f"{''.ljust(width)}  next: {result.hint}")


def _print_line(front: Front, agent: AgentObject) -> None:
    roles = f" [{', '.join(agent['roles'])}]" if agent["roles"] else ""
    problem = f"  — {agent['problem']}" if agent["problem"] else ""
    tools = f"  tools of {', '.join(agent['mcp_servers'])}" if agent["mcp_servers"] else ""
    front.output.say(f"{agent['name']}{roles}  {agent['provider']}  {agent['model'] or ''}{tools}{problem}".rstrip())


def _agent_object(settings: Settings, crew: Crew, name: str) -> AgentObject:
    config = settings.agent(name)
    roles = [role for role in Role if settings.explain(role).value == name]
    problem: str | None = None
    try:
        crew.agent(name)
    except EscaleraError as error:
        problem = error.message
    return {
        "name": name,
        "roles": roles,
        "provider": config.provider,
        "model": config.model,
        "source": config.source,
        "problem": problem,
        "mcp_servers": servers_of(settings, crew, name),
    }
