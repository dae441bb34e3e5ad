"""Receipts in the store: what they survive, and files that were written before there were any."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from orchestrator.errors import LeaseLost
from orchestrator.session import Outcome, Role, Session, Turn
from orchestrator.store import Claim, Store, schema
from orchestrator.store.sqlite import SqliteStore

PAGE = 4096
Opened = Callable[..., SqliteStore]


class TestAStore:
    def test_a_receipt_stands_from_the_opening_on_and_is_replaced_at_the_end(self, store: Store, held, completed) -> None:
        session, claim = held(store)
        turn = completed(0, outcome=Outcome.OPEN)
        store.open_turn(claim, turn, session, {"a": 1})
        store.open_turn(claim, turn, session, {"a": 1})
        assert store.receipts("s1") == {0: {"a": 1}}
        store.close_turn(claim, replace(turn, outcome=Outcome.COMPLETED), session, (), {"a": [2, {"deep": None}]})
        assert store.receipts("s1") == {0: {"a": [2, {"deep": None}]}}
        store.close_turn(claim, replace(turn, outcome=Outcome.COMPLETED), session, (), {"a": 3})
        assert store.receipts("s1") == {0: {"a": [2, {"deep": None}]}}

    def test_a_turn_without_one_keeps_the_one_it_was_opened_with(self, store: Store, held, completed) -> None:
        session, claim = held(store)
        store.open_turn(claim, completed(0), session, {"a": 1})
        store.close_turn(claim, completed(0), session)
        store.open_turn(claim, completed(1), session)
        assert store.receipts("s1") == {0: {"a": 1}}

    def test_who_lost_the_lease_writes_none(self, store: Store, held, completed, clock) -> None:
        session, claim = held(store)
        clock.advance(hours=1)
        assert isinstance(store.claim("s1", "other", timedelta(minutes=1)), Claim)
        with pytest.raises(LeaseLost):
            store.open_turn(claim, completed(0), session, {"a": 1})
        assert store.receipts("s1") == {}

    def test_they_go_with_their_turns(self, store: Store, held, completed) -> None:
        session, claim = held(store)
        for index in range(3):
            store.open_turn(claim, completed(index), session, {"turn": index})
            store.close_turn(claim, completed(index), session)
        store.withdraw(claim, 1, session)
        assert store.receipts("s1") == {0: {"turn": 0}}
        store.release(claim)
        store.drop("s1", 100)
        assert store.receipts("s1") == {}

    def test_an_import_brings_its_own_and_no_other(self, store: Store, new_session, completed) -> None:
        store.import_session(new_session("s1"), [completed(0), completed(4)], {4: {"b": "\udc00"}, 7: {"c": 1}})
        assert store.receipts("s1") == {4: {"b": "\ufffd"}}
        assert store.receipts("nobody") == {}


@pytest.fixture
def older(sqlite: Opened, folder: Path, completed) -> Path:
    """A file as it was before there were receipts."""
    store = sqlite()
    store.import_session(Session(id="s1", workspace="/work/a", nonce="n"), [completed(index) for index in range(100)])
    store.close()
    shutil.rmtree(folder / "backups", ignore_errors=True)
    with closing(sqlite3.connect(folder / "escalera.db")) as connection:
        make_older(connection)
    return folder / "escalera.db"


def make_older(connection: sqlite3.Connection) -> None:
    """Take away what later versions added."""
    for index in ("percepts_by_stance", "percepts_by_subject", "percepts_by_use", "percepts_core"):
        connection.execute(f"DROP INDEX {index}")
    for column in ("stance", "denied", "subject_key", "idle_mark", "weight_mark", "use", "aged_on"):
        connection.execute(f"ALTER TABLE percepts DROP COLUMN {column}")
    for table in ("receipts", "edges", "percept_words", "questions", "tasks", "artifacts", "step_contents", "contents"):
        connection.execute(f"DROP TABLE {table}")
    connection.execute("DROP INDEX turns_copied")
    connection.execute("ALTER TABLE turns DROP COLUMN copied_from")
    connection.execute("DELETE FROM meta WHERE key IN ('running', 'aged', 'uses', 'archived')")
    connection.execute("PRAGMA user_version = 1")
    connection.commit()


def spoil(database: Path, table: str) -> None:
    with closing(sqlite3.connect(database)) as connection:
        query = "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY pageno"
        pages = [page for (page,) in connection.execute(query, (table,))]
    with database.open("r+b") as file:
        file.seek((pages[len(pages) // 2] - 1) * PAGE)
        file.write(b"\xa5" * PAGE)


def test_an_older_file_gets_the_table_and_loses_nothing(older: Path, sqlite: Opened, completed) -> None:
    store = sqlite()
    claim = store.claim("s1", "me", timedelta(minutes=1))
    assert isinstance(claim, Claim)
    store.open_turn(claim, completed(100), store.find("s1", "/work/a"), {"a": 1})

    assert store.log("s1").count() == 100
    assert store.receipts("s1") == {100: {"a": 1}}
    with closing(sqlite3.connect(older)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (schema.VERSION,)


def test_an_older_file_is_read_without_being_changed(older: Path, sqlite: Opened) -> None:
    before = older.read_bytes()

    store = sqlite(read_only=True)

    assert (store.log("s1").count(), store.receipts("s1")) == (100, {})
    store.close()
    assert older.read_bytes() == before


def test_an_older_file_is_rescued_and_its_lack_of_receipts_is_no_loss(older: Path, sqlite: Opened) -> None:
    spoil(older, "steps")

    store = sqlite()

    assert len(list(store.log("s1").newest_first())) == 100
    assert store.receipts("s1") == {}
    assert any("Saved: 1 sessions, 100 turns" in notice for notice in store.notices), store.notices


def test_a_backup_from_before_receipts_still_fills_in(sqlite: Opened, folder: Path, completed, clock) -> None:
    store = sqlite()
    store.import_session(Session(id="s1", workspace="/work/a", nonce="n"), [completed(index) for index in range(100)], {3: {"a": 1}})
    store.close()
    clock.advance(days=2)
    sqlite().close()
    for backup in (folder / "backups").glob("*.db"):
        with closing(sqlite3.connect(backup)) as connection:
            make_older(connection)
    (folder / "escalera.db").write_bytes(b"spoilt" * 10_000)

    store = sqlite()

    assert store.log("s1").count() == 100
    assert store.log("s1").get(5).steps == completed(5).steps  # type: ignore[union-attr]  # it is there
    assert store.receipts("s1") == {}


def test_receipts_are_saved_from_a_damaged_file_and_filled_in_for_the_same_turns_only(sqlite: Opened, folder: Path, clock) -> None:
    store = sqlite()
    turns = [Turn(index, Role.PRIMARY, "local", f"prompt {index}") for index in range(100)]
    receipts = {index: {"turn": index, "filling": "x" * 300} for index in range(100)}
    store.import_session(Session(id="s1", workspace="/work/a", nonce="n"), turns, receipts)
    store.close()
    clock.advance(days=2)
    sqlite().close()
    spoil(folder / "escalera.db", "receipts")

    store = sqlite()

    assert store.receipts("s1") == receipts
