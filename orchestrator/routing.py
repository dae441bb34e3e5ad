"""Who gets a turn: flag, then the agent that waits for a reply, what is pinned, the rules, the primary (page 2). One pure decision from facts and rules."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
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
    handed_over: Reason | None = None
    """Set instead where the primary gave the turn away: by which rule, and what it did."""
    pinned: Pin | None = None
    """Counts where no flag chose, and no question is open."""


@dataclass(frozen=True, slots=True)
class Sensed:
    """A signal, and the name of the plugin that gave it."""

    plugin: str
    signal: Signal


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the primary's model said when it was asked whether a prompt is beyond it."""

    beyond: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class RouteFacts:
    """What the routing looks at."""

    choice: Choice
    asking_agent: str | None
    """The one whose question is open, `None` when the session does not wait for a reply."""
    asking_configured: bool
    primary: str | None
    escalation: str | None
    signals: tuple[Sensed, ...] = ()
    repeats: int | None = None
    """The turn in which the user asked the same."""
    verdict: Verdict | None = None
    """The classifier's, where it was asked and said something."""

    @property
    def is_open(self) -> bool:
        """Whether nothing goes before what is seen in the prompt, and there is somebody else to give the turn to."""
        choice = self.choice
        chosen = choice.handed_over or choice.role or choice.agent or self.asking_agent or choice.pinned
        return not chosen and self.escalation is not None


@dataclass(frozen=True, slots=True)
class Rules:
    """How what is seen in a prompt is weighed."""

    threshold: float = 1.0
    """0 = signals decide nothing."""
    factors: Mapping[str, float] = field(default_factory=dict)
    """By the signal's name; 1 where there is none."""
    repeated_prompts: int = 0
    """Among how many of the last prompts one that asks the same is looked for; 0 = none."""
    classifier: bool = False
    """Whether the primary's model is asked where nothing else decides."""
    classifier_timeout: float = 20.0
    """Seconds that it has for that."""


@dataclass(frozen=True, slots=True)
class Route:
    """The agent that gets the turn, the part it plays, and why."""

    role: Role
    agent: str
    reasons: tuple[Reason, ...]
    brief: str | None = None
    """Set where a rule hands a primary turn over before its agent is called: with this brief, to the escalation agent."""
    asks_classifier: bool = False
    """Whether the primary's model is to say, before it answers, that the turn is beyond it."""


def rules_of(
    threshold: float, factors: Iterable[str], *, source: str, repeated_prompts: int = 0, classifier: bool = False, classifier_timeout: float = 20.0
) -> Rules:
    """The rules as they are configured. Raises `ConfigError` for a factor that is not NAME=FACTOR."""
    return Rules(threshold, dict(_factor(text, source) for text in factors), repeated_prompts, classifier, classifier_timeout)


def _factor(text: str, source: str) -> tuple[str, float]:
    name, _, number = text.rpartition("=")
    try:
        factor = float(number)
    except ValueError:
        factor = math.nan
    if not name.strip() or not math.isfinite(factor):
        raise ConfigError(f"routing.factors ({source}): {text!r} is not usable; expected NAME=FACTOR", hint='as in ["code=2", "paths=0.5"]')
    return name.strip(), factor


def route(facts: RouteFacts, rules: Rules) -> Route:
    """Page 2's order, first match wins.

    Raises `UsageError` where the flags contradict each other, `ConfigError` where a role has no agent.
    """
    choice = facts.choice
    if choice.handed_over is not None:
        return Route(Role.ESCALATION, _agent_of(Role.ESCALATION, facts.escalation), (choice.handed_over,))
    if choice.role is not None or choice.agent is not None:
        return _by_flag(facts)
    if facts.asking_agent is not None:
        return _reply(facts, facts.asking_agent)
    if choice.pinned is not None:
        return _by_pin(choice.pinned, facts)
    return _by_what_is_seen(facts, rules)


def _by_what_is_seen(facts: RouteFacts, rules: Rules) -> Route:
    total = round(sum(_weight(sensed, rules) for sensed in facts.signals), 9)  # 0.6 and 0.3 are 0.9
    counts = bool(facts.signals) and rules.threshold > 0
    if facts.escalation is not None and counts and total >= rules.threshold:
        detail = f"signals weigh {total:g}, and {rules.threshold:g} is enough: {_named(facts.signals, rules)}"
        return Route(Role.ESCALATION, facts.escalation, (Reason("rules", detail),))
    primary = _agent_of(Role.PRIMARY, facts.primary)
    if facts.is_open and rules.repeated_prompts and facts.repeats is not None:
        brief = f"The user asked this before, in turn {facts.repeats}, and asks it again: what came of it there did not settle it."
        return Route(Role.PRIMARY, primary, (Reason("repeated_prompt", f"the user asked the same in turn {facts.repeats}"),), brief)
    if facts.is_open and rules.classifier and facts.verdict is not None:
        return _by_verdict(primary, facts.verdict)
    remark = f"; signals weigh {total:g}, and {rules.threshold:g} would be enough: {_named(facts.signals, rules)}" if counts else ""
    reason = Reason("default", f"nothing asked for another agent{remark}")
    return Route(Role.PRIMARY, primary, (reason,), asks_classifier=facts.is_open and rules.classifier)


def _by_verdict(primary: str, verdict: Verdict) -> Route:
    why = f": {one_line(verdict.why, _MOST_DETAIL)}" if verdict.why.strip() else ""
    if not verdict.beyond:
        return Route(Role.PRIMARY, primary, (Reason("classifier", f"{primary!r} took it to be within its reach{why}"),))
    said = f"{primary!r} took it to be beyond it{why}"
    return Route(Role.PRIMARY, primary, (Reason("classifier", said),), f"Before it began, {said}")


def _weight(sensed: Sensed, rules: Rules) -> float:
    return sensed.signal.weight * rules.factors.get(sensed.signal.name, 1.0)


def _named(signals: Iterable[Sensed], rules: Rules) -> str:
    """The signals that count, the heaviest first."""
    weighed = sorted(((_weight(sensed, rules), sensed) for sensed in signals), key=lambda one: -one[0])
    return "; ".join(_named_one(weight, sensed) for weight, sensed in weighed[:_MOST_NAMED] if weight)


def _named_one(weight: float, sensed: Sensed) -> str:
    detail = f", {one_line(sensed.signal.detail, _MOST_DETAIL)}" if sensed.signal.detail.strip() else ""
    return f"{sensed.signal.name} {weight:+g} ({one_line(sensed.plugin, 60)}{detail})"


def _by_flag(facts: RouteFacts) -> Route:
    choice, primary = facts.choice, facts.primary
    role = choice.role or (Role.PRIMARY if choice.agent == primary else Role.ESCALATION)
    if choice.agent is not None:
        if role is Role.ESCALATION and choice.agent == primary and primary != facts.escalation:
            raise UsageError(f"{choice.agent!r} is the primary agent, it cannot take an escalation", hint="leave out --escalate, or name another agent")
        return Route(role, choice.agent, (Reason("flag", f"--agent {choice.agent}"),))
    if role is Role.PRIMARY:
        return Route(role, _agent_of(role, primary), (Reason("flag", "--primary"),))
    asking = facts.asking_agent
    if asking is not None and facts.asking_configured:
        return Route(role, asking, (Reason("flag", "--escalate"), Reason("waiting", f"{asking!r} asked, this is the reply")))
    return Route(role, _agent_of(role, facts.escalation), (Reason("flag", "--escalate"),))


def _reply(facts: RouteFacts, asking: str) -> Route:
    """A reply goes to the agent that asked; where that one is no longer configured, to the one that took its place."""
    if facts.asking_configured:
        return Route(Role.ESCALATION, asking, (Reason("waiting", f"{asking!r} asked, this is the reply"),))
    successor = _agent_of(Role.ESCALATION, facts.escalation)
    return Route(Role.ESCALATION, successor, (Reason("waiting", f"{asking!r} asked but is no longer configured; {successor!r} takes its place"),))


def _by_pin(pin: Pin, facts: RouteFacts) -> Route:
    agent = pin.agent or _agent_of(pin.role, facts.primary if pin.role is Role.PRIMARY else facts.escalation)
    return Route(pin.role, agent, (Reason("pinned", f"{agent!r} was chosen until further notice"),))


def _agent_of(role: Role, name: str | None) -> str:
    if name is None:
        raise ConfigError(f"no {role} agent is configured", hint=f'name one: {role} = "NAME" in the configuration, with its table [agents.NAME]')
    return name
