"""Which percepts an agent is told in a turn, and the block that tells them (page 4)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from orchestrator.messages import well_formed
from orchestrator.percepts import Inquiry, Memory, Percept, Recalled, is_trusted_less, statement_key
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


_AT_FIRST, _THEN = 2, 8
"""How many times as many percepts as may be told are looked at, at first; and how many times as many each further time, until the limits are full."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The percepts to tell, best first, and those left out: (id, why)."""

    sent: tuple[Percept, ...]
    withheld: tuple[tuple[str, str], ...]
    scores: Mapping[str, float] = field(default_factory=dict, compare=False)
    """How well each that was looked at fits prompt and need, by id."""


def select(
    memory: Memory,
    *,
    agent: str,
    role: Role,
    workspace: str,
    session: str | None,
    limits: GateLimits,
    prompt: str,
    need: str | None,
    stated: Collection[str] = (),
    explain: bool = False,
) -> Chosen:
    """What the agent is told in a turn with that prompt and need: for a turn, a plan and `memory why` alike (page 4).

    The memory is asked for the best, and while the limits have room for more, for further ones that fit into it: so the choice is that among
    all there are. `stated` are the statements (`statement_key`) that the agent made in its still-open external session. With `explain` all are
    looked at, and the choice says of each that is left out why.
    """
    text = f"{prompt}\n{need or ''}" if limits.percept_relevance_gate and prompt.strip() else None
    most = None if limits.percept_inject_max is None or explain else _AT_FIRST * limits.percept_inject_max
    asked = Inquiry(consumers_of(agent, role), workspace, session, text, most, explain=explain)
    recalled = memory(asked)
    while True:
        chosen = _chosen_of(recalled, agent=agent, role=role, workspace=workspace, limits=limits, stated=stated)
        room = _room(chosen.sent, limits)
        if not recalled.more or asked.most is None or room == 0:
            return chosen
        asked = replace(asked, most=_THEN * asked.most, fits=room)
        recalled = _joined(recalled, memory(asked))


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
    behind: Collection[str] = (),
) -> Chosen:
    """The percepts for `agent` in this turn.

    `relevance` is what the search with prompt and need found: a score by id. `None` lets all pass (gate off, or an empty prompt).
    `known` are ids of percepts that this very agent stated in its still-open external session, `extends` pairs of ids: (longer, shorter).
    `behind` are ids of those that are only told in the place of one that they extend.
    """
    withheld: list[tuple[str, str]] = []
    meant: list[Percept] = []
    for percept in percepts:
        why = _unfit(percept, consumers_of(agent, role), workspace, relevance, known)
        if why is None:
            meant.append(percept)
        else:
            withheld.append((percept.id, why))
    return _Choice(_ranked(meant, relevance), limits, extends, withheld, behind).made()


def _chosen_of(recalled: Recalled, *, agent: str, role: Role, workspace: str, limits: PerceptLimits, stated: Collection[str]) -> Chosen:
    scores = {percept.id: score for percept, score in (*recalled.found, *recalled.longer)}
    percepts = [percept for percept, _ in (*recalled.found, *recalled.longer)]
    chosen = choose(
        percepts,
        agent=agent,
        role=role,
        workspace=workspace,
        limits=limits,
        relevance=scores,
        known={percept.id for percept in percepts if statement_key(percept.content) in stated} if stated else (),
        extends=recalled.extends,
        behind={percept.id for percept, _ in recalled.longer},
    )
    return Chosen(chosen.sent, (*chosen.withheld, *recalled.withheld), scores)


def _room(sent: Sequence[Percept], limits: PerceptLimits) -> int | None:
    """How many bytes of text one more percept may have; 0 for none at all, `None` for any."""
    if limits.percept_inject_max is not None and len(sent) >= limits.percept_inject_max:
        return 0
    if limits.percept_inject_max_bytes is None:
        return None
    return max(0, limits.percept_inject_max_bytes - sum(map(size_of, sent)) - _AROUND)


def _joined(before: Recalled, then: Recalled) -> Recalled:
    found = {percept.id: (percept, score) for percept, score in (*before.found, *then.found)}
    longer = {percept.id: (percept, score) for percept, score in (*before.longer, *then.longer) if percept.id not in found}
    return Recalled(tuple(found.values()), then.more, tuple(longer.values()), before.extends | then.extends)


def consumers_of(agent: str, role: Role) -> frozenset[str]:
    """What percepts may be meant for that this agent is told in that role."""
    return frozenset({"all", role.value, agent})


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
    """By score × weight, ties by id. A core percept that does not match has a score of 0."""

    def rank(percept: Percept) -> tuple[float, str]:
        return -percept.weight * (1.0 if relevance is None else relevance.get(percept.id, 0.0)), percept.id

    return sorted(percepts, key=rank)


def within(percepts: Sequence[Percept], limits: PerceptLimits, withheld: list[tuple[str, str]]) -> Chosen:
    """Those that fit, in their order; the others join the withheld ones."""
    return _Choice(percepts, limits, (), withheld, ()).made()


class _Choice:
    """Goes through the ranked percepts; one that is too large is passed over and smaller ones are still tried.

    Of two where one extends the other only the longer is told, in the place of the better one; the shorter where the longer
    does not fit. Of two that say the same, the better one. Who is trusted less hides nothing of who is trusted more: then both are told.
    """

    def __init__(
        self,
        ranked: Sequence[Percept],
        limits: PerceptLimits,
        extends: Collection[tuple[str, str]],
        withheld: list[tuple[str, str]],
        behind: Collection[str],
    ) -> None:
        self._ranked, self._limits, self._withheld, self._behind = ranked, limits, withheld, behind
        self._by_id = {percept.id: percept for percept in ranked}
        self._longer: dict[str, list[str]] = {}
        for longer, shorter in sorted(extends):
            if longer in self._by_id and shorter in self._by_id:
                self._longer.setdefault(shorter, []).append(longer)
        self._room = limits.percept_inject_max_bytes
        self._sent: list[Percept] = []
        self._done: set[str] = set()
        self._said: dict[str, Percept] = {}

    def made(self) -> Chosen:
        for percept in self._ranked:
            if percept.id not in self._done and percept.id not in self._behind:
                self._consider(percept)
        return Chosen(tuple(self._sent), tuple(self._withheld))

    def _consider(self, percept: Percept) -> None:
        for longer in self._extensions(percept):
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
        self._said[statement_key(percept.content)] = percept
        self._room = None if self._room is None else self._room - size_of(percept)

    def _why_not(self, percept: Percept) -> str | None:
        if self._limits.percept_inject_max is not None and len(self._sent) >= self._limits.percept_inject_max:
            return "percept_inject_max"
        if self._room is not None and size_of(percept) > self._room:
            return "percept_inject_max_bytes"
        same = self._said.get(statement_key(percept.content))
        return None if same is None or is_trusted_less(same.trust, percept.trust) else f"the same as {same.id}"

    def _leave_out(self, percept: Percept, why: str) -> None:
        self._done.add(percept.id)
        self._withheld.append((percept.id, why))

    def _extensions(self, percept: Percept) -> list[Percept]:
        """Whatever extends it, or extends that, and is trusted no less; the longest first."""
        found: dict[str, None] = {}
        rest = list(self._longer.get(percept.id, ()))
        while rest:
            longer = rest.pop()
            if longer not in found and longer != percept.id:
                found[longer] = None
                rest += self._longer.get(longer, ())
        trusted = [self._by_id[longer] for longer in found if not is_trusted_less(self._by_id[longer].trust, percept.trust)]
        return sorted(trusted, key=lambda percept: (-len(percept.content), percept.id))


_AROUND = len("- \n")
"""Bytes that stand around the text of one percept at least."""


def size_of(percept: Percept) -> int:
    """Bytes that it takes where it is told: with its bullet, the indents of further lines, and its line end."""
    return len(f"{_item(percept)}\n".encode())


def _block(template: str, percepts: Sequence[Percept], templates: Templates | None) -> str:
    facts = fenced("\n".join(_item(percept) for percept in percepts if percept.content.strip()))
    return (templates or Templates()).render(template, facts=facts) if facts else ""


def _item(percept: Percept) -> str:
    """Further lines are indented, so that none poses as an item of its own."""
    return "- " + "\n  ".join(neutralise(well_formed(percept.content.strip())).splitlines())
