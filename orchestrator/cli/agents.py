"""`escalera agents`: who is configured, and whether it can be asked."""

from __future__ import annotations

from typing import Any

import click

from orchestrator.cli.front import Front
from orchestrator.errors import ConfigError, EscaleraError


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
@click.option("--json", "as_json", is_flag=True, help="Print the document.")
@click.pass_obj
def check(front: Front, name: str | None, as_json: bool) -> int:
    """Whether each agent, or the one named, answers; spends no tokens where that can be avoided."""
    names = [front.settings.agent(name).name] if name is not None else list(front.settings.agents)
    results = [_checked(front, name) for name in names]
    if as_json:
        front.output.print_json({"format": "escalera.checks/1", "agents": results})
    else:
        for result in results:
            hint = f" ({result['hint']})" if result["hint"] else ""
            front.output.say(f"{result['name']}: {result['status']}{': ' + result['detail'] if result['detail'] else ''}{hint}")
    return 0 if all(result["ok"] for result in results) else 1


def _agent_object(front: Front, name: str) -> dict[str, Any]:
    config = front.settings.agent(name)
    roles = [role for role in ("primary", "escalation") if front.settings.explain(role).value == name]
    problem: str | None = None
    try:
        front.crew(front.workspace).agent(name)
    except EscaleraError as error:
        problem = error.message
    return {"name": name, "roles": roles, "provider": config.provider, "model": config.model, "source": config.source, "problem": problem}


def _checked(front: Front, name: str) -> dict[str, Any]:
    try:
        result = front.crew(front.workspace).agent(name).provider.check()
    except ConfigError as error:
        return {"name": name, "ok": False, "status": "error", "detail": error.message, "hint": error.hint}
    except EscaleraError as error:
        return {"name": name, "ok": False, "status": "not_installed", "detail": error.message, "hint": error.hint}
    return {"name": name, "ok": result.ok, "status": result.status, "detail": result.detail, "hint": result.hint}
