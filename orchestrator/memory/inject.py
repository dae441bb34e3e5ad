"""Which percepts an agent is told in a turn, and the block that tells them (page 4)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from orchestrator.messages import well_formed
from orchestrator.percepts import Percept
from orchestrator.quoting import fenced
from orchestrator.session import Role
from orchestrator.templates import Templates
from orchestrator.workspaces import same_workspace


class PerceptLimits(Protocol):
    """The limits that the choice reads; `None` is unlimited, 0 is none."""

    @property
    def percept_inject_max(self) -> int | None: ...

    @property
    def percept_inject_max_bytes(self) -> int | None: ...


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
) -> Chosen:
    """The percepts for `agent` in this turn.

    `relevance` is what the search with prompt and need found: a score by id. `None` lets all pass (gate off, or an empty prompt).
    `known` are ids of percepts that this very agent stated in its still-open external session.
    """
    withheld: list[tuple[str, str]] = []
    meant: list[Percept] = []
    for percept in percepts:
        why = _unfit(percept, {"all", role.value, agent}, workspace, relevance, known)
        if why is None:
            meant.append(percept)
        else:
            withheld.append((percept.id, why))
    return within(_ranked(meant, relevance), limits, withheld)


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
    """By score × weight, ties by id. A core percept counts as relevant as the best match."""
    scores = relevance or {}
    best = max(scores.values(), default=1.0)
    return sorted(percepts, key=lambda percept: (-percept.weight * (best if percept.core else scores.get(percept.id, best)), percept.id))


def within(percepts: Sequence[Percept], limits: PerceptLimits, withheld: list[tuple[str, str]]) -> Chosen:
    """Those that fit; why the others do not comes to `withheld`. One that is too large is passed over and smaller ones are still tried."""
    sent: list[Percept] = []
    room = limits.percept_inject_max_bytes
    for percept in percepts:
        size = len(well_formed(percept.content).encode())
        if limits.percept_inject_max is not None and len(sent) >= limits.percept_inject_max:
            withheld.append((percept.id, "percept_inject_max"))
        elif room is not None and size > room:
            withheld.append((percept.id, "percept_inject_max_bytes"))
        else:
            sent.append(percept)
            room = None if room is None else room - size
    return Chosen(tuple(sent), tuple(withheld))


def _block(template: str, percepts: Sequence[Percept], templates: Templates | None) -> str:
    facts = fenced("\n".join(_items(percepts)))
    return (templates or Templates()).render(template, facts=facts) if facts else ""


def _items(percepts: Sequence[Percept]) -> Iterator[str]:
    """One item each; further lines are indented, so that none poses as an item of its own."""
    for percept in percepts:
        content = percept.content.strip()
        if content:
            yield "- " + "\n  ".join(content.splitlines())
