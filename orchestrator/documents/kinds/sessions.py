"""Sessions, hits of a search, and needs."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from orchestrator.documents.kinds.common import Count, Moment, Stated
from orchestrator.documents.kinds.plans import NeedFields
from orchestrator.session import State


class SessionObject(TypedDict):
    """A session as a list shows it."""

    id: Stated
    name: str | None
    workspace: Stated
    created_at: Moment | None
    updated_at: Moment | None
    state: State
    turns: Count
    need: str | None
    in_use: bool


class SessionsDocument(TypedDict):
    """`session list --json`, newest first."""

    format: Literal["escalera.sessions/1"]
    sessions: list[SessionObject]


class HitObject(TypedDict):
    """A turn that was found; the match stands between `[` and `]` in the snippet."""

    session: Stated
    name: str | None
    workspace: Stated
    turn: Count
    snippet: str


class HitsDocument(TypedDict):
    """`session search --json`, best first."""

    format: Literal["escalera.hits/1"]
    hits: list[HitObject]


class SessionRefDocument(TypedDict):
    """`session import`, `rename`, `fork` and `drop` with `--json`: the session that was made, changed or removed."""

    format: Literal["escalera.session-ref/1"]
    id: Stated
    name: str | None
    workspace: Stated
    export: str | None
    """After `drop`: the file that keeps the session."""


class LastNeedObject(TypedDict):
    """A need that was cleared."""

    text: str
    reason: Literal["fulfilled", "expired", "cleared"]
    cleared_at: Moment


class NeedDocument(NeedFields):
    """`need show`, `set`, `clear` and `restore` with `--json`."""

    format: Literal["escalera.need/1"]
    session: Stated
    last_need: LastNeedObject | None
