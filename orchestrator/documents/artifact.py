"""Artifacts as documents show them (page 5)."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from orchestrator.artifacts import Artifact
from orchestrator.clock import format_time
from orchestrator.lifetimes import lifetime_fields

if TYPE_CHECKING:
    from orchestrator.documents.kinds.artifacts import ArtifactDocument, ArtifactObject


def artifact_document(artifact: Artifact, text: str, now: datetime) -> ArtifactDocument:
    """One artifact with what it holds, as of now."""
    return {"format": "escalera.artifact/1", **artifact_object(artifact, now), "text": text}


def artifact_object(artifact: Artifact, now: datetime) -> ArtifactObject:
    """The same in an item and in a list."""
    return {
        "id": artifact.id,
        "kind": artifact.kind,
        "name": artifact.name,
        "session": artifact.session,
        "turn": artifact.turn,
        "size": artifact.size,
        "sha256": artifact.sha256,
        "created": format_time(artifact.life.created),
        **lifetime_fields(artifact.life.expires_at, artifact.life.last_touched, now),
    }
