"""Who gets a turn: flag, then the agent that waits for a reply, then the primary (page 2)."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from orchestrator.errors import ConfigError, UsageError
from orchestrator.session import Reason, Role


@dataclass(frozen=True, slots=True)
class Choice:
    """What the user chose on the command line; both absent means: decide for me."""

    role: Role | None = None
    agent: str | None = None
    handed_over: str | None = None
    """Set instead where the primary gave the turn away: what it did, for the reason."""


@dataclass(frozen=True, slots=True)
class Route:
    """The agent that gets the turn, the part it plays, and why."""

    role: Role
    agent: str
    reasons: tuple[Reason, ...]


def route(choice: Choice, *, asking_agent: str | None, primary: str | None, escalation: str | None, configured: Container[str]) -> Route:
    """Page 2's order, first match wins.

    `asking_agent` is the one whose question is open, `None` when the session does not wait for a reply.
    Raises `UsageError` where the flags contradict each other, `ConfigError` where a role has no agent.
    """
    if choice.handed_over is not None:
        return Route(Role.ESCALATION, _agent_of(Role.ESCALATION, escalation), (Reason("self_escalation", choice.handed_over),))
    if choice.role is not None or choice.agent is not None:
        return _by_flag(choice, asking_agent=asking_agent, primary=primary, escalation=escalation, configured=configured)
    if asking_agent is not None:
        return _reply(asking_agent, escalation, configured)
    return Route(Role.PRIMARY, _agent_of(Role.PRIMARY, primary), (Reason("default", "nothing asked for another agent"),))


def _by_flag(choice: Choice, *, asking_agent: str | None, primary: str | None, escalation: str | None, configured: Container[str]) -> Route:
    role = choice.role or (Role.PRIMARY if choice.agent == primary else Role.ESCALATION)
    if choice.agent is not None:
        if role is Role.ESCALATION and choice.agent == primary and primary != escalation:
            raise UsageError(f"{choice.agent!r} is the primary agent, it cannot take an escalation", hint="leave out --escalate, or name another agent")
        return Route(role, choice.agent, (Reason("flag", f"--agent {choice.agent}"),))
    if role is Role.PRIMARY:
        return Route(role, _agent_of(role, primary), (Reason("flag", "--primary"),))
    if asking_agent is not None and asking_agent in configured:
        return Route(role, asking_agent, (Reason("flag", "--escalate"), Reason("waiting", f"{asking_agent!r} asked, this is the reply")))
    return Route(role, _agent_of(role, escalation), (Reason("flag", "--escalate"),))


def _reply(asking_agent: str, escalation: str | None, configured: Container[str]) -> Route:
    """A reply goes to the agent that asked; where that one is no longer configured, to the one that took its place."""
    if asking_agent in configured:
        return Route(Role.ESCALATION, asking_agent, (Reason("waiting", f"{asking_agent!r} asked, this is the reply"),))
    successor = _agent_of(Role.ESCALATION, escalation)
    return Route(Role.ESCALATION, successor, (Reason("waiting", f"{asking_agent!r} asked but is no longer configured; {successor!r} takes its place"),))


def _agent_of(role: Role, name: str | None) -> str:
    if name is None:
        raise ConfigError(f"no {role} agent is configured", hint=f'name one: {role} = "NAME" in the configuration, with its table [agents.NAME]')
    return name
