"""Consolidation as the settings have it, after turns of the primary and when the program exits (page 4)."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.errors import StoreError
from orchestrator.store import Store

DAY = 86_400


@dataclass(frozen=True, slots=True)
class Upkeep:
    """The settings that consolidation goes by."""

    archive_after_days: float = 14
    """Of running time; negative is never."""
    most: int | None = None
    """How many percepts the store may hold."""

    @property
    def archive_after(self) -> float | None:
        """In seconds; `None` is never."""
        return None if self.archive_after_days < 0 else self.archive_after_days * DAY


USUAL = Upkeep()


def keep_up(store: Store, upkeep: Upkeep) -> tuple[str, ...]:
    """One pass; what the user should be told. A store that cannot be written takes nothing from a turn that is done."""
    try:
        done = store.consolidate(archive_after=upkeep.archive_after, most=upkeep.most)
    except StoreError as error:
        return (f"remembered facts were not consolidated: {error.message}",)
    return () if done.problem is None else (done.problem,)
