"""Opened for reading, the store leaves no trace and tells the truth."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator.clock import SystemClock
from orchestrator.errors import StoreError
from orchestrator.messages import Text
from orchestrator.session import Session
from orchestrator.store.sqlite import SqliteStore, open_store


def trace(folder: Path) -> dict[str, tuple[bytes | None, int]]:
    """Every file and folder with its bytes and the time of its last change."""
    return {str(path.relative_to(folder)): (path.read_bytes() if path.is_file() else None, path.stat().st_mtime_ns) for path in sorted(folder.rglob("*"))}


def ids(reader: SqliteStore) -> set[str]:
    reader.search("prompt", None)
    reader.percepts()
    for summary in reader.list(None):
        list(reader.log(summary.id).newest_first(outcomes=None))
    return {summary.id for summary in reader.list(None)}


def read_without_a_trace(folder: Path, clock) -> set[str]:
    before = trace(folder)
    with closing(open_store(folder, clock=clock, read_only=True)) as reader:
        found = ids(reader)
        assert trace(folder) == before
    assert trace(folder) == before
    return found


@pytest.fixture
def written(sqlite: Callable[..., SqliteStore], held, completed) -> SqliteStore:
    """A store with a turn under way."""
    store = sqlite()
    session, claim = held(store)
    store.open_turn(claim, completed(0), session)
    store.append_step(claim, 0, 0, Text("half"))
    return store


def test_a_closed_store(folder: Path, clock, written: SqliteStore) -> None:
    written.close()
    assert not (folder / "escalera.db-wal").exists()
    assert read_without_a_trace(folder, clock) == {"s1"}


def test_a_store_that_another_process_has_open(folder: Path, clock, written: SqliteStore) -> None:
    written.close()
    script = """
import sys
from pathlib import Path
from orchestrator.clock import SystemClock
from orchestrator.session import Session
from orchestrator.store.sqlite import open_store
store = open_store(Path(sys.argv[1]), clock=SystemClock())
store.create(Session(id="s2", workspace="/w", nonce="n"))
print("written", flush=True)
sys.stdin.readline()
"""
    with subprocess.Popen([sys.executable, "-c", script, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "written\n"
        assert (folder / "escalera.db-wal").stat().st_size
        assert read_without_a_trace(folder, clock) == {"s1", "s2"}
        child.stdin.close()


def test_what_a_killed_process_left(folder: Path, tmp_path: Path, clock, written: SqliteStore) -> None:
    left = tmp_path / "left"
    shutil.copytree(folder, left)
    assert read_without_a_trace(left, clock) == {"s1"}


def test_a_log_without_its_shared_memory(folder: Path, tmp_path: Path, clock, written: SqliteStore) -> None:
    left = tmp_path / "left"
    shutil.copytree(folder, left)
    (left / "escalera.db-shm").unlink()
    assert read_without_a_trace(left, clock) == {"s1"}


def test_a_change_that_was_cut_off_without_a_write_ahead_log(folder: Path, tmp_path: Path, clock, written: SqliteStore) -> None:
    written.close()
    left = tmp_path / "left"
    with closing(sqlite3.connect(folder / "escalera.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE sessions SET id = 'half'")
        connection.executemany("INSERT INTO meta VALUES (?, 0)", [(f"k{number}",) for number in range(2000)])
        shutil.copytree(folder, left)
        connection.execute("ROLLBACK")
    assert (left / "escalera.db-journal").exists()
    assert read_without_a_trace(left, clock) == {"s1"}


def test_nothing_is_made_where_nothing_is(tmp_path: Path, clock) -> None:
    with closing(open_store(tmp_path / "no" / "where", clock=clock, read_only=True)) as reader:
        assert ids(reader) == set()
    assert not list(tmp_path.iterdir())


def test_an_empty_file_is_an_empty_store(tmp_path: Path, clock) -> None:
    (tmp_path / "escalera.db").touch()
    assert read_without_a_trace(tmp_path, clock) == set()


@pytest.mark.trial("T77")
@pytest.mark.parametrize("folder", [Path("/nonexistent/data"), Path("/proc/self/data"), Path("/dev/null/data")])
def test_t77_listing_works_where_no_folder_can_be(folder: Path, clock) -> None:
    with closing(open_store(folder, clock=clock, read_only=True)) as reader:
        assert ids(reader) == set()


@pytest.mark.trial("T77")
def test_t77_listing_works_on_a_disk_that_is_read_only(folder: Path, clock, written: SqliteStore) -> None:
    written.close()
    _only_on_a_read_only_mount(folder)


@pytest.mark.trial("T77")
def test_t77_listing_works_on_a_read_only_disk_with_what_a_killed_process_left(folder: Path, written: SqliteStore) -> None:
    _only_on_a_read_only_mount(folder)


def _only_on_a_read_only_mount(folder: Path) -> None:
    """Lists from a child that sees the folder mounted read-only, in a mount namespace of its own."""
    script = f"""
import sys
from pathlib import Path
from orchestrator.clock import SystemClock
from orchestrator.errors import StoreReadOnly
from orchestrator.store.sqlite import open_store
folder = Path({str(folder)!r})
reader = open_store(folder, clock=SystemClock(), read_only=True)
print([summary.id for summary in reader.list(None)], reader.log("s1").get(0).prompt)
try:
    open_store(folder, clock=SystemClock())
except StoreReadOnly as error:
    print(error.hint)
"""
    mounted = f"mount --bind {folder} {folder} && mount -o remount,ro,bind {folder}"
    if subprocess.run(["unshare", "-m", "sh", "-c", mounted], capture_output=True, check=False).returncode:
        pytest.skip("needs to mount")
    run = subprocess.run(["unshare", "-m", "sh", "-c", f'{mounted} && exec "$0" -c "$1"', sys.executable, script], capture_output=True, text=True, check=False)
    assert run.stdout.splitlines() == ["['s1'] prompt 0", "set ESCALERA_HOME to a folder that can be written"], run.stderr


def test_a_damaged_file_is_said_and_left_alone(tmp_path: Path, clock) -> None:
    (tmp_path / "escalera.db").write_bytes(b"no database at all" * 400)
    before = trace(tmp_path)
    with pytest.raises(StoreError, match="damaged"):
        open_store(tmp_path, clock=clock, read_only=True)
    assert trace(tmp_path) == before


def test_a_reader_goes_on_while_a_writer_comes_and_goes(folder: Path, clock, sqlite: Callable[..., SqliteStore]) -> None:
    sqlite().close()
    reader = sqlite(read_only=True)
    for number in range(5):
        store = sqlite()
        store.create(Session(id=f"s{number}", workspace="/w", nonce="n"))
        assert len(reader.list(None)) == number + 1
        store.close()
        assert len(reader.list(None)) == number + 1


def test_a_reader_beside_a_busy_writer_sees_whole_transactions(folder: Path, sqlite: Callable[..., SqliteStore]) -> None:
    script = """
import sys
from pathlib import Path
from orchestrator.clock import SystemClock
from orchestrator.session import Role, Session, Turn
from orchestrator.store.sqlite import open_store
for number in range(40):
    store = open_store(Path(sys.argv[1]), clock=SystemClock())
    store.import_session(Session(id=f"s{number}", workspace="/w", nonce="n"), [Turn(i, Role.PRIMARY, "a", "p" * 2000) for i in range(5)])
    store.close()
    print(number, flush=True)
"""
    child = subprocess.Popen([sys.executable, "-c", script, str(folder)], stdout=subprocess.PIPE, text=True)
    seen = 0
    with closing(open_store(folder, clock=SystemClock(), read_only=True)) as reader:
        for line in child.stdout:
            summaries = reader.list(None)
            assert len(summaries) >= max(seen, int(line) + 1)
            assert {summary.turns for summary in summaries} == {5}
            seen = len(summaries)
    assert child.wait() == 0
    assert seen == 40
