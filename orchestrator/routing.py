"""Who gets a turn: flag, then the agent that waits for a reply, what is pinned, the rules, the primary (page 2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field

from orchestrator.errors import ConfigError, UsageError
from orchestrator.hookspecs import Signal
from orchestrator.quoting import one_line
from orchestrator.session import Reason, Role

_MOST_NAMED = 8
_MOST_DETAIL = 120


@dataclass(frozen=True, slots=True)
class Pin:
    """A choice that holds for all turns of a chat until it is changed."""

    role: Role
    agent: str | None = None
    """`None` for whoever has the role."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What the user chose for this turn; all absent means: decide for me."""

    role: Role | None = None
    agent: str | None = None
    handed_over: str | None = None
    """Set instead where the primary gave the turn away: what it did, for the reason."""
    pinned: Pin | None = None
    """Counts where no flag chose, and no question is open."""


@dataclass(frozen=True, slots=True)
class Route:
    """The agent that gets the turn, the part it plays, and why."""

    role: Role
    agent: str
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class Rules:
    """How signals about a prompt are weighed."""

    threshold: float = 1.0
    """0 = signals decide nothing."""
    factors: Mapping[str, float] = field(default_factory=dict)
    """By the signal's name; 1 where there is none."""


def rules_of(threshold: float, factors: Iterable[str], *, source: str) -> Rules:
    """The rules as they are configured. Raises `ConfigError` for a factor that is not NAME=FACTOR."""
    return Rules(threshold, dict(_factor(text, source) for text in factors))


def _factor(text: str, source: str) -> tuple[str, float]:
    name, _, number = text.rpartition("=")
    try:
        factor = float(number)
    except ValueError:
        factor = math.nan
    if not name.strip() or not math.isfinite(factor):
        raise ConfigError(f"routing.factors ({source}): {text!r} is not usable; expected NAME=FACTOR", hint='as in ["code=2", "paths=0.5"]')
    return name.strip(), factor


Opinion = Callable[[], Reason | None]
"""What the rules say, asked only when nothing goes before them: why the escalation agent should have the turn, or nothing."""


def route(
    choice: Choice, *, asking_agent: str | None, primary: str | None, escalation: str | None, configured: Container[str], opinion: Opinion = lambda: None
) -> Route:
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
    if choice.pinned is not None:
        return _by_pin(choice.pinned, primary=primary, escalation=escalation)
    if escalation is not None and (reason := opinion()) is not None:
        return Route(Role.ESCALATION, escalation, (reason,))
    return Route(Role.PRIMARY, _agent_of(Role.PRIMARY, primary), (Reason("default", "nothing asked for another agent"),))


def weigh(signals: Iterable[tuple[str, Signal]], rules: Rules) -> Reason | None:
    """The reason `rules`, where the weights, each times its factor, reach the threshold; else no opinion.

    Each signal comes with the name of the plugin that gave it.
    """
    weighed = [(signal.weight * rules.factors.get(signal.name, 1.0), plugin, signal) for plugin, signal in signals]
    total = sum(weight for weight, _, _ in weighed)
    if not weighed or total < rules.threshold:
        return None
    named = "; ".join(_named(*one) for one in sorted(weighed, key=lambda one: -one[0])[:_MOST_NAMED] if one[0])
    return Reason("rules", f"signals weigh {total:g}, and {rules.threshold:g} is enough: {named}")


def _named(weight: float, plugin: str, signal: Signal) -> str:
    detail = f", {one_line(signal.detail, _MOST_DETAIL)}" if signal.detail.strip() else ""
    return f"{signal.name} {weight:+g} ({one_line(plugin, 60)}{detail})"


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


def _by_pin(pin: Pin, *, primary: str | None, escalation: str | None) -> Route:
    agent = pin.agent or _agent_of(pin.role, primary if pin.role is Role.PRIMARY else escalation)
    return Route(pin.role, agent, (Reason("pinned", f"{agent!r} was chosen until further notice"),))


def _agent_of(role: Role, name: str | None) -> str:
    if name is None:
        raise ConfigError(f"no {role} agent is configured", hint=f'name one: {role} = "NAME" in the configuration, with its table [agents.NAME]')
    return name
