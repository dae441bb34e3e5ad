"""Artifacts as they are kept: large answers and tool results, and attached files, each handed out until it expires (page 5)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from orchestrator.lifetimes import Lifespan, begun

ArtifactKind = Literal["answer", "tool_result", "file"]

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Artifact:
    """An artifact in the store. What it holds is stored once, however many hold the same."""

    id: str
    kind: ArtifactKind
    sha256: str
    """Of its bytes, in hexadecimal."""
    size: int
    """In bytes."""
    session: str
    turn: int | None
    """`None` for a file of a turn that had not begun."""
    name: str | None
    """The tool whose result it is, or the file's name."""
    life: Lifespan
    renewed: bool = False
    """Whether reading renews it, up to its ceiling; else its deadline is fixed at the start."""


@dataclass(frozen=True, slots=True)
class ArtifactTerms:
    """The settings that artifacts go by."""

    inline_max: int | None = 64 * 1024
    """Bytes of an answer or a tool result that is none; `None` is any number."""
    ttl: timedelta = timedelta(hours=24)
    idle_ttl: timedelta | None = None
    """Set, each lives for so long after it was last read, but never beyond `ttl`."""
    quota: int | None = 256 * MIB
    """Bytes that all of them may hold together; `None` is any number."""

    def life(self, now: datetime) -> Lifespan:
        """The life of one that begins now; a deadline that no reading moves is an explicit one."""
        if self.idle_ttl is None:
            return begun(now, ttl=self.ttl, max_age=self.ttl, expires_at=now + self.ttl)
        return begun(now, ttl=self.idle_ttl, max_age=self.ttl)


USUAL = ArtifactTerms()
