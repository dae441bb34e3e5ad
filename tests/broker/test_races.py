"""Races made real: stores of their own meet at one row, and exactly one outcome is seen by all (page 5)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from orchestrator.broker import Broker, Terms
from orchestrator.errors import QuestionClosed
from orchestrator.providers import Answer, Cancel, Question
from orchestrator.questions import StoredQuestion
from orchestrator.session import Session
from orchestrator.store.sqlite import SqliteStore, open_store

from .conftest import START, YES, PassingClock, exp, how, lt

RACES = int(os.environ.get("ESCALERA_PROOF_RACES", "60"))
"""How often each race is run."""
READERS = 50
TERMS = Terms(timedelta(seconds=120), timedelta(seconds=100_000), timedelta(days=30))
LAST, OVER = 119.999, 120.0
"""The last moment of a question that was asked at 0, and the first after it."""


class Counting(PassingClock):
    """Each look at it is a second later, whoever looks."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()

    def now(self) -> datetime:
        with self._lock:
            self.wall += timedelta(seconds=1)
            return self.wall


@dataclass
class Field:
    """Parties, each with a store and a clock of its own, over the same data."""

    folder: Path
    stores: list[SqliteStore] = field(default_factory=list)
    terms: Terms = TERMS

    def party(self, clock: PassingClock | None = None) -> Broker:
        clock = clock or PassingClock()
        self.stores.append(open_store(self.folder, clock=clock))
        if len(self.stores) == 1:
            self.stores[0].create(Session(id="s1", workspace="/work/a", nonce="n0"))
        number = len(self.stores)
        ids = iter(range(10**9))
        return Broker(self.stores[-1], clock, lambda: self.terms, lambda: f"q{number}-{next(ids)}.")

    def at(self, seconds: float) -> tuple[Broker, SqliteStore]:
        """A party whose clock stands still there."""
        clock = PassingClock()
        clock.to(seconds)
        broker = self.party(clock)
        return broker, self.stores[-1]


@pytest.fixture
def parties(tmp_path: Path) -> Iterator[Field]:
    made = Field(tmp_path / "data")
    yield made
    for store in made.stores:
        store.close()


def at_once(*acts: Callable[[], object]) -> list[object]:
    """What each gives or raises, all let go at the same moment."""
    gate = threading.Barrier(len(acts))

    def run(act: Callable[[], object]) -> object:
        gate.wait()
        try:
            return act()
        except QuestionClosed as closed:
            return closed

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(run, acts))


def test_f1_fifty_readers_at_once_renew_one_row_and_none_sees_it_shorten(parties: Field) -> None:
    clock, ttl = Counting(), 10_000
    parties.terms = Terms(timedelta(seconds=ttl), timedelta(seconds=100_000), timedelta(days=30))
    asked = parties.party(clock).open(Question("May I?", durable=True))
    brokers = [parties.party(clock) for _ in range(READERS)]

    def reads(broker: Broker) -> list[StoredQuestion]:
        return [broker.read(asked.id) for _ in range(4)]

    seen = at_once(*(lambda broker=broker: reads(broker) for broker in brokers))  # type: ignore[misc]  # a default binds each

    for reader in seen:
        assert isinstance(reader, list)
        assert [exp(stored) for stored in reader] == sorted(exp(stored) for stored in reader)
        assert all(exp(stored) == lt(stored) + ttl for stored in reader)
    (row,) = brokers[0].listed()
    assert (exp(row), exp(row)) == (lt(row) + ttl, max(exp(reader[-1]) for reader in seen))  # type: ignore[index]


def test_f3_a_touch_and_a_sweep_in_the_same_instant_have_one_outcome(parties: Field) -> None:
    asker, (reader, _), (observer, _) = parties.party(), parties.at(LAST), parties.at(OVER)
    _, sweeper = parties.at(OVER)
    outcomes = set()
    for _ in range(RACES):
        asked = asker.open(Question("May I?", durable=True))

        read, _ = at_once(lambda: reader.read(asked.id), sweeper.settle_questions)  # noqa: B023  # done before the next round

        assert isinstance(read, StoredQuestion)
        seen = observer.peek(asked.id)
        assert seen == read
        assert (seen.state.value, exp(seen)) in {("pending", 239.999), ("expired", 120)}
        outcomes.add(seen.state)
    assert outcomes


@pytest.mark.trial("T106")
def test_t106_an_answer_and_the_expiry_in_the_same_instant_have_one_outcome(parties: Field) -> None:
    asker, (human, _), (observer, _), (waiter, _) = parties.party(), parties.at(LAST), parties.at(OVER), parties.at(OVER)
    for _ in range(RACES):
        asked = asker.open(Question("May I?", durable=True))
        waiting = waiter.wait(asked, asked.question, Cancel())

        answered, ended = at_once(lambda: human.answer(asked.id, YES), waiting.until_it_ends)  # noqa: B023

        assert isinstance(ended, StoredQuestion)
        expected = ("expired", "cancel", "expiry") if isinstance(answered, QuestionClosed) else ("answered", "accept", "human")
        assert how(ended) == how(observer.peek(asked.id)) == how(human.peek(asked.id)) == how(asker.peek(asked.id)) == expected
        assert [late.answer for late in observer.peek(asked.id).late] == ([YES] if isinstance(answered, QuestionClosed) else [])


def test_f5_of_two_answers_at_once_exactly_one_counts(parties: Field) -> None:
    asker, ann, bob, observer = (parties.party() for _ in range(4))
    for _ in range(RACES):
        asked = asker.open(Question("May I?", durable=True))

        results = at_once(lambda: ann.answer(asked.id, YES), lambda: bob.answer(asked.id, Answer("decline")))  # noqa: B023

        (won,) = [result for result in results if isinstance(result, StoredQuestion)]
        (lost,) = [result for result in results if isinstance(result, QuestionClosed)]
        assert how(won) == how(observer.peek(asked.id)) == how(ann.peek(asked.id)) == how(bob.peek(asked.id))
        assert won.standing in lost.message


def test_an_answer_and_a_withdrawal_at_once_have_one_outcome(parties: Field) -> None:
    asker, human, observer = (parties.party() for _ in range(3))
    for _ in range(RACES):
        question = Question("May I?")
        asked = asker.open(question)
        waiting = asker.wait(asked, question, Cancel())

        answered, ended = at_once(lambda: human.answer(asked.id, YES), waiting.withdraw)  # noqa: B023

        assert isinstance(ended, StoredQuestion)
        assert how(ended) == how(observer.peek(asked.id))
        assert isinstance(answered, QuestionClosed) == (how(ended)[2] == "asker")


def test_t106_each_question_has_one_end_and_every_later_answer_a_clear_reply(parties: Field) -> None:
    """The trial's own steps, at its own times, with its limit of 300 seconds."""
    clock = PassingClock()
    parties.party(clock)
    store = parties.stores[0]
    ids = iter(["q1", "q2", "q3"])
    broker = Broker(store, clock, lambda: Terms(timedelta(seconds=300), timedelta(seconds=1800), timedelta(days=30)), lambda: next(ids))
    ask = lambda: broker.open(Question("May I?", durable=True))  # noqa: E731  # said three times
    ask()
    clock.to(299)
    assert how(broker.answer("q1", YES)) == ("answered", "accept", "human")
    clock.to(300)
    waiting = broker.wait(ask(), Question("May I?"), Cancel())
    clock.to(601)
    ended = waiting.ended()
    assert ended is not None
    assert how(ended) == ("expired", "cancel", "expiry")
    clock.to(602)
    with pytest.raises(QuestionClosed, match="expired"):
        broker.answer("q2", YES)
    assert [late.answer for late in broker.peek("q2").late] == [YES]
    clock.to(610)
    ask()
    clock.to(621)
    broker.answer("q3", YES)
    clock.to(622)
    with pytest.raises(QuestionClosed, match="answered already"):
        broker.answer("q3", Answer("decline"))
    assert how(broker.peek("q3")) == ("answered", "accept", "human")
    assert START + timedelta(seconds=622) == clock.now()
