"""Damaged rows hide nothing else; a damaged file is set aside whole, and what can be read lives on."""

# ruff: noqa: S608

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from orchestrator.artifacts import Artifact, ArtifactTerms
from orchestrator.clock import parse_time
from orchestrator.errors import LeaseLost, NotFound, StoreError
from orchestrator.messages import Text, Usage
from orchestrator.percepts import Edge, Inquiry, Percept
from orchestrator.session import Brief, ExternalSession, Outcome, Role, Session, State, Turn
from orchestrator.store import Claim, rescue, schema, search
from orchestrator.store.artifacts import hash_of
from orchestrator.store.faults import Damaged
from orchestrator.store.files import Files
from orchestrator.store.sqlite import SqliteStore, open_store

TRIALS = Path(__file__).parents[1] / "trials"
PAGE = 4096
Opened = Callable[..., SqliteStore]


@pytest.fixture
def filled(sqlite: Opened, folder: Path, completed) -> Path:
    """The database file of a closed store: two large sessions and a percept; without a backup."""
    store = sqlite()
    for identity in ("s1", "s2"):
        turns = [completed(index, steps=(Text(f"{identity} answer {index} " * 60),)) for index in range(100)]
        store.import_session(Session(id=identity, workspace="/work/a", nonce="n", state=State.WAITING), turns)
    store.learn(Percept("p1", "one", "user"))
    store.close()
    return folder / "escalera.db"


def without_backups(folder: Path) -> None:
    shutil.rmtree(folder / "backups")


def change(database: Path, *statements: str) -> None:
    with closing(sqlite3.connect(database)) as connection:
        for statement in statements:
            assert connection.execute(statement).rowcount
        connection.commit()


def overwrite(database: Path, page: int, garbage: bytes = b"\xa5" * PAGE) -> None:
    """Write over a page, counted from 1."""
    with database.open("r+b") as file:
        file.seek((page - 1) * PAGE)
        file.write(garbage)


def pages_of(database: Path, table: str) -> list[int]:
    with closing(sqlite3.connect(database)) as connection:
        return [page for (page,) in connection.execute("SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY pageno", (table,))]


# -- rows ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE turns SET role = 'butler' WHERE session = 's1' AND idx = 7",
        "UPDATE turns SET outcome = 'splendid' WHERE session = 's1' AND idx = 7",
        "UPDATE turns SET agent = x'ff' WHERE session = 's1' AND idx = 7",
    ],
)
def test_a_damaged_turn_is_skipped_and_named(filled: Path, sqlite: Opened, damage: str) -> None:
    change(filled, damage)
    store = sqlite(read_only=True)
    indexes = [turn.index for turn in store.log("s1").newest_first(outcomes=None)]
    assert indexes == [index for index in range(99, -1, -1) if index != 7]
    assert store.log("s2").count() == 100
    assert any("session s1, turn 7" in notice for notice in store.notices)


@pytest.mark.parametrize("payload", ["'{'", "'[]'", "'null'", '\'{"type": "dance"}\'', '\'{"type": "text"}\'', "x'c3'", "'1],[2'", "'{},{}'", "''"])
def test_a_damaged_step_is_skipped_and_named(filled: Path, sqlite: Opened, payload: str) -> None:
    change(filled, f"UPDATE steps SET payload = {payload} WHERE turn = (SELECT id FROM turns WHERE session = 's1' AND idx = 98)")
    store = sqlite()
    turns = list(store.log("s1").newest_first())
    assert [turn.index for turn in turns if not turn.steps] == [98]
    assert len(turns) == 100
    assert any("session s1, turn 98" in notice for notice in store.notices)
    assert len(store.search("answer", None, limit=500)) == 199


@pytest.mark.parametrize("column", ["started_at", "ended_at", "usage", "error", "reasons"])
def test_a_damaged_field_of_a_turn_is_unknown(filled: Path, sqlite: Opened, column: str) -> None:
    change(filled, f"UPDATE turns SET {column} = 'not a date' WHERE session = 's1' AND idx = 7")
    store = sqlite(read_only=True)
    turn = store.log("s1").get(7)
    assert turn.prompt == "prompt 7"
    assert not getattr(turn, column)
    assert any(f"turn 7: {column}" in notice for notice in store.notices)


@pytest.mark.parametrize("column", ["state", "need", "last_need", "brief", "updated_at", "created_at"])
def test_a_damaged_field_of_a_session_hides_neither_it_nor_others(filled: Path, sqlite: Opened, column: str) -> None:
    change(filled, f"UPDATE sessions SET {column} = '{{' WHERE id = 's1'")
    store = sqlite()
    session = store.find("s1", "/work/a")
    assert getattr(session, column) == (State.ROUTING if column == "state" else None)
    assert len(store.list(None)) == 2
    assert any(f"session s1: {column}" in notice for notice in store.notices)
    assert isinstance(store.claim("s1", "me", timedelta(minutes=1)), Claim)


def test_what_cannot_be_read_outlives_the_turns_after_it(filled: Path, sqlite: Opened) -> None:
    newer = json.dumps({"text": "build the bridge", "turn_index": 1, "during": False, "updated_at": None, "source": "newer"})
    external = "'c', 'e1', '/work/a', NULL, 'seven', NULL, '', '{}', '/work/a'"
    columns = "session, agent, id, workspace, config_dir, turn_index, model, system_text, delivered, workspace_key"
    change(
        filled,
        f"UPDATE sessions SET need = '{newer}', brief = '{{' WHERE id = 's1'",
        f"INSERT INTO external_sessions ({columns}) VALUES ('s1', {external})",
    )
    store = sqlite()
    claim = store.claim("s1", "me", timedelta(minutes=1))
    assert isinstance(claim, Claim)
    header = store.find("s1", "/work/a")
    store.save(claim, replace(header, external_sessions=(*header.external_sessions, ExternalSession("d", "e2", "/work/a"))))
    store.close()

    with closing(sqlite3.connect(filled)) as connection:
        assert connection.execute("SELECT need, brief FROM sessions WHERE id = 's1'").fetchone() == (newer, "{")
        assert connection.execute("SELECT agent, id FROM external_sessions ORDER BY agent").fetchall() == [("c", "e1"), ("d", "e2")]

    store = sqlite()
    claim = store.claim("s1", "me", timedelta(minutes=1))
    assert isinstance(claim, Claim)
    brief = Brief("a new one", "user")
    store.save(claim, replace(store.find("s1", "/work/a"), brief=brief))
    assert store.find("s1", "/work/a").brief == brief


def test_a_damaged_percept_and_a_damaged_lease_hide_nothing(filled: Path, sqlite: Opened) -> None:
    store = sqlite()
    store.learn(Percept("p2", "two", "user"))
    store.claim("s1", "lost", timedelta(minutes=1))
    store.close()
    change(filled, "UPDATE percepts SET producer = 'nobody' WHERE id = 'p1'", "UPDATE leases SET expires_at = 'soon'")
    store = sqlite()
    assert [percept.id for percept in store.percepts()] == ["p2"]
    assert any("percept p1" in notice for notice in store.notices)
    claim = store.claim("s1", "me", timedelta(minutes=1))
    assert isinstance(claim, Claim)
    change(filled, "UPDATE leases SET expires_at = 'soon'")
    with pytest.raises(LeaseLost):
        store.save(claim, store.find("s1", "/work/a"))


@pytest.mark.trial("T73")
def test_t73_every_form_of_time_compares_and_a_bad_one_stays_with_its_session(sqlite: Opened, folder: Path) -> None:
    trial = json.loads((TRIALS / "T73.json").read_text())
    store = sqlite()
    for key in trial["sessions"]:
        store.create(Session(id=key, workspace="/work/a", nonce="n"))
    store.close()
    with closing(sqlite3.connect(folder / "escalera.db")) as connection:
        for key, fields in trial["sessions"].items():
            connection.execute("UPDATE sessions SET updated_at = ? WHERE id = ?", (fields.get("last_used"), key))
        connection.commit()
    store = sqlite(read_only=True)
    now, limit = parse_time(trial["now"]), trial["stale_after_s"]
    found = {key: store.find(key, "/work/a").updated_at for key in trial["sessions"]}
    fresh = {key for key, used in found.items() if used is not None and (now - used).total_seconds() <= limit}
    assert fresh == {key for key, wanted in trial["expect"].items() if wanted == "resume"}
    assert {key for key, used in found.items() if used is None} == {"e", "f"}
    assert len(store.list(None)) == len(trial["sessions"])


@pytest.mark.trial("T73")
@pytest.mark.parametrize("text", ["2026-01-01T10:00:00", "2026-01-01T10:00:00Z", "2026-01-01T12:00:00+02:00", "20260101T100000Z", 1767261600, 1767261600.0])
def test_t73_a_time_without_a_zone_is_utc(text: str | float) -> None:
    assert parse_time(text) == datetime(2026, 1, 1, 10, tzinfo=UTC)


@pytest.mark.parametrize("text", ["not a date", "", "0001-01-01T00:00:00+14:00", 1e300, float("nan"), float("inf")])
def test_what_is_no_time_is_a_value_error(text: str | float) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  the kind is the contract
        parse_time(text)


# -- the file ------------------------------------------------------------------------------------


@pytest.mark.trial("T70")
def test_t70_a_file_that_is_no_database_is_kept_aside_and_work_goes_on(sqlite: Opened, folder: Path) -> None:
    text = json.loads((TRIALS / "T70.json").read_text())["file_text"].encode()
    folder.mkdir(parents=True)
    (folder / "escalera.db").write_bytes(text)
    store = sqlite()
    assert store.list(None) == []
    (notice,) = store.notices
    (aside,) = folder.glob("escalera.db.damaged-*")
    assert aside.name in notice
    assert aside.read_bytes() == text
    store.create(Session(id="s1", workspace="/work/a", nonce="n"))
    store.close()
    assert [summary.id for summary in sqlite().list(None)] == ["s1"]


@pytest.mark.parametrize("size", [16, 100, 512, 4096])
def test_a_beginning_that_was_overwritten_loses_nothing(filled: Path, folder: Path, sqlite: Opened, size: int) -> None:
    without_backups(folder)
    overwrite(filled, 1, b"\0" * size)
    damaged = filled.read_bytes()
    store = sqlite()
    assert {summary.id: summary.turns for summary in store.list(None)} == {"s1": 100, "s2": 100}
    assert store.log("s1").get(99).steps == (Text("s1 answer 99 " * 60),)
    assert store.find("s1", "/work/a").state is State.WAITING
    assert [percept.id for percept in store.percepts()] == ["p1"]
    (aside,) = folder.glob("escalera.db.damaged-*")
    assert aside.read_bytes() == damaged
    assert "2 sessions, 200 turns, 1 percepts" in store.notices[0]


def test_damaged_pages_cost_only_what_they_held(filled: Path, folder: Path, sqlite: Opened) -> None:
    without_backups(folder)
    leaves = pages_of(filled, "steps")
    for page in leaves[10:12]:
        overwrite(filled, page)
    store = sqlite()
    turns = list(store.log("s1").newest_first()) + list(store.log("s2").newest_first())
    assert len(turns) == 200
    lost = [turn for turn in turns if not turn.steps]
    assert 0 < len(lost) <= 20
    assert all(turn.steps[0].text.startswith(("s1", "s2")) for turn in turns if turn.steps)
    assert len(list(folder.glob("escalera.db.damaged-*Z"))) == 1


def test_a_file_that_was_cut_off_keeps_its_beginning(filled: Path, folder: Path, sqlite: Opened) -> None:
    without_backups(folder)
    first, *_, last = pages_of(filled, "turns")
    with filled.open("r+b") as file:
        file.truncate((last - 1) * PAGE)
    assert first < last
    store = sqlite()
    assert len(store.list(None)) == 2
    assert 20 < store.log("s1").count() + store.log("s2").count() < 200
    assert store.log("s1").get(3).steps
    with closing(sqlite3.connect(filled)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_the_backup_fills_in_what_was_lost(filled: Path, folder: Path, sqlite: Opened, clock, completed) -> None:
    clock.advance(hours=1)
    store = sqlite()
    store.import_session(Session(id="s3", workspace="/work/a", nonce="n"), [completed(0)])
    store.close()
    for page in pages_of(filled, "steps")[3:9]:
        overwrite(filled, page)
    store = sqlite()
    assert all(turn.steps for name in ("s1", "s2") for turn in store.log(name).newest_first())
    assert store.log("s3").count() == 1
    assert "backup of 2026-01-01 10:00 UTC" in store.notices[0]


def test_what_was_dropped_on_purpose_does_not_come_back_from_a_backup(filled: Path, sqlite: Opened) -> None:
    store = sqlite()
    store.drop("s2", 1_000_000)
    store.forget("p1")
    store.close()
    overwrite(filled, pages_of(filled, "steps")[3])
    store = sqlite()
    assert [percept.id for percept in store.percepts()] == []
    assert [summary.id for summary in store.list(None)] == ["s1"]


def test_a_destroyed_file_is_replaced_by_the_newest_backup_that_is_whole(filled: Path, folder: Path, sqlite: Opened, clock) -> None:
    clock.advance(days=2)
    sqlite().close()
    newest = max((folder / "backups").glob("escalera-*.db"))
    newest.write_bytes(b"spoilt" * 1000)
    filled.write_bytes(b"spoilt" * 10000)
    store = sqlite()
    assert {summary.id: summary.turns for summary in store.list(None)} == {"s1": 100, "s2": 100}
    assert store.log("s2").get(5).steps


@pytest.mark.parametrize("left", [b"", b"S"], ids=["nothing", "one byte"])
@pytest.mark.parametrize("log", [False, True])
def test_an_emptied_file_is_damage_and_costs_neither_its_log_nor_the_backups(
    filled: Path, folder: Path, tmp_path: Path, sqlite: Opened, clock, completed, left: bytes, log: bool
) -> None:
    clock.advance(days=2)
    store = sqlite()
    store.import_session(Session(id="s3", workspace="/work/a", nonce="n"), [completed(0)])
    killed = tmp_path / "killed"
    shutil.copytree(folder, killed)
    store.close()
    (killed / "escalera.db").write_bytes(left)
    if not log:
        for ending in ("-wal", "-shm"):
            (killed / f"escalera.db{ending}").unlink()
    kept = {path.name: path.read_bytes() for path in killed.iterdir() if path.is_file()}

    with pytest.raises(StoreError, match="emptied"):
        open_store(killed, clock=clock, read_only=True)
    assert {path.name: path.read_bytes() for path in killed.iterdir() if path.is_file()} == kept

    with closing(open_store(killed, clock=clock)) as store:
        assert {summary.id: summary.turns for summary in store.list(None)} == {"s1": 100, "s2": 100}
        assert any("was damaged" in notice for notice in store.notices)
    for name, content in kept.items():
        if name.startswith("escalera.db") and content:
            assert any(aside.read_bytes() == content for aside in killed.glob("escalera.db.damaged-*"))


def test_a_file_that_is_gone_is_begun_anew_and_a_log_that_it_left_is_kept(filled: Path, folder: Path, tmp_path: Path, sqlite: Opened, clock, completed) -> None:
    store = sqlite()
    store.import_session(Session(id="s3", workspace="/work/a", nonce="n"), [completed(0)])
    killed = tmp_path / "killed"
    shutil.copytree(folder, killed)
    store.close()
    (killed / "escalera.db").unlink()
    log = (killed / "escalera.db-wal").read_bytes()
    with closing(open_store(killed, clock=clock)) as store:
        assert {summary.id for summary in store.list(None)} == {"s1", "s2"}
    (aside,) = killed.glob("escalera.db.damaged-*-wal")
    assert aside.read_bytes() == log

    filled.unlink()
    with closing(open_store(folder, clock=clock)) as store:
        assert store.list(None) == []
        assert not store.notices


def test_turns_whose_session_was_lost_get_a_new_header(filled: Path, folder: Path, sqlite: Opened) -> None:
    without_backups(folder)
    (page,) = pages_of(filled, "sessions")
    overwrite(filled, page)
    store = sqlite()
    assert {summary.id: summary.turns for summary in store.list(None)} == {"s1": 100, "s2": 100}
    assert store.find("s1", "/elsewhere").nonce
    assert store.log("s1").get(3).prompt == "prompt 3"


def test_damage_met_in_the_middle_of_a_turn_does_not_end_it(filled: Path, folder: Path, sqlite: Opened, clock, completed) -> None:
    store = sqlite()
    claim = store.claim("s1", "me", timedelta(minutes=1))
    session = store.find("s1", "/work/a")
    store.open_turn(claim, completed(100), session)
    store.append_step(claim, 100, 0, Text("before"))
    with closing(sqlite3.connect(filled)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for page in pages_of(filled, "turns_by_outcome") + pages_of(filled, "sessions_by_workspace"):
        overwrite(filled, page)
    store._database._writing.connection.execute("PRAGMA shrink_memory")
    store.append_step(claim, 100, 1, Text("after"))
    store.close_turn(claim, completed(100, usage=Usage(1, 2)), session)
    assert store.log("s1").get(100) == completed(100, steps=(Text("before"), Text("after")), usage=Usage(1, 2))
    assert store.log("s1").count() == 101
    assert len(list(folder.glob("escalera.db.damaged-*Z"))) == 1
    store.release(claim)
    assert store.claim("s1", "next", timedelta(minutes=1)).fence > claim.fence


def test_a_claim_after_a_rescue_has_a_fence_above_every_older_one(filled: Path, folder: Path, sqlite: Opened) -> None:
    store = sqlite()
    old = store.claim("s1", "me", timedelta(minutes=1))
    store.release(old)
    store.close()
    (page,) = pages_of(filled, "meta")
    overwrite(filled, page)
    assert sqlite().claim("s1", "me", timedelta(minutes=1)).fence > old.fence


WRONG = [f"value = {wrong} WHERE key = '{key}'" for key in ("fence", "indexed", "aged", "uses") for wrong in ("'abc'", "x'ff00'", 2**63 - 1)]


def test_a_percept_whose_id_is_no_text_hides_no_other(filled: Path, sqlite: Opened) -> None:
    store = sqlite()
    for number in range(3):
        store.learn(Percept(f"sign{number}", f"The sign {number} is blue.", "user"))
    with closing(sqlite3.connect(filled)) as connection:
        connection.execute("UPDATE percepts SET id = x'ff00' WHERE id = 'sign1'")
        connection.commit()

    for text in ("which sign?", "the port"):
        found = sqlite().recall(Inquiry(frozenset({"user"}), "/work/a", None, text, explain=True))
        assert {"sign0", "sign2"} <= {*(percept.id for percept, _ in found.found), *(identity for identity, _ in found.withheld)}
        assert all(isinstance(identity, str) for identity, _ in found.withheld)


@pytest.mark.parametrize("change", ["key = 'fencf' WHERE key = 'fence'", *WRONG])
def test_a_counter_that_is_no_number_is_damage_and_counts_on_after_the_rescue(filled: Path, sqlite: Opened, change: str) -> None:
    store = sqlite()
    old = store.claim("s1", "me", timedelta(minutes=1))
    store.release(old)
    store.close()
    without_backups(filled.parent)
    with closing(sqlite3.connect(filled)) as connection:
        connection.execute(f"UPDATE meta SET {change}")
        connection.commit()

    store = sqlite()
    store.learn(Percept("sign", "The sign is blue.", "user"))
    claim = store.claim("s1", "me", timedelta(minutes=1))
    list(store.search("prompt", None))

    assert claim.fence > old.fence
    assert {summary.id: summary.turns for summary in store.list(None)} == {"s1": 100, "s2": 100}


def test_the_log_of_a_damaged_file_is_kept_and_read(filled: Path, folder: Path, tmp_path: Path, sqlite: Opened, clock, completed) -> None:
    store = sqlite()
    store.import_session(Session(id="s3", workspace="/work/a", nonce="n"), [completed(0)])
    left = tmp_path / "left"
    shutil.copytree(folder, left)
    without_backups(left)
    store.close()
    log = (left / "escalera.db-wal").read_bytes()
    overwrite(left / "escalera.db", pages_of(filled, "steps")[5])
    with left.joinpath("escalera.db").open("r+b") as file:
        file.write(b"\0" * 16)
    with closing(open_store(left, clock=clock)) as store:
        assert store.log("s3").count() == 1
        assert len(store.list(None)) == 3
    (aside,) = left.glob("escalera.db.damaged-*-wal")
    assert aside.read_bytes() == log


def test_a_file_that_another_process_has_open_is_not_moved_away(filled: Path, folder: Path, sqlite: Opened, clock) -> None:
    first = sqlite()
    overwrite(filled, 1, b"\0" * 100)
    with pytest.raises(StoreError, match="another process"):
        open_store(folder, clock=clock)
    assert not list(folder.glob("*damaged-*"))
    first.close()
    assert len(sqlite().list(None)) == 2


def test_processes_that_meet_the_damage_at_once_rescue_once(filled: Path, folder: Path) -> None:
    overwrite(filled, 1, b"\0" * 100)
    script = """
import sys
from pathlib import Path
from orchestrator.clock import SystemClock
from orchestrator.errors import StoreError
from orchestrator.store.sqlite import open_store
store = open_store(Path(sys.argv[1]), clock=SystemClock())
print(len(store.list(None)), len([notice for notice in store.notices if "damaged" in notice]))
store.close()
"""
    children = [subprocess.Popen([sys.executable, "-c", script, str(folder)], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    told = sorted(child.communicate()[0] for child in children)
    assert told == ["2 0\n", "2 0\n", "2 0\n", "2 1\n"]
    assert len(list(folder.glob("escalera.db.damaged-*Z"))) == 1


@pytest.mark.parametrize("log", [True, False])
def test_a_rescue_that_was_cut_off_is_finished(filled: Path, folder: Path, sqlite: Opened, log: bool) -> None:
    (folder / "escalera.db.rescued").write_bytes(filled.read_bytes())
    (folder / ".rescue-half").mkdir()
    (folder / ".rescue-half" / "new.db").write_bytes(b"half")
    filled.write_bytes(b"damaged")
    if log:
        (folder / "escalera.db-wal").write_bytes(b"its log")
    assert len(sqlite().list(None)) == 2
    assert {path.name for path in folder.iterdir()} == {"escalera.db", "escalera.db-wal", "escalera.db-shm", "escalera.lock", "owners", "backups"}


def test_two_rescues_at_one_time_keep_both_files(sqlite: Opened, folder: Path, clock) -> None:
    for text in (b"first" * 50, b"second" * 50):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "escalera.db").write_bytes(text)
        rescue.rescue(Files(folder), rescue.set_aside(Files(folder), clock.now()), clock.now())
    assert {path.read_bytes()[:5] for path in folder.glob("escalera.db.damaged-*")} == {b"first", b"secon"}


# -- what SQLite does not call damage ------------------------------------------------------------

EVERYTHING = {"s1": 100, "s2": 100}


def spoil(database: Path, what: bytes, other: bytes) -> None:
    """Put other bytes of the same length in the place of these."""
    content = database.read_bytes()
    assert len(what) == len(other)
    assert content.count(what) == 1
    database.write_bytes(content.replace(what, other))


def spoil_header(database: Path, at: int, garbage: bytes) -> None:
    with database.open("r+b") as file:
        file.seek(at)
        file.write(garbage)


def turns_of(store: SqliteStore) -> dict[str, int]:
    """How many can be read of each session."""
    return {summary.id: len(list(store.log(summary.id).newest_first())) for summary in store.list(None)}


def saved(store: SqliteStore, folder: Path) -> dict[str, int]:
    """The turns of each session, of a store that was set aside once, which was said, and that can be written again."""
    counts = turns_of(store)
    store.create(Session(id="new", workspace="/work/new", nonce="n"))
    assert store.percept("p1").content == "one"
    assert len(list(folder.glob("escalera.db.damaged-*Z"))) == 1
    assert any("was damaged" in notice for notice in store.notices)
    return counts


SCHEMA_TEXTS = {
    "not UTF-8": (b"CREATE TABLE turns", b"CREATE \xa8\xa5\xff\xfeE turns"),
    "a column's name": (b"prompt TEXT,\n        mode TEXT", b"prompt TEXT,\n        modf TEXT"),
    "a table's name": (b"CREATE TABLE percepts (", b"CREATE TABLE perbepts ("),
    "a foreign key": (b"steps (\n        turn INTEGER NOT NULL REFERENCES turns (id)", b"steps (\n        turn INTEGER NOT NULL REFERENCES turns (ie)"),
    "a key": (b"CREATE INDEX turns_by_outcome ON turns (session, role", b"CREATE INDEX turns_by_outcome ON turns (sessiox, role"),
}


@pytest.mark.parametrize(("what", "other"), SCHEMA_TEXTS.values(), ids=SCHEMA_TEXTS)
def test_a_damaged_text_of_the_schema_loses_nothing(filled: Path, folder: Path, sqlite: Opened, completed, what: bytes, other: bytes) -> None:
    without_backups(folder)
    spoil(filled, what, other)
    store = sqlite()
    claim = store.claim("s1", "me", timedelta(minutes=1))
    store.open_turn(claim, completed(100), store.find("s1", "/work/a"))
    store.append_step(claim, 100, 0, Text("more"))
    assert saved(store, folder) == EVERYTHING


@pytest.mark.parametrize("text", ["not UTF-8", "a column's name"])
def test_a_damaged_text_of_the_schema_is_said_to_who_only_reads(filled: Path, folder: Path, sqlite: Opened, text: str) -> None:
    spoil(filled, *SCHEMA_TEXTS[text])
    before = filled.read_bytes()
    with pytest.raises(StoreError, match="damaged") as told:
        list(sqlite(read_only=True).log("s1").newest_first())
    assert "sets the file aside" in str(told.value.hint)
    assert filled.read_bytes() == before


@pytest.mark.parametrize("which", [slice(0, 1), slice(1, 2), slice(0, 9)], ids=["first", "second", "all"])
@pytest.mark.parametrize("first_too", [False, True])
def test_lost_pages_of_the_schema_lose_nothing_else(filled: Path, folder: Path, sqlite: Opened, which: slice, first_too: bool) -> None:
    without_backups(folder)
    for page in [*pages_of(filled, "sqlite_schema")[which], *([1] if first_too else [])]:
        overwrite(filled, page)
    assert saved(sqlite(), folder) == EVERYTHING


HEADERS = {
    "a format that none has": (60, (0xDD0005).to_bytes(4, "big")),
    "a negative format": (60, b"\xff\0\0\5"),
    "an older format": (60, (2).to_bytes(4, "big")),
    "no format": (60, bytes(4)),
    "the mark of another program": (68, b"ESCB"),
    "no mark": (68, bytes(4)),
    "a format that cannot be written": (18, b"\x62"),
    "a format that cannot be read": (19, b"\x62"),
    "a format of its schema that there is not": (47, b"\x90"),
    "another encoding": (59, b"\2"),
    "fewer pages than there are": (28, (60).to_bytes(4, "big")),
    "another page size": (16, b"\x08\0"),
}


@pytest.mark.parametrize(("at", "garbage"), HEADERS.values(), ids=HEADERS)
def test_a_damaged_header_loses_nothing(filled: Path, folder: Path, sqlite: Opened, at: int, garbage: bytes) -> None:
    without_backups(folder)
    spoil_header(filled, at, garbage)
    assert saved(sqlite(), folder) == EVERYTHING


INDEXES = {
    "unknown format": "UPDATE {}_config SET v = 99",
    "no format": "DELETE FROM {}_config",
    "nonsense": "UPDATE {}_docsize SET sz = x''",
    "no content": "DELETE FROM {}_data",
}


@pytest.mark.parametrize("damage", INDEXES.values(), ids=INDEXES)
@pytest.mark.parametrize("index", ["search", "percept_words"])
def test_a_damaged_search_index_is_made_anew(filled: Path, folder: Path, sqlite: Opened, index: str, damage: str) -> None:
    store = sqlite()
    store.search("answer", None)
    store.close()
    without_backups(folder)
    change(filled, damage.format(index))

    store = sqlite()
    assert len(store.search("answer", None, limit=500)) == 200
    assert [percept.id for percept, _ in store.recall(Inquiry(frozenset({"all"}), "/w", None, "the one?")).found] == ["p1"]
    assert saved(store, folder) == EVERYTHING


def test_a_turn_that_only_an_index_knows_is_damage(filled: Path, sqlite: Opened) -> None:
    store = sqlite()
    store.search("answer", None)
    connection = store._database._writing.connection
    connection.execute("DELETE FROM turns WHERE id = 7")
    with pytest.raises(Damaged, match="turn 7"):
        search.forget_turns(connection, [7], store._database.notice)


def test_an_artifact_whose_content_is_gone_is_damage_and_goes(filled: Path, folder: Path, sqlite: Opened, clock) -> None:
    without_backups(folder)
    store = sqlite()
    for body in (b"one", b"two"):
        identity = body.decode()
        life = ArtifactTerms().life(clock.now())
        store.add_artifact(Artifact(identity, "answer", hash_of(body), len(body), "s1", 0, None, life, not life.explicit), body, None)
    store.close()
    change(filled, f"DELETE FROM contents WHERE sha256 = '{hash_of(b'one')}'")
    without_backups(folder)

    store = sqlite()
    with pytest.raises(NotFound):
        store.artifact_body("one")
    assert store.artifact_body("two") == b"two"
    assert saved(store, folder) == EVERYTHING


def test_rows_between_two_damaged_pages_are_saved(filled: Path, folder: Path, sqlite: Opened) -> None:
    without_backups(folder)
    leaves = pages_of(filled, "steps")
    for page in (leaves[0], leaves[-1]):
        overwrite(filled, page)
    store = sqlite()
    assert sum(not turn.steps for name in EVERYTHING for turn in store.log(name).newest_first()) < 20


def test_a_percept_of_a_backup_whose_text_is_no_text_stops_nothing(filled: Path, folder: Path, sqlite: Opened) -> None:
    for backup in (folder / "backups").glob("*.db"):
        change(backup, "UPDATE percepts SET content = CAST(x'6f6e65ff' AS TEXT), subject = CAST(x'ff' AS TEXT)")
    filled.write_bytes(b"gone" * 5000)
    store = sqlite()
    assert [percept.content for percept in store.percepts()] == ["one\ufffd"]
    assert turns_of(store) == EVERYTHING


# -- backups -------------------------------------------------------------------------------------


def backups(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "backups").glob("*.db"))


def test_a_backup_is_made_once_a_day_and_three_are_kept(filled: Path, folder: Path, sqlite: Opened, clock) -> None:
    assert backups(folder) == ["escalera-20260101T100000Z.db"]
    clock.advance(hours=23)
    sqlite().close()
    assert len(backups(folder)) == 1
    for _ in range(4):
        clock.advance(days=1)
        sqlite().close()
    assert backups(folder) == [f"escalera-2026010{day}T090000Z.db" for day in (4, 5, 6)]
    with closing(sqlite3.connect(folder / "backups" / backups(folder)[-1])) as connection:
        assert connection.execute("SELECT count(*) FROM turns").fetchone() == (200,)


def test_a_backup_from_the_future_stops_none(filled: Path, folder: Path, sqlite: Opened, clock) -> None:
    (folder / "backups" / backups(folder)[0]).rename(folder / "backups" / "escalera-20990101T000000Z.db")
    sqlite().close()
    assert "escalera-20260101T100000Z.db" in backups(folder)


def test_no_backup_is_made_of_damage_and_the_damage_is_found(filled: Path, folder: Path, sqlite: Opened, clock) -> None:
    overwrite(filled, pages_of(filled, "steps")[3])
    clock.advance(days=2)
    store = sqlite()
    assert any("set aside" in notice or "kept as" in notice for notice in store.notices)
    assert all(turn.steps for turn in store.log("s1").newest_first())
    assert backups(folder) == ["escalera-20260101T100000Z.db"]


def test_an_empty_store_makes_no_backup(sqlite: Opened, folder: Path) -> None:
    sqlite().close()
    assert not (folder / "backups").exists()


def test_a_backup_that_cannot_be_made_is_said_and_stops_nothing(folder: Path, sqlite: Opened, clock) -> None:
    store = sqlite()
    store.create(Session(id="s1", workspace="/w", nonce="n"))
    (folder / "backups").write_text("in the way")
    store.close()
    assert any("no backup" in notice for notice in store.notices)
    assert len(sqlite().list(None)) == 1


def test_turns_of_a_backup_that_were_open_are_interrupted(sqlite: Opened, folder: Path, clock) -> None:
    store = sqlite()
    store.create(Session(id="s1", workspace="/w", nonce="n"))
    claim = store.claim("s1", "me", timedelta(minutes=1))
    store.open_turn(claim, Turn(0, Role.PRIMARY, "a", "p"), store.find("s1", "/w"))
    store.close()
    (folder / "escalera.db").write_bytes(b"gone" * 5000)
    store = sqlite()
    assert store.log("s1").get(0).outcome is Outcome.INTERRUPTED
    assert isinstance(store.claim("s1", "me", timedelta(minutes=1)), Claim)


def test_saved_percepts_are_found_linked_and_counted_as_before(filled: Path, folder: Path, sqlite: Opened, clock) -> None:
    store = sqlite()
    store.learn(Percept("p2", "the port is 5432", "user", subject="db"))
    store.learn(Percept("p3", "the port is 5433", "user", subject="db"))
    store.consolidate(archive_after=None, most=None)
    clock.advance(hours=2)
    store.consolidate(archive_after=None, most=None)
    before = store.percepts()
    store.close()
    without_backups(folder)
    overwrite(filled, 1, b"\0" * 100)

    store = sqlite()

    assert store.percepts() == before
    assert store.edges() == [Edge("p3", "p2", "updates")]
    assert [percept.id for percept, _ in store.recall(Inquiry(frozenset({"all"}), "/w", None, "which port?")).found] == ["p3"]
    assert not store.learn(Percept("p4", "port 5433", "user"))[1]
    clock.advance(hours=1)
    store.consolidate(archive_after=None, most=None)
    assert store.percept("p2").idle_seconds == 10_800


def test_a_backup_of_an_older_version_fills_in_what_it_has(filled: Path, folder: Path, sqlite: Opened) -> None:
    """As one made before an update, whose percepts have fewer columns."""
    for backup in (folder / "backups").glob("escalera-*.db"):
        change(
            backup,
            "INSERT INTO percepts SELECT seq + 1, 'p2', statement, 'use tabs', producer, consumer, weight, core, scope, workspace, workspace_key, session,"
            " subject, created_at, updated_at, last_used_at, idle_seconds, source, trust, stance, denied, subject_key, idle_mark, weight_mark, use, aged_on"
            " FROM percepts",
        )
        with closing(sqlite3.connect(backup, isolation_level=None)) as connection:
            for index in ("percepts_by_stance", "percepts_by_subject", "percepts_by_use"):
                connection.execute(f"DROP INDEX {index}")
            for column in ("stance", "denied", "subject_key", "idle_mark", "weight_mark", "use", "aged_on"):
                connection.execute(f"ALTER TABLE percepts DROP COLUMN {column}")
            connection.execute("DROP TABLE edges")
            connection.execute("PRAGMA user_version = 1")
    overwrite(filled, pages_of(filled, "percepts")[0])

    store = sqlite()

    assert sorted(percept.id for percept in store.percepts()) == ["p1", "p2"]
    assert [percept.id for percept, _ in store.recall(Inquiry(frozenset({"all"}), "/w", None, "tabs?")).found] == ["p2"]


def before_questions(database: Path) -> None:
    """As a version that knew neither questions nor tasks left it."""
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        for table in ("questions", "tasks", "artifacts", "step_contents", "contents"):
            connection.execute(f"DROP TABLE {table}")
        connection.execute("DROP INDEX turns_copied")
        connection.execute("ALTER TABLE turns DROP COLUMN copied_from")
        connection.execute(f"PRAGMA user_version = {schema.MIGRATIONS.index(schema._QUESTIONS)}")


@pytest.mark.parametrize("backup", [True, False])
def test_a_damaged_file_of_an_older_version_is_rescued_with_its_older_backup(filled: Path, sqlite: Opened, folder: Path, backup: bool) -> None:
    before_questions(filled)
    if backup:
        for kept in (folder / "backups").glob("*.db"):
            before_questions(kept)
    else:
        without_backups(folder)
    overwrite(filled, pages_of(filled, "turns")[0])

    store = sqlite()
    whole = [len(list(store.log(session).newest_first())) for session in ("s1", "s2")] == [100, 100]

    (told,) = [notice for notice in store.notices if "was damaged" in notice]
    assert ("With the backup" in told, whole) == (backup, backup)
    assert list(store.questions()) == []


@pytest.mark.parametrize("moment", range(4))
def test_a_store_that_another_process_makes_meanwhile_is_not_taken_for_damaged(tmp_path: Path, moment: int) -> None:
    """Its header and its tables are looked at in one state of the file."""
    seen: list[str] = []

    def make(statement: str) -> None:
        seen.append(statement)
        if len(seen) == moment + 1:
            with closing(sqlite3.connect(tmp_path / "new.db", isolation_level=None, timeout=0)) as other, suppress(sqlite3.OperationalError):
                schema.migrate(other)

    with closing(sqlite3.connect(tmp_path / "new.db", isolation_level=None)) as connection:
        connection.set_trace_callback(make)
        assert schema.version_of(connection) in (0, schema.VERSION)
    assert len(seen) > moment
