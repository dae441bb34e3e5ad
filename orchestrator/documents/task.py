"""Background tasks as documents show them (page 5)."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from orchestrator.clock import format_time
from orchestrator.lifetimes import lifetime_fields
from orchestrator.tasks import StoredTask

if TYPE_CHECKING:
    from orchestrator.documents.kinds.tasks import TaskDocument, TaskObject


def task_document(task: StoredTask, now: datetime) -> TaskDocument:
    """One task, as of now."""
    return {"format": "escalera.task/1", **task_object(task, now)}


def task_object(task: StoredTask, now: datetime) -> TaskObject:
    """The same in an item and in a list."""
    return {
        "id": task.id,
        "session": task.session,
        "prompt": str(task.order.get("prompt", "")),
        "created": format_time(task.created),
        "state": task.state,
        "updated": None if task.updated is None else format_time(task.updated),
        "exit_code": task.exit_code,
        "cancelling": task.cancelling,
        **lifetime_fields(task.life.expires_at, task.life.last_touched, now),
    }
