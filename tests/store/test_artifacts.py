"""Artifacts in the store: their life, their content that is stored once, and the turns whose texts it is (page 5)."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from orchestrator.artifacts import Artifact, ArtifactTerms
from orchestrator.errors import NotFound
from orchestrator.messages import Text, ToolCall, ToolResult
from orchestrator.session import Session, Turn
from orchestrator.store import Claim, Store, schema
from orchestrator.store.artifacts import hash_of
from orchestrator.store.sqlite import SqliteStore

from .conftest import HandClock

BIG = "a line of the log\n" * 5000
HOUR = timedelta(hours=1)
ABSOLUTE, RENEWED = ArtifactTerms(), ArtifactTerms(idle_ttl=2 * HOUR)

Put = Callable[..., bool]


@pytest.fixture
def put(store: Store, clock: HandClock) -> Put:
    """Puts an artifact of a session, which is made where it is not there."""

    def make(identity: str = "a1", text: str = BIG, terms: ArtifactTerms = ABSOLUTE, session: str = "s1") -> bool:
        if not any(one.id == session for one in store.list(None)):
            store.create(Session(id=session, workspace="/work/a", nonce="n0"))
        body = text.encode()
        life = terms.life(clock.now())
        return store.add_artifact(Artifact(identity, "answer", hash_of(body), len(body), session, 0, None, life, not life.explicit), body, terms.quota)

    return make


@pytest.fixture
def spoken(store: Store, put: Put, completed: Callable[..., Turn]) -> Callable[..., Turn]:
    """A turn of the session `s1` whose large texts were kept as artifacts before its steps were stored."""

    def make(index: int = 0) -> Turn:
        put(f"a{index}")
        claim = store.claim("s1", "me", timedelta(seconds=60))
        assert isinstance(claim, Claim)
        turn = completed(index, steps=(ToolCall("c1", "read", {"file": "x"}), ToolResult("c1", BIG), Text(BIG + "the end"), Text(BIG)))
        store.open_turn(claim, replace(turn, steps=()), store.find("s1", "/work/a"))
        for seq, step in enumerate(turn.steps):
            store.append_step(claim, index, seq, step)
        store.close_turn(claim, turn, store.find("s1", "/work/a"))
        store.release(claim)
        return turn

    return make


def contents(store: SqliteStore) -> int:
    """How many texts are stored."""
    (found,) = store._database._writing.connection.execute("SELECT count(*) FROM contents").fetchone()  # type: ignore[union-attr]
    return int(found)


def exp(artifact: Artifact) -> timedelta:
    return artifact.life.expires_at - artifact.life.created


# -- their life ----------------------------------------------------------------------------------


def test_h5_no_read_moves_the_deadline_of_an_artifact(store: Store, clock: HandClock, put: Put) -> None:
    put()
    clock.advance(hours=12)

    read = store.read_artifact("a1")

    assert (exp(read), store.artifact_body("a1")) == (24 * HOUR, BIG.encode())
    assert exp(store.peek_artifact("a1")) == 24 * HOUR
    assert (read.life.last_touched, read.renewed) == (read.life.created, False)


def test_h7_past_its_expiry_nothing_of_it_is_served_though_nothing_collected_it(store: Store, clock: HandClock, put: Put) -> None:
    put()
    clock.advance(hours=24)

    for serve in (store.read_artifact, store.peek_artifact, store.artifact_body):
        with pytest.raises(NotFound) as unknown:
            serve("a1")
        assert "may have expired" in (unknown.value.hint or "")
    assert store.artifacts() == []


def test_one_that_opted_in_lives_by_being_read_and_not_by_being_listed_or_looked_at(store: Store, clock: HandClock, put: Put) -> None:
    put(terms=RENEWED)
    clock.advance(hours=1)
    assert (exp(store.artifacts()[0]), exp(store.peek_artifact("a1"))) == (2 * HOUR, 2 * HOUR)
    store.artifact_body("a1")
    assert exp(store.peek_artifact("a1")) == 2 * HOUR

    assert exp(store.read_artifact("a1")) == 3 * HOUR


def test_one_that_opted_in_never_passes_the_ceiling(store: Store, clock: HandClock, put: Put) -> None:
    put(terms=RENEWED)
    for _ in range(23):
        clock.advance(hours=1)
        store.read_artifact("a1")
    assert exp(store.peek_artifact("a1")) == 24 * HOUR

    clock.advance(hours=1)
    with pytest.raises(NotFound):
        store.read_artifact("a1")


def test_a_life_goes_by_the_settings_of_its_start(store: Store, clock: HandClock, put: Put) -> None:
    put(terms=ArtifactTerms(ttl=HOUR))
    put("a2")
    clock.advance(hours=2)

    assert [artifact.id for artifact in store.artifacts()] == ["a2"]


# -- content -------------------------------------------------------------------------------------


def test_the_same_content_is_stored_once_and_lives_as_long_as_any_that_has_it(store: SqliteStore, clock: HandClock, put: Put) -> None:
    put()
    clock.advance(hours=12)
    put("a2")
    assert contents(store) == 1
    clock.advance(hours=13)
    store.collect_artifacts()

    assert ([artifact.id for artifact in store.artifacts()], store.artifact_body("a2")) == (["a2"], BIG.encode())
    clock.advance(hours=12)
    store.collect_artifacts()
    assert contents(store) == 0


def test_the_same_artifact_twice_is_one(store: Store, put: Put) -> None:
    assert [put(), put()] == [True, True]

    assert len(store.artifacts()) == 1


def test_the_quota_counts_a_content_once_and_what_has_expired_not_at_all(store: Store, clock: HandClock, put: Put) -> None:
    terms = ArtifactTerms(quota=2 * len(BIG))
    assert [put("a1", terms=terms), put("a2", terms=terms), put("a3", "x" * len(BIG), terms)] == [True, True, True]

    assert not put("a4", "one more", terms)
    assert [artifact.id for artifact in store.artifacts()] == ["a1", "a2", "a3"]
    clock.advance(hours=24)
    assert put("a5", "one more", terms)


def test_any_bytes_and_names_are_kept_as_they_are(store: Store, clock: HandClock, put: Put) -> None:
    put()
    body = b"\xff\x00\x1b[31m"
    store.add_artifact(Artifact("odd", "file", hash_of(body), len(body), "s1", None, "a\x00\ud800.bin", ABSOLUTE.life(clock.now())), body, None)

    assert store.artifact_body("odd") == body
    assert store.peek_artifact("odd").name == "a\ufffd\ufffd.bin"


@pytest.mark.parametrize("broken", ["kind = 'odd'", "expires_at = 'never'", "ttl_ms = 'x'"])
def test_a_damaged_row_is_skipped_and_said(store: SqliteStore, put: Put, broken: str) -> None:
    put()
    put("a2")
    with closing(sqlite3.connect(store._database.files.database, isolation_level=None)) as other:
        other.execute(f"UPDATE artifacts SET {broken} WHERE id = 'a1'")  # noqa: S608  # of this test

    assert [artifact.id for artifact in store.artifacts()] == ["a2"]
    assert any("artifact a1" in notice for notice in store.notices)


# -- the turns whose texts they are --------------------------------------------------------------


def test_a_turn_keeps_all_of_its_texts_when_the_artifacts_are_gone(store: SqliteStore, clock: HandClock, spoken: Callable[..., Turn]) -> None:
    turn = spoken()
    clock.advance(days=9)
    store.collect_artifacts()

    kept = store.log("s1").get(0)

    assert kept is not None
    assert kept.steps == turn.steps
    assert (store.artifacts(), contents(store)) == ([], 1)
    assert [hit.turn for hit in store.search("log the end", None)] == [0]


def test_a_text_that_many_turns_have_takes_its_room_once(store: SqliteStore, spoken: Callable[..., Turn]) -> None:
    for index in range(20):
        spoken(index)

    (size,) = store._database._writing.connection.execute("SELECT sum(length(payload)) FROM steps").fetchone()  # type: ignore[union-attr]
    assert contents(store) == 1
    assert size < 21 * len(BIG) + 20_000  # only the text that ends otherwise stands in its own place, once a turn


def test_what_is_copied_holds_the_content_too(store: SqliteStore, spoken: Callable[..., Turn]) -> None:
    turn = spoken()
    store.import_session(Session(id="s2", workspace="/work/a", nonce="n0"), [turn])
    store.drop("s1", 1)
    assert contents(store) == 1

    copied = store.log("s2").get(0)

    assert copied is not None
    assert copied.steps == turn.steps


def test_a_dropped_session_leaves_none_of_its_texts(store: SqliteStore, spoken: Callable[..., Turn]) -> None:
    spoken()
    store.search("log", None)
    store.drop("s1", 1)

    assert (store.artifacts(), contents(store), list(store.search("log", None))) == ([], 0, [])


def test_a_withdrawn_turn_leaves_none_of_its_texts(store: SqliteStore, clock: HandClock, spoken: Callable[..., Turn]) -> None:
    spoken()
    clock.advance(hours=24)
    claim = store.claim("s1", "me", timedelta(seconds=60))
    assert isinstance(claim, Claim)

    store.withdraw(claim, 0, store.find("s1", "/work/a"))

    assert contents(store) == 0


def test_a_step_whose_content_is_lost_is_skipped_and_said(store: SqliteStore, spoken: Callable[..., Turn], sqlite: Callable[..., SqliteStore]) -> None:
    spoken()
    with closing(sqlite3.connect(store._database.files.database, isolation_level=None)) as other:
        other.execute("DELETE FROM contents")
    again = sqlite()

    turn = again.log("s1").get(0)

    assert turn is not None
    assert [type(step) for step in turn.steps] == [ToolCall, Text]
    assert any("turn 0: step 1 skipped" in notice for notice in again.notices)


# -- older and damaged files ---------------------------------------------------------------------


def before_artifacts(database: Path) -> None:
    """As a version that knew none left it."""
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        for table in ("artifacts", "step_contents", "contents"):
            connection.execute(f"DROP TABLE {table}")
        connection.execute("DROP INDEX turns_copied")
        connection.execute("ALTER TABLE turns DROP COLUMN copied_from")
        connection.execute(f"PRAGMA user_version = {schema.MIGRATIONS.index(schema._ARTIFACTS)}")


def test_a_store_from_before_copies_were_marked_is_migrated_with_all_its_turns(
    sqlite: Callable[..., SqliteStore], folder: Path, completed: Callable[..., Turn]
) -> None:
    old = sqlite()
    old.import_session(Session(id="s1", workspace="/work/a", nonce="n0"), [completed(0), completed(1)])
    old.close()
    with closing(sqlite3.connect(folder / "escalera.db", isolation_level=None)) as connection:
        connection.execute("DROP INDEX turns_copied")
        connection.execute("ALTER TABLE turns DROP COLUMN copied_from")
        connection.execute(f"PRAGMA user_version = {schema.MIGRATIONS.index(schema._COPIES)}")

    store = sqlite()

    assert [turn.copied_from for turn in store.log("s1").newest_first()] == [None, None]
    assert [usage.turns for usage in store.usage("session")] == [2]


def test_a_store_from_before_there_were_artifacts_is_migrated_with_all_its_turns(
    sqlite: Callable[..., SqliteStore], folder: Path, clock: HandClock, completed: Callable[..., Turn]
) -> None:
    turn = completed(0, steps=(Text(BIG),))
    old = sqlite()
    old.import_session(Session(id="s1", workspace="/work/a", nonce="n0"), [turn])
    old.close()
    before_artifacts(folder / "escalera.db")

    assert sqlite(read_only=True).artifacts() == []
    new = sqlite()
    assert new.log("s1").get(0) == turn
    body = BIG.encode()
    assert new.add_artifact(Artifact("a1", "answer", hash_of(body), len(body), "s1", 0, None, ABSOLUTE.life(clock.now())), body, None)


@pytest.mark.parametrize("damaged", ["percepts_by_scope", "step_contents"])
def test_a_rescue_saves_artifacts_and_the_texts_of_turns_for_good(
    store: SqliteStore,
    sqlite: Callable[..., SqliteStore],
    spoken: Callable[..., Turn],
    completed: Callable[..., Turn],
    clock: HandClock,
    damaged: str,
) -> None:
    turn, path = spoken(), store._database.files.database
    store.close()
    with closing(sqlite3.connect(path)) as connection:
        (page,) = connection.execute("SELECT pageno FROM dbstat WHERE name = ?", (damaged,)).fetchone()
    with path.open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xa5" * 4096)
    again = sqlite()
    shutil.rmtree(again._database.files.backups, ignore_errors=True)  # nothing fills the gaps
    again.percepts(session="s1")
    claim = again.claim("s1", "me", timedelta(seconds=60))
    assert isinstance(claim, Claim)
    again.open_turn(claim, completed(1, steps=()), again.find("s1", "/work/a"))
    other = BIG[::-1]
    again.add_artifact(Artifact("a9", "answer", hash_of(other.encode()), len(other), "s1", 1, None, ABSOLUTE.life(clock.now())), other.encode(), None)
    again.append_step(claim, 1, 0, Text(other))

    rescued = again.log("s1").get(0)

    assert any("was damaged" in notice for notice in again.notices)
    assert rescued is not None
    assert rescued.steps == turn.steps
    assert again.artifact_body("a0") == BIG.encode()
    clock.advance(days=400)
    again.collect_artifacts()
    assert again.artifacts() == []
    kept = sqlite().log("s1").get(0)  # read anew
    assert kept is not None
    assert kept.steps == turn.steps
    assert again.check(10).faults == ()
