"""What came meanwhile is taken together: items of one call, and the texts that they tell."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from orchestrator.errors import Cancelled, Incomplete
from orchestrator.exchange import Exchange, joined_texts
from orchestrator.messages import Text
from orchestrator.providers import Cancel, Event, MessageDone, Stop, TextDelta, Timeouts


class Numbers:
    """A call that gives numbers, all of them before any is taken, and then ends or breaks."""

    def __init__(self, count: int, error: Exception | None = None) -> None:
        self._count, self._error = count, error
        self.given = threading.Event()

    def __call__(self, _stop: Stop) -> Iterator[int]:
        yield from range(self._count)
        self.given.set()
        if self._error is not None:
            raise self._error

    def exchange(self, cancel: Cancel | None = None) -> Exchange[int]:
        return Exchange(self, Timeouts(5, 5, 10), cancel or Cancel(), where="here", name="numbers", begins=lambda _: True)


def taken(exchange: Exchange[int]) -> Iterator[int]:
    while isinstance(item := exchange.next(), int):
        yield item


def test_none_is_lost_and_the_end_stays_the_end() -> None:
    with Numbers(200).exchange() as exchange:
        assert list(taken(exchange)) == list(range(200))
        assert exchange.next() is None
        assert exchange.next() is None


def test_the_error_behind_them_is_the_next_item_and_stays_so() -> None:
    broken = ValueError("broken")
    with Numbers(3, broken).exchange() as exchange:
        assert list(taken(exchange)) == [0, 1, 2]
        assert exchange.next() is broken
        assert exchange.next() is broken


def test_a_cancel_goes_before_what_has_come() -> None:
    cancel, numbers = Cancel(), Numbers(3)
    with numbers.exchange(cancel) as exchange:
        assert exchange.next() == 0
        assert numbers.given.wait(5)
        cancel.set()
        with pytest.raises(Cancelled):
            exchange.next()


def test_neighbouring_texts_are_one_and_others_stay_where_they_are() -> None:
    done = MessageDone((Text("abc"),))
    events: list[Event] = [TextDelta("a"), TextDelta("b"), done, TextDelta("c")]
    assert list(joined_texts(events)) == [TextDelta("ab"), done, TextDelta("c")]


def test_what_was_said_before_an_error_is_told_before_it() -> None:
    def broken() -> Iterator[Event]:
        yield TextDelta("a")
        yield TextDelta("b")
        raise Incomplete("cut")

    told = joined_texts(broken())
    assert next(told) == TextDelta("ab")
    with pytest.raises(Incomplete):
        next(told)
