"""Turns in the background."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from orchestrator.documents.kinds.common import Moment, Stated
from orchestrator.lifetimes import Lifetime
from orchestrator.tasks import TaskState


class TaskObject(Lifetime):
    """A turn in the background. Its deadline is its result's, which counts once it has ended."""

    id: Stated
    session: Stated
    prompt: str
    created: Moment
    state: TaskState
    updated: Moment | None
    """When its state changed last."""
    exit_code: int | None
    """What the command would have ended with."""
    cancelling: bool


class TasksDocument(TypedDict):
    """`tasks list --json`, oldest first."""

    format: Literal["escalera.tasks/1"]
    tasks: list[TaskObject]


class TaskDocument(TaskObject):
    """`ask --background`, `tasks show` and `tasks cancel` with `--json`. `tasks result --json` is the turn document."""

    format: Literal["escalera.task/1"]
