"""A percept: one short statement that agents should still know next week (page 4)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from orchestrator.words import index_words, key_of, statement_of, words_of

MAX_CONTENT = 2000
"""Characters after trimming (page 4)."""

Producer = Literal["user", "primary", "escalation", "system"]
Trust = Literal["user", "agent", "tool_output"]
EdgeKind = Literal["extends", "updates", "derives", "contradicts"]

INITIAL_WEIGHTS: Mapping[Producer, int] = {"user": 90, "primary": 70, "escalation": 70, "system": 40}
CORE_WEIGHT = 100
"""What a fact weighs that the user asked to keep."""
REINFORCED_BY = 10
HEAVIEST = 100
PRUNE_THRESHOLD = 20
"""At this weight a percept of a session leaves it, and an unused global one goes to the archive; decay ends here."""
PROMOTED_FROM = 80
"""At this weight a percept of a session becomes global."""
RESTORED_WEIGHT = 30
"""What a percept weighs at least that the user brought back: else it would leave again at once."""
GET_WEIGHT, GET_MOST = 40, 5
"""What `get_memory` gives: facts of at least that weight, and how many."""


@dataclass(frozen=True, slots=True)
class Percept:
    """What was heard, from whom, for whom, and how much it weighs."""

    id: str
    content: str
    producer: Producer
    consumer: str = "all"
    """`all`, `primary`, `escalation`, or one agent's name."""
    weight: int = 90
    """Hundredths, 0–100."""
    core: bool = False
    scope: Literal["session", "global"] = "global"
    workspace: str | None = None
    """`None` is everywhere."""
    session: str | None = None
    subject: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    last_used_at: datetime | None = None
    idle_seconds: float = 0.0
    """Running time without a use, of global ones that are not core."""
    source: Mapping[str, Any] | None = None
    trust: Trust = "user"


@dataclass(frozen=True, slots=True)
class Edge:
    """A typed link between two percepts, by their ids: `source` extends, updates, … `target`."""

    source: str
    target: str
    kind: EdgeKind


@dataclass(frozen=True, slots=True)
class Engram:
    """Percepts with the same subject."""

    subject: str
    weight: int
    """The mean of its members' weights, in whole hundredths."""
    percepts: tuple[str, ...]
    """Their ids, heaviest first."""


@dataclass(frozen=True, slots=True)
class Archived:
    """A percept that left the store, and how."""

    percept: Percept
    archived_at: datetime | None
    reason: str
    idle_days: float
    edges: tuple[Edge, ...] = ()
    """Those that touched it when it left."""


@dataclass(frozen=True, slots=True)
class Stale:
    """A percept that goes to the archive unless it is used, and the running time that is left to it."""

    percept: Percept
    seconds_left: float


@dataclass(frozen=True, slots=True)
class Inquiry:
    """What may one agent be told in one turn?"""

    consumers: frozenset[str]
    """What the agent goes by: `all`, its role, its name."""
    workspace: str
    session: str | None
    text: str | None = None
    """The prompt and the current need, which what is told has to do with; `None` lets everything pass."""
    most: int | None = None
    """How many are wanted at most."""
    fits: int | None = None
    """How many bytes of UTF-8 a wanted one has at most."""
    explain: bool = False
    """Whether those that are left out are listed, too."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """The answer to an inquiry, best first by score × weight."""

    found: tuple[tuple[Percept, float], ...] = ()
    """With how well each fits the text; 1 for all where nothing was asked for, 0 for core percepts that do not fit."""
    more: bool = False
    """Whether there may be further ones, which rank behind these."""
    longer: tuple[tuple[Percept, float], ...] = ()
    """Of the further ones those that extend one of these."""
    extends: frozenset[tuple[str, str]] = frozenset()
    """Of all of them: (the longer, the shorter)."""
    withheld: tuple[tuple[str, str], ...] = ()
    """Those that are left out, (id, why), if the inquiry asked for them."""


Memory = Callable[[Inquiry], Recalled]
"""Whatever answers inquiries."""

NOTHING_RECALLED = Recalled()


@dataclass(frozen=True, slots=True)
class Consolidated:
    """What a pass of consolidation did; percepts by their ids."""

    idle_seconds: float = 0.0
    """The running time that was added to whatever was not used."""
    pruned: tuple[str, ...] = ()
    promoted: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()
    """Those of a session that a global one said already."""
    archived: tuple[str, ...] = ()
    """Stale ones."""
    capped: tuple[str, ...] = ()
    """Those that were more than the store may hold."""
    problem: str | None = None
    """Why the archive could not be written; what was to go there has stayed."""


def is_trusted_less(one: Trust, other: Trust) -> bool:
    """Whether whoever says `one` may hide nothing of whoever says `other`; a trust that is not known counts as the user's."""
    return _TRUSTED.get(one, 2) < _TRUSTED.get(other, 2)


_TRUSTED: Mapping[Trust, int] = {"tool_output": 0, "agent": 1, "user": 2}


def statement_key(content: str) -> str:
    """What makes two percepts the same statement (page 4), as a short mark."""
    return mark_of(key_of(words_of(content)))


def subject_key(subject: str | None) -> str | None:
    """What makes two subjects the same; `None` for none."""
    return None if subject is None or not subject.strip() else statement_of(subject).key


def index_text(content: str) -> str:
    """What a percept is found by, with blanks between the words."""
    return " ".join(index_words(content))


def mark_of(key: str) -> str:
    """A short mark that differs where the text does."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32]
