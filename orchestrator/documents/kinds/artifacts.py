"""Texts and files kept beside the session."""

from __future__ import annotations

from typing import Annotated, Literal

from typing_extensions import TypedDict

from orchestrator.artifacts import ArtifactKind
from orchestrator.documents.kinds.common import Count, Moment, Schema, Stated
from orchestrator.lifetimes import Lifetime


class ArtifactObject(Lifetime):
    """A large answer or tool result, or an attached file, that is kept until it expires."""

    id: Stated
    kind: ArtifactKind
    name: str | None
    """The tool whose result it is, or the file's name."""
    session: Stated
    turn: Count | None
    """Null for a file of a background turn."""
    size: Count
    """In bytes."""
    sha256: Annotated[str, Schema(pattern="^[0-9a-f]{64}$")]
    created: Moment


class ArtifactsDocument(TypedDict):
    """`artifacts list --json`, oldest first."""

    format: Literal["escalera.artifacts/1"]
    artifacts: list[ArtifactObject]


class ArtifactDocument(ArtifactObject):
    """`artifacts show --json`."""

    format: Literal["escalera.artifact/1"]
    text: str
    """What it holds; what is no UTF-8 of it is replaced."""
