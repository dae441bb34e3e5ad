"""Which turns an agent is sent at all, by mode (page 3, scope)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from orchestrator.modes import Mode

ScopeName = Literal["all", "since_boundary", "none"]


@dataclass(frozen=True, slots=True)
class Scope:
    """The turns with an index of at least `start`; with the name `none`, no turn."""

    name: ScopeName
    start: int = 0


def scope_of(mode: Mode | None, *, keeps_conversation: bool, boundary: int) -> Scope:
    """The scope of a turn in that mode; `None` is a primary turn, which has no mode.

    `boundary` is the index after the last completed escalation turn (page 1). An agent with a conversation of its
    own gets no history in any mode; on a fresh start the digest stands for what lies before the boundary.
    """
    if keeps_conversation:
        return Scope("none")
    if mode is Mode.FRESH_START:
        return Scope("since_boundary", boundary)
    return Scope("all")


__all__ = ["Scope", "ScopeName", "scope_of"]
