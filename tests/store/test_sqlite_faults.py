"""Full disks, folders that cannot be written, files of other versions: said plainly, and nothing is half done."""

from __future__ import annotations

import json
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from orchestrator.clock import SystemClock
from orchestrator.errors import StoreError, StoreFull, StoreReadOnly, StoreTooNew
from orchestrator.messages import Text
from orchestrator.percepts import Percept
from orchestrator.session import Outcome, Session, State
from orchestrator.store import schema
from orchestrator.store.archive import records
from orchestrator.store.sqlite import SqliteStore, open_store

TRIALS = Path(__file__).parents[1] / "trials"


def pragma(store: SqliteStore, text: str) -> int:
    return store._database._writing.connection.execute(f"PRAGMA {text}").fetchone()[0]


@pytest.mark.trial("T75")
def test_t75_a_full_disk_keeps_what_was_there_and_saving_goes_on_when_there_is_room(sqlite: Callable[..., SqliteStore], held, completed) -> None:
    assert json.loads((TRIALS / "T75.json").read_text())["expect"]["saving_resumes_after_space_returns"]
    store = sqlite()
    session, claim = held(store)
    store.open_turn(claim, completed(0), session)
    store.append_step(claim, 0, 0, Text("kept"))
    pragma(store, f"max_page_count = {pragma(store, 'page_count')}")
    for write in (
        lambda: store.append_step(claim, 0, 1, Text("x" * 100_000)),
        lambda: store.close_turn(claim, completed(0), replace(session, brief=None, state=State.WAITING), [Percept("p", "y", "user", subject="z" * 100_000)]),
        lambda: store.create(Session(id="s2", workspace="w" * 100_000, nonce="n")),
    ):
        with pytest.raises(StoreFull, match="cannot grow") as raised:
            write()
        assert raised.value.hint
    turn = store.log("s1").get(0)
    assert (turn.outcome, turn.steps) == (Outcome.OPEN, (Text("kept"),))
    assert store.find("s1", "/work/a").state is State.ROUTING
    pragma(store, "max_page_count = 1000000")
    store.append_step(claim, 0, 1, Text("x" * 100_000))
    store.close_turn(claim, completed(0), session)
    assert len(store.log("s1").get(0).steps) == 2
    assert pragma(store, "integrity_check") == "ok"


LIMITED = """
import resource, sys
from datetime import timedelta
from pathlib import Path
from orchestrator.clock import SystemClock
from orchestrator.errors import StoreFull
from orchestrator.messages import Text
from orchestrator.session import Outcome, Role, Session, Turn
from orchestrator.store.sqlite import open_store

store = open_store(Path(sys.argv[1]), clock=SystemClock())
session = Session(id="s1", workspace="/w", nonce="n")
store.create(session)
claim = store.claim("s1", "me", timedelta(hours=1))
store.open_turn(claim, Turn(0, Role.PRIMARY, "a", "p", outcome=Outcome.OPEN), session)
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
stored = 0
try:
    while True:
        store.append_step(claim, 0, stored, Text("x" * 10_000))
        stored += 1
except StoreFull as error:
    print("full", stored > 3, len(store.log("s1").get(0).steps) == stored)
try:
    store.forget(store.learn(__import__("orchestrator.percepts").percepts.Percept("p", "c", "user"))[0].id)
except StoreFull:
    print("still full")
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
store.append_step(claim, 0, stored, Text("x" * 10_000))
store.close_turn(claim, Turn(0, Role.PRIMARY, "a", "p"), session)
print("room", len(store.log("s1").get(0).steps) == stored + 1)
store.close()
"""


@pytest.mark.trial("T75")
def test_t75_a_limit_of_the_system_is_a_full_disk(folder: Path) -> None:
    run = subprocess.run([sys.executable, "-c", LIMITED, str(folder)], capture_output=True, text=True, check=False)
    assert run.stdout.splitlines() == ["full True True", "still full", "room True"], run.stderr
    with closing(sqlite3.connect(folder / "escalera.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_percept_is_kept_when_its_archive_cannot_be_written(folder: Path, sqlite: Callable[..., SqliteStore]) -> None:
    store = sqlite()
    store.learn(Percept("p1", "one", "user"))
    (folder / "memory").write_text("a file where the folder should be")
    with pytest.raises(StoreReadOnly):
        store.forget("p1")
    assert [percept.id for percept in store.percepts()] == ["p1"]
    (folder / "memory").unlink()
    store.forget("p1")
    assert not store.percepts()


def test_what_is_forgotten_is_in_the_archive(folder: Path, clock, sqlite: Callable[..., SqliteStore]) -> None:
    store = sqlite()
    archive = folder / "memory" / "global-archive.jsonl"
    store.learn(Percept("p1", "one\u2028two \ud800", "user", weight=40, created_at=clock.now()))
    store.learn(Percept("p2", "two", "user"))
    store.forget("p1")
    with archive.open("ab") as file:
        file.write(b'{"percept": {"id": "cut o')
    store.forget("p2")
    first, second = records(archive)
    assert first["percept"] | {"content": "one\u2028two \ufffd", "weight": 40, "created_at": "2026-01-01T10:00:00.000000Z"} == first["percept"]
    assert (first["reason"], first["archived_at"]) == ("forgotten", "2026-01-01T10:00:00.000000Z")
    assert second["percept"]["id"] == "p2"
    assert records(folder / "nothing") == ()


def test_what_only_a_dropped_session_knew_goes_to_the_archive(folder: Path, sqlite: Callable[..., SqliteStore]) -> None:
    store = sqlite()
    store.create(Session(id="s1", workspace="/w", nonce="n"))
    store.learn(Percept("p1", "one", "user", scope="session", session="s1"))
    store.learn(Percept("p2", "two", "user"))
    store.drop("s1", 1_000_000)
    assert [percept.id for percept in store.percepts(session="s1")] == ["p2"]
    assert [record["percept"]["id"] for record in records(folder / "memory" / "global-archive.jsonl")] == ["p1"]


@pytest.mark.trial("T77")
@pytest.mark.parametrize("where", ["file", "file/below", "/proc/self/data", "/sys/data"])
def test_t77_a_folder_that_cannot_be_made_is_named_with_the_setting(tmp_path: Path, clock, where: str) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(StoreReadOnly, match=str(tmp_path / where)) as raised:
        open_store(tmp_path / where, clock=clock)
    assert "ESCALERA_HOME" in raised.value.hint


@pytest.mark.trial("T77")
def test_t77_a_folder_where_the_file_should_be_is_said(folder: Path, clock) -> None:
    (folder / "escalera.db").mkdir(parents=True)
    with pytest.raises(StoreReadOnly, match=str(folder)):
        open_store(folder, clock=clock)


def test_nobody_else_can_read_the_files(folder: Path, sqlite: Callable[..., SqliteStore]) -> None:
    store = sqlite()
    store.create(Session(id="s1", workspace="/w", nonce="n"))
    store.learn(Percept("p1", "one", "user"))
    store.forget("p1")
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in [folder.parent, *folder.parent.rglob("*")]}
    assert {path.name for path in modes} >= {"escalera.db", "escalera.db-wal", "escalera.db-shm", "global-archive.jsonl"}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}
    store.close()
    backups = list((folder / "backups").iterdir())
    assert backups
    assert {stat.S_IMODE(path.stat().st_mode) for path in backups} == {0o600}


def test_a_file_that_others_could_read_is_tightened(folder: Path, sqlite: Callable[..., SqliteStore]) -> None:
    sqlite().close()
    (folder / "escalera.db").chmod(0o644)
    sqlite()
    assert stat.S_IMODE((folder / "escalera.db").stat().st_mode) == 0o600


@pytest.mark.parametrize("read_only", [True, False])
def test_a_newer_file_is_refused_with_both_versions(folder: Path, clock, sqlite: Callable[..., SqliteStore], read_only: bool) -> None:
    sqlite().close()
    with closing(sqlite3.connect(folder / "escalera.db")) as connection:
        connection.execute("PRAGMA user_version = 7041")
    before = (folder / "escalera.db").read_bytes()
    with pytest.raises(StoreTooNew, match=rf"7041.* {schema.VERSION}\b"):
        open_store(folder, clock=clock, read_only=read_only)
    assert (folder / "escalera.db").read_bytes() == before
    assert not list(folder.glob("*damaged*"))


@pytest.mark.parametrize("read_only", [True, False])
def test_the_database_of_another_program_is_left_alone(folder: Path, clock, read_only: bool) -> None:
    folder.mkdir(parents=True)
    with closing(sqlite3.connect(folder / "escalera.db")) as connection:
        connection.execute("CREATE TABLE recipes (name)")
    before = (folder / "escalera.db").read_bytes()
    with pytest.raises(StoreError, match="another program"):
        open_store(folder, clock=clock, read_only=read_only)
    assert (folder / "escalera.db").read_bytes() == before


def test_a_busy_store_is_said_and_nothing_is_set_aside(folder: Path, sqlite: Callable[..., SqliteStore]) -> None:
    store = sqlite()
    pragma(store, "busy_timeout = 20")
    with closing(sqlite3.connect(folder / "escalera.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="busy"):
            store.create(Session(id="s1", workspace="/w", nonce="n"))
    store.create(Session(id="s1", workspace="/w", nonce="n"))
    assert not list(folder.glob("*damaged*"))


def test_a_store_of_an_older_version_is_migrated_for_writing_and_read_as_it_is(folder: Path, clock, sqlite: Callable[..., SqliteStore]) -> None:
    folder.mkdir(parents=True)
    with closing(sqlite3.connect(folder / "escalera.db")) as connection:
        connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
    before = (folder / "escalera.db").read_bytes()
    assert sqlite(read_only=True).list(None) == []
    assert (folder / "escalera.db").read_bytes() == before
    sqlite().create(Session(id="s1", workspace="/w", nonce="n"))
    with closing(sqlite3.connect(folder / "escalera.db")) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (schema.VERSION,)


def test_the_journal_is_a_write_ahead_log(sqlite: Callable[..., SqliteStore]) -> None:
    store = sqlite()
    assert pragma(store, "journal_mode") == "wal"
    assert pragma(store, "synchronous") == 1
    assert pragma(store, "foreign_keys") == 1
    assert store.notices == ()


def test_the_time_of_the_store_is_the_clock_it_was_given(clock, sqlite: Callable[..., SqliteStore]) -> None:
    store = sqlite()
    clock.advance(days=3)
    assert store.now() == clock.now()


def test_a_clock_of_another_zone_is_understood(folder: Path) -> None:
    class Tokyo(SystemClock):
        def now(self):
            from datetime import datetime, timezone

            return datetime.now(timezone(timedelta(hours=9)))

    with closing(open_store(folder, clock=Tokyo())) as store:
        store.create(Session(id="s1", workspace="/w", nonce="n"))
        assert store.find("s1", "/w").updated_at.utcoffset() == timedelta()
        assert store.renew(store.claim("s1", "me", timedelta(minutes=1)), timedelta(minutes=1))


def test_a_closed_store_says_so_and_stays_closed(folder: Path, sqlite: Callable[..., SqliteStore]) -> None:
    store = sqlite()
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.list(None)
    assert not list((folder / "owners").iterdir())
