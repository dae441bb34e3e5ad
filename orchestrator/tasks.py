"""Background tasks as they are kept: a turn that runs in a process of its own, and its result (page 5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from orchestrator.lifetimes import Lifespan


class TaskState(StrEnum):
    """Where a task stands; `interrupted` where its runner died."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class StoredTask:
    """A task in the store. Its life counts once it has ended: until then no deadline ends it."""

    id: str
    session: str
    order: Mapping[str, Any]
    """What shall be done, as the front end that runs it understands it."""
    created: datetime
    life: Lifespan
    """Of the task while it runs, and from its end on that of its result."""
    state: TaskState = TaskState.RUNNING
    updated: datetime | None = None
    """When its state changed last."""
    result: Mapping[str, Any] | None = None
    """The document that the command would have printed."""
    exit_code: int | None = None
    cancelling: bool = False
    """Somebody wants it to end."""
    settled: bool = field(default=True, compare=False)
    """Whether its end is written down; until then its runner is known to be gone."""

    @property
    def runs(self) -> bool:
        return self.state is TaskState.RUNNING

    @property
    def came_to_nothing(self) -> bool:
        """Whether no turn came of it: its result is what kept one from coming to be. A fault of the program's says nothing about that."""
        error = None if self.result is None or self.state is not TaskState.FAILED else self.result.get("error")
        return self.result is not None and self.result.get("format") == "escalera.error/1" and isinstance(error, dict) and error.get("type") != "InternalError"
