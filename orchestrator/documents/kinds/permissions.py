"""What the user has allowed."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from orchestrator.documents.kinds.common import Moment, Stated
from orchestrator.permissions import Effect


class PermissionObject(TypedDict):
    """One rule on what tools may do: of the settings, or allowed when a tool asked."""

    id: str | None
    """Null for a rule of the settings, which is changed there."""
    effect: Effect
    rule: Stated
    agent: str | None
    """Null where it counts for every agent."""
    workspace: str | None
    """Null where it counts in every workspace."""
    session: str | None
    """Null where it counts in every session."""
    source: Stated
    """`asked`, or the source of the setting: `file:PATH`, `env:NAME`, `flag`."""
    created: Moment | None


class PermissionsDocument(TypedDict):
    """`permissions list --json`, what goes before first; `permissions revoke --json` has those that were taken back."""

    format: Literal["escalera.permissions/1"]
    permissions: list[PermissionObject]
