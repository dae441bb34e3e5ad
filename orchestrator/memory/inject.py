"""Which percepts an agent is told in a turn, and the block that tells them (page 4)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from orchestrator.messages import well_formed
from orchestrator.percepts import Inquiry, Memory, Percept, Recalled, statement_key
from orchestrator.quoting import fenced
from orchestrator.session import Role
from orchestrator.tags import neutralise
from orchestrator.templates import Templates
from orchestrator.workspaces import same_workspace


class PerceptLimits(Protocol):
    """The limits that the choice reads; `None` is unlimited, 0 is none."""

    @property
    def percept_inject_max(self) -> int | None: ...

    @property
    def percept_inject_max_bytes(self) -> int | None: ...


class GateLimits(PerceptLimits, Protocol):
    """Those, and whether only what is relevant passes."""

    @property
    def percept_relevance_gate(self) -> bool: ...


SPARE = 4
"""How many times as many percepts are looked at as may be told: smaller ones are tried where a large one does not fit."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The percepts to tell, best first, and those left out: (id, why)."""

    sent: tuple[Percept, ...]
    withheld: tuple[tuple[str, str], ...]


def choose(
    percepts: Sequence[Percept],
    *,
    agent: str,
    role: Role,
    workspace: str,
    limits: PerceptLimits,
    relevance: Mapping[str, float] | None = None,
    known: Collection[str] = (),
    extends: Collection[tuple[str, str]] = (),
) -> Chosen:
    """The percepts for `agent` in this turn.

    `relevance` is what the search with prompt and need found: a score by id. `None` lets all pass (gate off, or an empty prompt).
    `known` are ids of percepts that this very agent stated in its still-open external session, `extends` pairs of ids: (longer, shorter).
    """
    withheld: list[tuple[str, str]] = []
    meant: list[Percept] = []
    for percept in percepts:
        why = _unfit(percept, consumers_of(agent, role), workspace, relevance, known)
        if why is None:
            meant.append(percept)
        else:
            withheld.append((percept.id, why))
    return _Choice(_ranked(meant, relevance), limits, extends, withheld).made()


def chosen_of(recalled: Recalled, *, agent: str, role: Role, workspace: str, limits: PerceptLimits, stated: Collection[str] = ()) -> Chosen:
    """The choice from what was recalled; `stated` are the statements (`statement_key`) that the agent made in its still-open external session."""
    found = [percept for percept, _ in recalled.found]
    chosen = choose(
        found,
        agent=agent,
        role=role,
        workspace=workspace,
        limits=limits,
        relevance={percept.id: score for percept, score in recalled.found},
        known={percept.id for percept in found if statement_key(percept.content) in stated} if stated else (),
        extends=recalled.extends,
    )
    return Chosen(chosen.sent, (*chosen.withheld, *recalled.withheld))


def consumers_of(agent: str, role: Role) -> frozenset[str]:
    """What percepts may be meant for that this agent is told in that role."""
    return frozenset({"all", role.value, agent})


def inquiry_of(
    *, agent: str, role: Role, workspace: str, session: str | None, limits: GateLimits, prompt: str, need: str | None, explain: bool = False
) -> Inquiry:
    """What is asked of the memory for one turn; with the gate off or an empty prompt everything passes (page 4)."""
    most = limits.percept_inject_max
    text = f"{prompt}\n{need or ''}" if limits.percept_relevance_gate and prompt.strip() else None
    return Inquiry(consumers_of(agent, role), workspace, session, text, most=None if most is None or explain else SPARE * most, explain=explain)


def recalled_from(percepts: Sequence[Percept]) -> Memory:
    """A memory of just these, all of which always pass."""
    return lambda _inquiry: Recalled(tuple((percept, 1.0) for percept in percepts))


def format_percepts(percepts: Sequence[Percept], templates: Templates | None = None) -> str:
    """The block of remembered facts, fenced as data; `""` without any. Those from tool output are left out: they belong in no system message."""
    return _block("percepts", [percept for percept in percepts if percept.trust != "tool_output"], templates)


def format_tool_percepts(percepts: Sequence[Percept], templates: Templates | None = None) -> str:
    """The block of what came from tool output only, marked as such, to stand in front of the prompt."""
    return _block("tool_percepts", [percept for percept in percepts if percept.trust == "tool_output"], templates)


def _unfit(percept: Percept, names: Collection[str], workspace: str, relevance: Mapping[str, float] | None, known: Collection[str]) -> str | None:
    """Why the percept is not for this turn, or `None`."""
    if percept.consumer not in names:
        return f"meant for {percept.consumer}"
    if percept.workspace is not None and not same_workspace(percept.workspace, workspace):
        return "other workspace"
    if percept.id in known:
        return "stated by this agent"
    if relevance is not None and not percept.core and percept.id not in relevance:
        return "not relevant"
    return None


def _ranked(percepts: Sequence[Percept], relevance: Mapping[str, float] | None) -> list[Percept]:
    """By score × weight, ties by id. A core percept counts as relevant as the best match; of those, the ones go first that do match."""
    scores = relevance or {}
    best = max(scores.values(), default=0.0) or 1.0

    def rank(percept: Percept) -> tuple[float, float, str]:
        score = scores.get(percept.id, 0.0 if percept.core else best)
        return -percept.weight * (best if percept.core else score), -score if percept.core else 0.0, percept.id

    return sorted(percepts, key=rank)


def within(percepts: Sequence[Percept], limits: PerceptLimits, withheld: list[tuple[str, str]]) -> Chosen:
    """Those that fit, in their order; the others join the withheld ones."""
    return _Choice(percepts, limits, (), withheld).made()


class _Choice:
    """Goes through the ranked percepts; one that is too large is passed over and smaller ones are still tried.

    Of two where one extends the other only the longer is told, in the place of the better one; the shorter where the longer
    does not fit. Of two that say the same, the better one.
    """

    def __init__(self, ranked: Sequence[Percept], limits: PerceptLimits, extends: Collection[tuple[str, str]], withheld: list[tuple[str, str]]) -> None:
        self._ranked, self._limits, self._withheld = ranked, limits, withheld
        self._by_id = {percept.id: percept for percept in ranked}
        self._longer: dict[str, list[str]] = {}
        for longer, shorter in sorted(extends):
            if longer in self._by_id and shorter in self._by_id:
                self._longer.setdefault(shorter, []).append(longer)
        self._room = limits.percept_inject_max_bytes
        self._sent: list[Percept] = []
        self._done: set[str] = set()
        self._said: dict[str, str] = {}

    def made(self) -> Chosen:
        for percept in self._ranked:
            if percept.id not in self._done:
                self._consider(percept)
        return Chosen(tuple(self._sent), tuple(self._withheld))

    def _consider(self, percept: Percept) -> None:
        for longer in self._extensions(percept.id):
            if longer.id in self._done or self._why_not(longer) is None:
                self._settle(longer)
                if longer in self._sent:
                    self._leave_out(percept, f"extended by {longer.id}")
                    return
        self._settle(percept)

    def _settle(self, percept: Percept) -> None:
        """Tell it or leave it out, once."""
        if percept.id in self._done:
            return
        why = self._why_not(percept)
        if why is not None:
            self._leave_out(percept, why)
            return
        self._done.add(percept.id)
        self._sent.append(percept)
        self._said[statement_key(percept.content)] = percept.id
        self._room = None if self._room is None else self._room - size_of(percept)

    def _why_not(self, percept: Percept) -> str | None:
        if self._limits.percept_inject_max is not None and len(self._sent) >= self._limits.percept_inject_max:
            return "percept_inject_max"
        if (same := self._said.get(statement_key(percept.content))) is not None:
            return f"the same as {same}"
        return "percept_inject_max_bytes" if self._room is not None and size_of(percept) > self._room else None

    def _leave_out(self, percept: Percept, why: str) -> None:
        self._done.add(percept.id)
        self._withheld.append((percept.id, why))

    def _extensions(self, identity: str) -> list[Percept]:
        """Whatever extends it, or extends that; the longest first."""
        found: dict[str, None] = {}
        rest = list(self._longer.get(identity, ()))
        while rest:
            longer = rest.pop()
            if longer not in found and longer != identity:
                found[longer] = None
                rest += self._longer.get(longer, ())
        return sorted((self._by_id[longer] for longer in found), key=lambda percept: (-len(percept.content), percept.id))


def size_of(percept: Percept) -> int:
    """Bytes of its text as it is told."""
    return len(neutralise(well_formed(percept.content)).encode())


def _block(template: str, percepts: Sequence[Percept], templates: Templates | None) -> str:
    facts = fenced("\n".join(_items(percepts)))
    return (templates or Templates()).render(template, facts=facts) if facts else ""


def _items(percepts: Sequence[Percept]) -> Iterator[str]:
    """One item each; further lines are indented, so that none poses as an item of its own."""
    for percept in percepts:
        content = percept.content.strip()
        if content:
            yield "- " + "\n  ".join(content.splitlines())
