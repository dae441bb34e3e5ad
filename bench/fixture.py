"""Sessions of any length: user 200 characters, assistant 800, alternating; some exchanges by the escalation agent."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Literal

from orchestrator.messages import Text
from orchestrator.session import Role, Session, Turn

Kind = Literal["mixed", "primary"]
"""`mixed`: every tenth exchange by the escalation agent; `primary`: never."""

START = datetime(2026, 1, 1, tzinfo=UTC)
WORDS = "the quick survey of a long road shows how many stones lie between one village and the next before winter comes "


def session(workspace: str, name: str) -> Session:
    """The header of a fixture session."""
    return Session(id=f"bench-{name}", workspace=workspace, nonce="benchnonce", created_at=START)


def turns(entries: int, kind: Kind) -> Iterator[Turn]:
    """`entries` user and assistant messages, so half as many turns."""
    for index in range(entries // 2):
        escalation = kind == "mixed" and index % 10 == 9
        yield Turn(
            index=index,
            role=Role.ESCALATION if escalation else Role.PRIMARY,
            agent="strong" if escalation else "local",
            prompt=_text(index, 200),
            steps=(Text(_text(index + 7, 800)),),
            started_at=START + timedelta(minutes=index),
            ended_at=START + timedelta(minutes=index, seconds=30),
        )


def _text(seed: int, length: int) -> str:
    start = seed % len(WORDS)
    return (f"{seed} " + WORDS[start:] + WORDS * (length // len(WORDS) + 1))[:length]
