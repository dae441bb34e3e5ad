"""Bytes changed anywhere in a store: it opens, says what it lost, and can be used as before."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path

import pytest

from orchestrator.artifacts import Artifact, ArtifactTerms
from orchestrator.errors import EscaleraError, NotFound, StoreTooNew
from orchestrator.messages import Text
from orchestrator.percepts import Inquiry, Percept
from orchestrator.session import Outcome, Role, Session, Turn
from orchestrator.store import Claim
from orchestrator.store.artifacts import hash_of
from orchestrator.store.sqlite import SqliteStore, open_store

from .conftest import HandClock

SAMPLES = int(os.environ.get("ESCALERA_PROOF_DAMAGE", "25"))
PAGE = 4096
TURNS = 80
"""In each of the two sessions."""
FORMAT = range(60, 64)
"""Where the header has the version: what a byte there makes of it may well be a newer one."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a store that has rows of all kinds, a search index and a backup."""
    folder = tmp_path_factory.mktemp("whole") / "data"
    with closing(open_store(folder, clock=HandClock())) as store:
        for identity in ("s1", "s2"):
            turns = [Turn(index, Role.PRIMARY, "local", f"prompt {index}", (Text(f"answer {index} " * 30),)) for index in range(TURNS)]
            store.import_session(Session(id=identity, workspace="/work/a", nonce="n"), turns)
        for number in range(5):
            body, life = f"artifact {number}".encode() * 500, ArtifactTerms().life(store.now())
            store.add_artifact(Artifact(f"a{number}", "answer", hash_of(body), len(body), "s1", 0, None, life, not life.explicit), body, None)
        for number in range(30):
            store.learn(Percept(f"p{number}", f"the port of machine {number} is {number}", "user", subject=f"machine {number}"))
        store.search("answer", None)
    return folder


@pytest.mark.parametrize("seed", range(SAMPLES))
def test_a_store_with_random_damage_opens_and_can_be_used(whole: Path, folder: Path, clock: HandClock, seed: int) -> None:
    chance = random.Random(seed)
    shutil.copytree(whole, folder)
    if chance.random() < 0.5:
        shutil.rmtree(folder / "backups")
    changed = damage(folder / "escalera.db", chance)
    checked = chance.random() < 0.7
    if checked:  # a backup is due, and it finds what else is met where it is used
        clock.advance(days=2)

    with suppress(EscaleraError), closing(open_store(folder, clock=clock, read_only=True)) as store:
        used(store)
    try:
        with closing(open_store(folder, clock=clock)) as store:
            left = used(store)
            written(store)
            told = store.notices
    except StoreTooNew:
        assert changed.intersection(FORMAT)
        return

    if checked:
        assert left > 1.8 * TURNS or told
        with closing(sqlite3.connect(folder / "escalera.db")) as connection:
            assert connection.execute("PRAGMA quick_check").fetchall() == [("ok",)]
    with closing(open_store(folder, clock=clock)) as store:
        assert store.log("new").get(0).outcome is Outcome.COMPLETED


def damage(database: Path, chance: random.Random) -> set[int]:
    """Change some bytes, the header's and the schema's more often than others; which ones."""
    content = bytearray(database.read_bytes())
    places: set[int] = set()
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        at = chance.choice((lambda: chance.randrange(100), lambda: schema_place(content, chance), lambda: chance.randrange(len(content))))()
        places.update(range(at, min(len(content), at + chance.choice((1, 1, 2, 8, 60, PAGE)))))
    for place in places:
        content[place] ^= chance.randrange(1, 256)
    database.write_bytes(content)
    return places


def schema_place(content: bytes, chance: random.Random) -> int:
    statements = [at for at in range(len(content)) if content.startswith(b"CREATE ", at)]
    return chance.choice(statements) + chance.randrange(-20, 400)


def used(store: SqliteStore) -> int:
    """Read everything, and how many turns there are."""
    store.search("answer", None)
    store.recall(Inquiry(frozenset({"all"}), "/work/a", None, "which port has machine 7?"))
    store.percepts()
    store.usage("agent")
    for artifact in store.artifacts():
        with suppress(NotFound):  # its content was lost, and it went with it
            store.artifact_body(artifact.id)
    return sum(len(list(store.log(summary.id).newest_first(outcomes=None))) for summary in store.list(None))


def written(store: SqliteStore) -> None:
    session = Session(id="new", workspace="/work/new", nonce="n")
    store.create(session)
    claim = store.claim("new", "me", timedelta(minutes=1))
    assert isinstance(claim, Claim)
    store.open_turn(claim, Turn(0, Role.PRIMARY, "local", "a new prompt"), session)
    store.append_step(claim, 0, 0, Text("a new answer"))
    store.close_turn(claim, Turn(0, Role.PRIMARY, "local", "a new prompt"), session, [Percept("new", "machine 7 is gone", "user")])
    store.release(claim)
    assert [hit.session for hit in store.search("new answer", None)] == ["new"]
