"""The record of what was allowed."""

from __future__ import annotations

import os
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pytest

from orchestrator.errors import Ambiguous, NotFound
from orchestrator.settings.grants import MOST_OF_SESSIONS, Grant, GrantStore

GRANT = Grant("aaaa-1", "local", "/work", "run(make *)", None, "2026-01-01T00:00:00Z")


@pytest.fixture
def store(tmp_path: Path) -> GrantStore:
    return GrantStore(tmp_path / "state" / "permissions.json")


def test_what_is_kept_is_read_again_by_the_owner_alone(store: GrantStore, tmp_path: Path) -> None:
    for_session = replace(GRANT, id="bbbb-2", session="s1")

    store.add(GRANT)
    store.add(for_session)
    store.add(replace(GRANT, id="cccc-3"))

    assert store.list() == [GRANT, for_session]
    assert os.stat(tmp_path / "state" / "permissions.json").st_mode & 0o777 == 0o600


def test_it_counts_for_its_agent_workspace_and_session_alone() -> None:
    here = {"agent": "local", "workspace": "/work", "session": "s1"}
    for_session = replace(GRANT, session="s1")

    assert GRANT.counts(**here)
    assert GRANT.counts(**{**here, "session": "s2"})
    assert for_session.counts(**here)
    assert not for_session.counts(**{**here, "session": "s2"})
    assert not GRANT.counts(**{**here, "agent": "other"})
    assert not GRANT.counts(**{**here, "workspace": "/work2"})


def test_one_is_taken_back_by_the_beginning_of_its_id_and_all_or_none_of_several(store: GrantStore) -> None:
    for identity in ("aaaa-1", "aaaa-2", "bbbb-1"):
        store.add(replace(GRANT, id=identity, rule=f"run({identity})"))

    with pytest.raises(Ambiguous):
        store.revoke(["bbbb", "aaaa"])
    with pytest.raises(NotFound):
        store.revoke(["bbbb", "x"])
    with pytest.raises(NotFound):
        store.revoke([""])
    assert [grant.id for grant in store.revoke(["bbbb", "bbbb-1", "aaaa-2"])] == ["bbbb-1", "aaaa-2"]
    assert [grant.id for grant in store.list()] == ["aaaa-1"]


def test_a_session_that_is_gone_leaves_nothing_to_another_of_its_id(store: GrantStore) -> None:
    store.add(GRANT)
    store.add(replace(GRANT, id="b", session="s1"))
    store.add(replace(GRANT, id="c", session="s2"))

    store.forget_session("s1")

    assert [grant.id for grant in store.list()] == ["aaaa-1", "c"]


@pytest.mark.parametrize(
    "damage", ["", "{", "[]", '{"format": "escalera.grants/9", "grants": []}', '{"format": "escalera.grants/1", "grants": 7}', "[" * 100_000]
)
def test_a_record_that_cannot_be_read_allows_nothing(store: GrantStore, tmp_path: Path, damage: str) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "permissions.json").write_text(damage)

    assert list(store.list()) == []
    store.add(GRANT)
    assert store.list() == [GRANT]


def test_a_damaged_entry_is_left_out_alone(store: GrantStore, tmp_path: Path) -> None:
    store.add(GRANT)
    file = tmp_path / "state" / "permissions.json"
    file.write_text(file.read_text().replace('"grants": [', '"grants": [7, {}, {"id": 1}, '))

    assert store.list() == [GRANT]


def test_those_of_sessions_do_not_grow_without_end(store: GrantStore) -> None:
    store.add(GRANT)
    with_all = [replace(GRANT, id=str(number), session=f"s{number}") for number in range(MOST_OF_SESSIONS + 1)]
    store._write([GRANT, *with_all[:-1]])
    store.add(with_all[-1])

    assert store.list() == [GRANT, *with_all[1:]]


def _add(path: Path, number: int) -> None:
    for count in range(10):
        GrantStore(path).add(replace(GRANT, id=f"{number}-{count}", rule=f"run({number} {count})"))


def test_several_processes_keep_all_of_theirs(store: GrantStore, tmp_path: Path) -> None:
    fork = get_context("fork")
    children = [fork.Process(target=_add, args=(tmp_path / "state" / "permissions.json", number)) for number in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join()

    assert len(store.list()) == 30
