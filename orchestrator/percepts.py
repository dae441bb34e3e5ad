"""A percept: one short statement that agents should still know next week (page 4)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

MAX_CONTENT = 2000
"""Characters after trimming (page 4)."""


@dataclass(frozen=True, slots=True)
class Percept:
    """What was heard, from whom, for whom, and how much it weighs."""

    id: str
    content: str
    producer: Literal["user", "primary", "escalation", "system"]
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
    source: Mapping[str, Any] | None = None
    trust: Literal["user", "agent", "tool_output"] = "user"


def statement_key(content: str) -> str:
    """What makes two percepts the same statement: their set of words, case and punctuation set aside (page 4)."""
    words = re.findall(r"\w+", unicodedata.normalize("NFKC", content).casefold())
    return " ".join(sorted(set(words)))
