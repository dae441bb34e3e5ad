"""The memory as one agent sees it in one turn: what is meant for it, here, within its limits (page 4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from orchestrator.errors import Ambiguous, NotFound, UsageError
from orchestrator.memory.inject import PerceptLimits, choose, consumers_of, within
from orchestrator.percepts import Inquiry, Percept
from orchestrator.session import Role
from orchestrator.store import Store

RECALLED = 5
"""How many are given at once at most, the best first (page 4, Surface)."""


@dataclass(frozen=True, slots=True)
class _Most:
    percept_inject_max: int | None = None
    percept_inject_max_bytes: int | None = None


class MemoryView:
    """Read anew with each call: other processes and other turns change it."""

    def __init__(self, store: Store, *, session: str, agent: str, role: Role, workspace: str, limits: PerceptLimits, now: Callable[[], datetime]) -> None:
        self._store, self._session, self._now = store, session, now
        self._agent, self._role, self._workspace, self._limits = agent, role, workspace, limits

    def recall(self, query: str) -> Sequence[Percept]:
        """The best that have to do with the query, or the heaviest without one. They count as used."""
        most = RECALLED if self._limits.percept_inject_max is None else min(RECALLED, self._limits.percept_inject_max)
        best = self._store.best_percepts(self._inquiry(query if query.strip() else None), most)
        found = within(best, _Most(most, self._limits.percept_inject_max_bytes), []).sent
        self._store.mark_used([percept.id for percept in found], self._now())
        return found

    def listed(self) -> tuple[Sequence[Percept], int]:
        """The heaviest, and how many more there are. Listing is no use of them."""
        visible = self._visible()
        shown = within(visible, self._limits, []).sent
        return shown, len(visible) - len(shown)

    def forget(self, ref: str) -> Percept:
        """Archive one and take it out. Raises `NotFound` for what is not in this view, `Ambiguous`, and `UsageError` for what the user asked to keep."""
        found = [percept for percept in self._visible() if percept.id.startswith(ref)]
        if len(found) > 1:
            raise Ambiguous(f"{ref!r} fits {len(found)} facts; give more of the id", candidates=[percept.id for percept in found])
        if not found:
            raise NotFound(f"there is no fact {ref!r}; list_memory shows the ids")
        if found[0].core:
            raise UsageError("the user asked to keep this fact, and only the user can take it out", hint=f"escalera memory forget {found[0].id[:8]}")
        return self._store.forget(found[0].id)

    def _visible(self) -> Sequence[Percept]:
        """Those meant for this agent, here, heaviest first; not what a later statement has taken the place of."""
        percepts = [percept for percept, _ in self._store.recall(self._inquiry(None)).found]
        return choose(percepts, agent=self._agent, role=self._role, workspace=self._workspace, limits=_Most()).sent

    def _inquiry(self, text: str | None) -> Inquiry:
        return Inquiry(consumers_of(self._agent, self._role), self._workspace, self._session, text)
