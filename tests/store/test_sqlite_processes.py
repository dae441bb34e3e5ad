"""Several processes on one store, some of them killed: real ones, really killed."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from orchestrator.clock import SystemClock
from orchestrator.errors import LeaseLost
from orchestrator.messages import Text
from orchestrator.session import Outcome, Session, State
from orchestrator.store import Claim, HeldBy
from orchestrator.store.archive import records
from orchestrator.store.sqlite import SqliteStore, open_store

TRIALS = Path(__file__).parents[1] / "trials"
KILLS = int(os.environ.get("ESCALERA_PROOF_KILLS", "15"))
HOUR = timedelta(hours=1)

PRELUDE = """
import sys, time
from datetime import timedelta
from pathlib import Path
from orchestrator.clock import SystemClock
from orchestrator.messages import Text, ToolCall
from orchestrator.percepts import Percept
from orchestrator.session import Outcome, Role, Session, State, Turn
from orchestrator.store import Claim
from orchestrator.store.sqlite import open_store

folder, name = Path(sys.argv[1]), sys.argv[2]
store = open_store(folder, clock=SystemClock())

def say(*words):
    print(*words, flush=True)

def claimed(session):
    while not isinstance(claim := store.claim(session, name, timedelta(hours=1)), Claim):
        time.sleep(0.002)
    return claim
"""

WRITER = """
claim = claimed("s1")
header = store.find("s1", "/work/a")
index = store.log("s1").next_index
while True:
    turn = Turn(index, Role.PRIMARY, "local", f"prompt {index}", outcome=Outcome.OPEN, started_at=store.now())
    store.open_turn(claim, turn, header)
    say("opened", index)
    for seq in range(3):
        store.append_step(claim, index, seq, Text(f"{index}.{seq} " * 300))
        say("step", index, seq)
    store.close_turn(claim, Turn(index, Role.PRIMARY, "local", turn.prompt), header, [Percept(f"p{index}", f"fact number {index}", "primary")])
    say("closed", index)
    index += 1
"""

TAKER = """
for number in range(8):
    claim = claimed("s1")
    index = store.log("s1").next_index
    store.open_turn(claim, Turn(index, Role.PRIMARY, name, "p", outcome=Outcome.OPEN), store.find("s1", "/work/a"))
    for seq in range(3):
        store.append_step(claim, index, seq, Text(name))
    store.close_turn(claim, Turn(index, Role.PRIMARY, name, "p"), store.find("s1", "/work/a"))
    store.release(claim)
"""

UPDATER = """
for step in range(int(sys.argv[3])):
    store.create(Session(id=f"{name}-{step}", workspace="/work/a", nonce="n"))
    say(f"{name}-{step}")
"""

SLEEPER = """
claim = claimed("s1")
store.open_turn(claim, Turn(0, Role.PRIMARY, "local", "p", outcome=Outcome.OPEN), store.find("s1", "/work/a"))
say("holding")
sys.stdin.readline()
try:
    store.append_step(claim, 0, 0, Text("late"))
    say("wrote")
except Exception as error:
    say(type(error).__name__)
"""


@pytest.fixture
def start(folder: Path):
    """Starts a child over the store's folder; none outlives the test."""
    children: list[subprocess.Popen[str]] = []

    def run(script: str, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", PRELUDE + script, str(folder), *arguments]
        children.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return children[-1]

    yield run
    for child in children:
        child.kill()
        child.communicate()


@pytest.fixture
def system(folder: Path):
    """A store that goes by the machine's clock, as the children's do."""
    store = open_store(folder, clock=SystemClock())
    yield store
    store.close()


def integrity(folder: Path) -> str:
    with closing(sqlite3.connect(folder / "escalera.db")) as connection:
        return connection.execute("PRAGMA integrity_check").fetchone()[0]


@pytest.mark.proof
@pytest.mark.trial("T70")
def test_t70_a_writer_killed_at_any_moment_loses_nothing_it_was_told_is_stored(folder: Path, start: Callable[..., subprocess.Popen[str]]) -> None:
    chance = random.Random(70)
    with closing(open_store(folder, clock=SystemClock())) as store:
        store.create(Session(id="s1", workspace="/work/a", nonce="n", state=State.WAITING))
    for _ in range(KILLS):
        told = _killed_after(start(WRITER, "writer"), chance.randrange(1, 25))
        assert integrity(folder) == "ok"
        with closing(open_store(folder, clock=SystemClock())) as store:
            _holds_what_was_told(store, told)
            claim = store.claim("s1", "next", HOUR)
            assert isinstance(claim, Claim)
            assert store.log("s1").count(outcomes=frozenset({Outcome.OPEN})) == 0
            assert store.find("s1", "/work/a").state is State.WAITING
            assert not store.notices
            store.release(claim)
    assert {path.name for path in folder.iterdir()} <= {"escalera.db", "escalera.lock", "owners", "backups"}


def _killed_after(child: subprocess.Popen[str], lines: int) -> list[list[str]]:
    told = [child.stdout.readline() for _ in range(lines)]
    child.send_signal(signal.SIGKILL)
    told += child.stdout.readlines()
    assert not child.stderr.read()
    return [line.split() for line in told if line.endswith("\n")]


def _holds_what_was_told(store: SqliteStore, told: list[list[str]]) -> None:
    log = store.log("s1")
    facts = {percept.id for percept in store.percepts()}
    for what, index, *seq in told:
        turn = log.get(int(index))
        assert turn is not None
        if what == "step":
            assert turn.steps[int(seq[0])] == Text(f"{index}.{seq[0]} " * 300)
        if what == "closed":
            assert (turn.outcome, len(turn.steps)) == (Outcome.COMPLETED, 3)
            assert f"p{index}" in facts
    newest = next(log.newest_first(outcomes=None))
    assert newest.outcome in {Outcome.COMPLETED, Outcome.INTERRUPTED}


@pytest.mark.trial("T72")
def test_t72_what_several_writers_were_told_is_saved_is_there(folder: Path, start: Callable[..., subprocess.Popen[str]]) -> None:
    trial = json.loads((TRIALS / "T72.json").read_text())
    children = [start(UPDATER, f"w{number}", str(trial["updates_each"])) for number in range(trial["processes"])]
    killed = random.Random(72).choice(children)
    told = [killed.stdout.readline().strip() for _ in range(trial["updates_each"] // 3)]
    killed.kill()
    with closing(open_store(folder, clock=SystemClock(), read_only=True)) as reader:
        assert set(told) <= {summary.id for summary in reader.list(None)}
    for child in children:
        told += child.stdout.read().split()
        assert not child.stderr.read()
    assert len(told) >= trial["updates_each"] * (trial["processes"] - 1)
    assert integrity(folder) == "ok"
    with closing(open_store(folder, clock=SystemClock())) as store:
        assert set(told) <= {summary.id for summary in store.list(None)}
        store.create(Session(id="after", workspace="/work/a", nonce="n"))
        assert len(list((folder / "owners").iterdir())) == 1


def test_turns_of_two_processes_never_interleave(system: SqliteStore, start: Callable[..., subprocess.Popen[str]]) -> None:
    system.create(Session(id="s1", workspace="/work/a", nonce="n"))
    children = [start(TAKER, name) for name in ("a", "b")]
    for child in children:
        assert child.communicate()[1] == ""
    turns = list(system.log("s1").newest_first(outcomes=None))
    assert [turn.index for turn in turns] == list(range(15, -1, -1))
    assert all(turn.outcome is Outcome.COMPLETED and turn.steps == (Text(turn.agent),) * 3 for turn in turns)


def test_a_dead_owner_is_noticed_at_once(system: SqliteStore, folder: Path, start: Callable[..., subprocess.Popen[str]]) -> None:
    system.create(Session(id="s1", workspace="/work/a", nonce="n"))
    child = start(SLEEPER, "sleeper")
    assert child.stdout.readline() == "holding\n"
    held = system.claim("s1", "me", HOUR)
    assert isinstance(held, HeldBy)
    assert held.owner == "sleeper"
    assert system.log("s1").get(0).outcome is Outcome.OPEN
    child.kill()
    child.wait()
    with closing(open_store(folder, clock=SystemClock(), read_only=True)) as reader:
        assert reader.log("s1").get(0).outcome is Outcome.INTERRUPTED
        assert not reader.list(None)[0].in_use
    assert isinstance(system.claim("s1", "me", HOUR), Claim)


def test_a_stopped_owner_keeps_its_lease_until_it_lapses_and_can_then_write_nothing(
    folder: Path, clock, sqlite: Callable[..., SqliteStore], start: Callable[..., subprocess.Popen[str]]
) -> None:
    clock.at = SystemClock().now()
    store = sqlite()
    store.create(Session(id="s1", workspace="/work/a", nonce="n"))
    child = start(SLEEPER, "sleeper")
    assert child.stdout.readline() == "holding\n"
    child.send_signal(signal.SIGSTOP)
    assert isinstance(store.claim("s1", "me", HOUR), HeldBy)
    clock.advance(hours=2)
    assert isinstance(store.claim("s1", "me", HOUR), Claim)
    child.send_signal(signal.SIGCONT)
    child.stdin.write("go\n")
    child.stdin.flush()
    assert child.stdout.readline() == f"{LeaseLost.__name__}\n"
    assert store.log("s1").get(0).steps == ()


def test_where_owners_may_be_on_other_machines_only_the_expiry_counts(folder: Path, clock, sqlite: Callable[..., SqliteStore]) -> None:
    store = sqlite()
    store.create(Session(id="s1", workspace="/work/a", nonce="n"))
    store.claim("s1", "far away", HOUR)
    store._database.write(lambda connection: connection.execute("UPDATE leases SET lock = NULL"))
    store.close()
    other = sqlite()
    assert isinstance(other.claim("s1", "me", HOUR), HeldBy)
    clock.advance(hours=1)
    assert isinstance(other.claim("s1", "me", HOUR), Claim)


def test_what_dead_owners_left_is_tidied_away(folder: Path, sqlite: Callable[..., SqliteStore], start: Callable[..., subprocess.Popen[str]]) -> None:
    sqlite().create(Session(id="s1", workspace="/work/a", nonce="n"))
    child = start(SLEEPER, "sleeper")
    child.stdout.readline()
    child.kill()
    child.wait()
    assert len(list((folder / "owners").iterdir())) == 2
    sqlite()
    assert len(list((folder / "owners").iterdir())) == 2


def test_processes_that_make_the_store_at_once_make_one(folder: Path, start: Callable[..., subprocess.Popen[str]]) -> None:
    children = [start(UPDATER, f"w{number}", "1") for number in range(4)]
    for child in children:
        assert child.communicate()[1] == ""
    with closing(open_store(folder, clock=SystemClock(), read_only=True)) as reader:
        assert len(reader.list(None)) == 4


# -- percepts ------------------------------------------------------------------------------------

REMEMBERER = """
for number in range(int(sys.argv[3])):
    own, _ = store.learn(Percept(f"{name}-{number}", f"{name} knows the fact number {number}", "primary", weight=20))
    store.learn(Percept(f"{name}-shared-{number}", f"all know the fact number {number}", "primary", core=True))
    store.mark_used([own.id], store.now())
    store.consolidate(archive_after=60.0 if number % 2 else 0.0, most=None)
    say(own.id)
for problem in store.notices:
    say("notice", problem)
store.close()
"""

ARCHIVER = """
number = int(sys.argv[3])
while True:
    store.learn(Percept(f"p{number}", f"fact number {number}", "primary", weight=20))
    say(f"p{number}")
    if number % 3:
        store.consolidate(archive_after=0.0, most=None)
    else:
        store.forget(f"p{number}")
    if number % 5 == 0:
        store.restore(f"p{number}")
    number += 1
"""


def test_processes_side_by_side_record_use_and_consolidate_without_loss_or_error(
    folder: Path, start: Callable[..., subprocess.Popen[str]], system: SqliteStore
) -> None:
    count = 25
    children = [start(REMEMBERER, f"w{number}", str(count)) for number in range(3)]
    told = [child.communicate(timeout=120) for child in children]
    assert [error for _, error in told] == [""] * 3
    said = [line for output, _ in told for line in output.split("\n") if line]
    assert sorted(said) == sorted(f"w{child}-{number}" for child in range(3) for number in range(count))
    standing, gone = [percept.id for percept in system.all_percepts()], [one.percept.id for one in system.archived()]
    shared = [identity for identity in standing if "shared" in identity]
    assert sorted({*standing, *gone} - set(shared)) == sorted(said)
    assert len(standing) + len(gone) == len({*standing, *gone})
    assert len(shared) == count  # each once, whoever said it first
    assert len(records(folder / "memory" / "global-archive.jsonl")) == len(gone)
    assert integrity(folder) == "ok"


@pytest.mark.proof
def test_a_process_killed_while_it_archives_loses_no_percept(folder: Path, start: Callable[..., subprocess.Popen[str]]) -> None:
    chance = random.Random(7)
    known: list[str] = []
    for _ in range(KILLS):
        told = _killed_after(start(ARCHIVER, "writer", str(len(known) and int(known[-1][1:]) + 2)), chance.randrange(1, 25))
        known += [identity for (identity,) in told]
        with closing(open_store(folder, clock=SystemClock())) as store:
            standing, gone = [percept.id for percept in store.all_percepts()], [one.percept.id for one in store.archived()]
            assert set(known) <= {*standing, *gone}
            assert len(standing) + len(gone) == len({*standing, *gone})
        assert integrity(folder) == "ok"
    assert known
