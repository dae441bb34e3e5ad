"""What tests of the broker share: a clock whose sleep passes the time, and a real store in which a broker works."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from orchestrator.broker import Broker, Terms, Waiting
from orchestrator.providers import Answer, Cancel, Question
from orchestrator.questions import StoredQuestion
from orchestrator.session import Session
from orchestrator.store.sqlite import SqliteStore, open_store

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
COLOUR = {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]}


class PassingClock:
    """Both clocks pass together, by sleeping or by hand; the wall clock can be stepped alone."""

    def __init__(self) -> None:
        self.wall, self.seconds = START, 0.0
        self.on_sleep: Callable[[], object] = lambda: None

    def now(self) -> datetime:
        return self.wall

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float, wake: threading.Event | None = None) -> None:
        self.seconds = round(self.seconds + seconds, 6)
        self.wall += timedelta(seconds=seconds)
        self.on_sleep()

    def to(self, seconds: float) -> None:
        """To that many seconds after the start."""
        self.wall += timedelta(seconds=seconds) - timedelta(seconds=self.seconds)
        self.seconds = seconds

    def step(self, **of: float) -> None:
        """The wall clock alone."""
        self.wall += timedelta(**of)


@dataclass
class Desk:
    """A broker over a real store, under a clock that is set by hand. Times are seconds since the start."""

    folder: Path
    clock: PassingClock = field(default_factory=PassingClock)
    terms: Terms = field(default_factory=lambda: Terms(timedelta(seconds=120), timedelta(seconds=1800), timedelta(days=30)))
    stores: list[SqliteStore] = field(default_factory=list)
    ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _broker: Broker | None = None

    @property
    def broker(self) -> Broker:
        if self._broker is None:
            self._broker = self.another()
        return self._broker

    @property
    def store(self) -> SqliteStore:
        assert self.broker
        return self.stores[0]

    def another(self) -> Broker:
        """A broker as another process has it: with a store of its own."""
        self.stores.append(open_store(self.folder, clock=self.clock))
        if len(self.stores) == 1:
            self.stores[0].create(Session(id="s1", workspace="/work/a", nonce="n0"))
        return Broker(self.stores[-1], self.clock, lambda: self.terms, lambda: f"q{next(self.ids)}")

    def restart(self) -> None:
        """Go on in another process, when this one has ended."""
        for store in self.stores:
            store.close()
        self.stores.clear()
        self._broker = None
        self.stores.append(open_store(self.folder, clock=self.clock))
        self._broker = Broker(self.stores[0], self.clock, lambda: self.terms, lambda: f"q{next(self.ids)}")

    def open(self, *, explicit: float | None = None, **fields: Any) -> StoredQuestion:
        question = Question(**{"message": "May I?", "session": "s1", "turn": 0, "agent": "strong", "durable": True, **fields})
        return self.broker.open(question, expires_at=None if explicit is None else START + timedelta(seconds=explicit))

    def form(self, **fields: Any) -> StoredQuestion:
        return self.open(mode="form", schema=COLOUR, **fields)

    def wait(self, stored: StoredQuestion, cancel: Cancel | None = None, question: Question | None = None) -> Waiting:
        return self.broker.wait(stored, question or stored.question, cancel or Cancel())

    def read_at(self, *moments: float, of: str = "q1") -> StoredQuestion:
        for moment in moments:
            self.clock.to(moment)
            stored = self.broker.read(of)
        return stored

    def peek_at(self, moment: float, of: str = "q1") -> StoredQuestion:
        self.clock.to(moment)
        return self.broker.peek(of)

    def shorter(self, **of: float) -> None:
        self.terms = replace(self.terms, **{name: timedelta(seconds=seconds) for name, seconds in of.items()})

    def close(self) -> None:
        for store in self.stores:
            store.close()


def exp(stored: StoredQuestion) -> float:
    return (stored.life.expires_at - START).total_seconds()


def lt(stored: StoredQuestion) -> float:
    return (stored.life.last_touched - START).total_seconds()


def how(stored: StoredQuestion) -> tuple[str, str, str]:
    """State, action and by whom."""
    assert stored.given is not None
    return stored.state.value, stored.given.answer.action, stored.given.answer.by


YES = Answer("accept")
RED = Answer("accept", {"colour": "red"})


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path / "data")
    yield made
    made.close()
