"""The crews of a process that takes many turns: one for each workspace, for as long as the settings stay."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orchestrator.crew import Crew
    from orchestrator.premises import Premises
    from orchestrator.settings.resolution import Settings


@dataclass(slots=True)
class _Kept:
    premises: Premises
    settings: Settings
    crew: Crew
    users: int = 1
    """The turns that it works in, and one more as long as it is the workspace's."""


class Crews:
    """May be used by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}

    @contextmanager
    def at_work(self, premises: Premises, workspace: str, *, turn_timeout: float | None = None) -> Iterator[Crew]:
        """The crew for one turn in that workspace: that of the turn before, as long as the settings are the same.

        One of other settings is let go of once no turn has it any more. With a `turn_timeout` of its own, a turn has a crew of its own.
        """
        kept = (
            self._taken(premises, workspace)
            if turn_timeout is None
            else _Kept(premises, premises.settings, premises.crew(workspace, turn_timeout=turn_timeout))
        )
        try:
            yield kept.crew
        finally:
            self._give_back(kept)

    def _taken(self, premises: Premises, workspace: str) -> _Kept:
        with self._lock:
            settings, before = premises.settings, self._kept.get(workspace)
            if before is not None and before.settings is settings:
                before.users += 1
                return before
            kept = self._kept[workspace] = _Kept(premises, settings, premises.crew(workspace, long_lived=True), users=2)
        if before is not None:
            self._give_back(before)
        return kept

    def _give_back(self, kept: _Kept) -> None:
        with self._lock:
            kept.users -= 1
            is_left = not kept.users
        if is_left:
            kept.premises.let_go(kept.crew)
