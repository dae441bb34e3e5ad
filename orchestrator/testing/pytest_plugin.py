"""Fixtures for the tests of plugins, there wherever Escalera and pytest are installed. They import what they need when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from orchestrator.store.sqlite import SqliteStore
    from orchestrator.testing.fake_provider import FakeProvider
    from orchestrator.testing.hand_clock import HandClock


@pytest.fixture
def escalera_clock() -> HandClock:
    """A clock that stands still until the test moves it."""
    from orchestrator.testing.hand_clock import HandClock

    return HandClock()


@pytest.fixture
def escalera_ids() -> Callable[[], str]:
    """A function that gives `id-1`, `id-2` and so on, in place of random ids."""
    from orchestrator.testing.hand_clock import counted_ids

    return counted_ids()


@pytest.fixture
def escalera_store(tmp_path: Path, escalera_clock: HandClock) -> Iterator[SqliteStore]:
    """A real store in a folder of its own, by that clock; closed at the end."""
    from orchestrator.store.sqlite import open_store

    store = open_store(tmp_path / "escalera-store", clock=escalera_clock)
    yield store
    store.close()


@pytest.fixture
def escalera_provider() -> FakeProvider:
    """A provider that follows the scripts that the test adds with `will`."""
    from orchestrator.testing.fake_provider import FakeProvider

    return FakeProvider()
