"""What the tests of the store share: a clock that is set by hand, and every kind of store there is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from orchestrator.session import Role, Session, Turn
from orchestrator.store import Claim, Store
from orchestrator.store.sqlite import SqliteStore, open_store

STORES = {"sqlite": open_store}
"""How each kind of store is opened; a new kind joins the suite by a line here."""


class HandClock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.at = datetime(2026, 1, 1, 10, tzinfo=UTC)

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()

    def sleep(self, seconds: float, wake: threading.Event | None = None) -> None:
        self.at += timedelta(seconds=seconds)

    def advance(self, **of: float) -> datetime:
        self.at += timedelta(**of)
        return self.at


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "home" / "data"


@pytest.fixture(params=STORES)
def opened(request: pytest.FixtureRequest, folder: Path, clock: HandClock) -> Iterator[Callable[..., Store]]:
    """Opens stores of one kind over the same data; closes them at the end."""
    stores: list[Store] = []

    def open_one(*, read_only: bool = False) -> Store:
        stores.append(STORES[request.param](folder, clock=clock, read_only=read_only))
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()


@pytest.fixture
def store(opened: Callable[..., Store]) -> Store:
    return opened()


@pytest.fixture
def sqlite(folder: Path, clock: HandClock) -> Iterator[Callable[..., SqliteStore]]:
    """Opens SQLite stores; closes them at the end."""
    stores: list[SqliteStore] = []

    def open_one(**options: bool) -> SqliteStore:
        stores.append(open_store(folder, clock=clock, **options))
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()


@pytest.fixture
def new_session() -> Callable[..., Session]:
    def make(identity: str = "s1", workspace: str = "/work/a", **fields: object) -> Session:
        return Session(id=identity, workspace=workspace, nonce="n0", **fields)  # type: ignore[arg-type]

    return make


@pytest.fixture
def held(new_session: Callable[..., Session]) -> Callable[..., tuple[Session, Claim]]:
    """A new session under a lease."""

    def make(store: Store, identity: str = "s1", owner: str = "me") -> tuple[Session, Claim]:
        session = new_session(identity)
        store.create(session)
        claim = store.claim(identity, owner, timedelta(seconds=60))
        assert isinstance(claim, Claim)
        return session, claim

    return make


@pytest.fixture
def completed() -> Callable[..., Turn]:
    def make(index: int, role: Role = Role.PRIMARY, **fields: object) -> Turn:
        return Turn(index=index, role=role, agent="local", **{"prompt": f"prompt {index}", **fields})  # type: ignore[arg-type]

    return make
