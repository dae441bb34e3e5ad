"""Consolidation: running time, weights, promotion, the archive and the cap (page 4)."""

from __future__ import annotations

import json
import os
import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import Ambiguous, NotFound, StoreError, StoreFull, UsageError
from orchestrator.messages import Text
from orchestrator.percepts import Archived, Consolidated, Edge, Percept
from orchestrator.session import Outcome, Role, Session, Turn
from orchestrator.store import Claim, Store
from orchestrator.store.archive import records
from orchestrator.store.sqlite import SqliteStore, open_store

HOUR, DAY = 3600.0, 86_400.0


class TwoClocks:
    """Wall time and running time apart: a suspended machine moves only the first, a stepped clock too."""

    def __init__(self) -> None:
        self.at = datetime(2026, 1, 1, 10, tzinfo=UTC)
        self.seconds = 1000.0

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float, wake: object = None) -> None:
        raise AssertionError("nothing sleeps here")

    def run(self, seconds: float) -> None:
        self.seconds += seconds
        self.at += timedelta(seconds=seconds)


@pytest.fixture
def time() -> TwoClocks:
    return TwoClocks()


@pytest.fixture
def process(folder: Path, time: TwoClocks) -> Iterator[Callable[..., SqliteStore]]:
    """Opens the store as one more process would, by a clock of its own or the common one."""
    stores: list[SqliteStore] = []

    def start(clock: TwoClocks | None = None) -> SqliteStore:
        stores.append(open_store(folder, clock=clock or time))
        return stores[-1]

    yield start
    for store in stores:
        store.close()


def fact(identity: str, **fields: object) -> Percept:
    values = {"content": f"a fact about {identity * 3}", "producer": "primary", "weight": 70, "trust": "agent", **fields}
    return Percept(identity, **values)  # type: ignore[arg-type]  # fields of a percept


def tick(store: Store, *, archive_after: float | None = None, most: int | None = None) -> Consolidated:
    return store.consolidate(archive_after=archive_after, most=most)


def idle(store: Store, identity: str = "p") -> float:
    return store.percept(identity).idle_seconds


def weight(store: Store, identity: str = "p") -> int:
    return store.percept(identity).weight


def gone(store: Store) -> dict[str, str]:
    """Whatever is archived, with the reason."""
    return {one.percept.id: one.reason for one in store.archived()}


# -- idle time -----------------------------------------------------------------------------------


@pytest.mark.parametrize("passes", [1, 10, 997])
def test_only_the_sum_of_running_time_counts_not_the_number_of_passes(process: Callable[..., SqliteStore], time: TwoClocks, passes: int) -> None:
    store = process()
    store.learn(fact("p"))
    tick(store)
    for _ in range(passes):
        time.run(2 * DAY / passes)
        tick(store)

    assert idle(store) == pytest.approx(2 * DAY, abs=0.001)
    assert weight(store) == 70 - 48


@pytest.mark.parametrize("runs", [1, 2, 10])
def test_one_long_run_counts_like_many_short_ones(process: Callable[..., SqliteStore], time: TwoClocks, runs: int) -> None:
    with closing(process()) as store:
        store.learn(fact("p"))
        tick(store)
    for _ in range(runs):
        time.at += timedelta(days=40)  # between two runs
        with closing(process()) as store:
            time.run(20 * DAY / runs)
            tick(store)

    assert idle(process()) == 20 * DAY


def test_the_time_since_the_opening_counts_at_the_first_pass(process: Callable[..., SqliteStore], time: TwoClocks) -> None:
    with closing(process()) as store:
        store.learn(fact("p"))
        tick(store)
    store = process()
    time.run(HOUR)
    assert idle(store) == 0

    tick(store)

    assert idle(store) == HOUR


def test_what_came_in_meanwhile_has_not_been_idle_nor_aged_before(process: Callable[..., SqliteStore], time: TwoClocks) -> None:
    store = process()
    time.run(30 * HOUR)
    store.learn(fact("p"))
    time.run(2 * HOUR)
    tick(store)

    assert (idle(store), weight(store)) == (0, 68)


@pytest.mark.parametrize("use", ["reinforced", "sent"])
def test_a_use_resets_at_once_and_exempts_the_interval(process: Callable[..., SqliteStore], time: TwoClocks, use: str) -> None:
    store = process()
    store.learn(fact("p"))
    tick(store)
    time.run(DAY)
    tick(store)
    assert idle(store) == DAY
    time.run(HOUR)
    if use == "reinforced":
        store.learn(fact("q", content="a fact about ppp"))
    else:
        store.mark_used(["p"], time.now())
    assert idle(store) == 0
    time.run(HOUR)
    tick(store)
    assert idle(store) == 0
    time.run(HOUR)
    tick(store)
    assert idle(store) == HOUR


def test_suspension_and_a_stepped_clock_add_nothing(process: Callable[..., SqliteStore], time: TwoClocks) -> None:
    store = process()
    store.learn(fact("p"))
    tick(store)
    for step in (timedelta(days=30), timedelta(days=-900), timedelta(hours=1)):
        time.at += step
        tick(store)

    assert (idle(store), weight(store)) == (0, 70)


def test_processes_side_by_side_add_their_own_idle_time_and_age_once(process: Callable[..., SqliteStore], time: TwoClocks) -> None:
    mine, theirs = time, TwoClocks()
    one, two = process(mine), process(theirs)
    one.learn(fact("p"))
    tick(one)
    tick(two)
    for clock, store in ((mine, one), (theirs, two), (mine, one), (theirs, two)):
        clock.run(HOUR / 2)
        tick(store)

    assert idle(one) == idle(two) == 2 * HOUR
    assert weight(one) == 69


def test_a_use_by_one_process_exempts_the_running_intervals_of_all(process: Callable[..., SqliteStore], time: TwoClocks) -> None:
    theirs = TwoClocks()
    one, two = process(), process(theirs)
    one.learn(fact("p"))
    tick(one)
    tick(two)
    theirs.run(HOUR)
    one.mark_used(["p"], time.now())
    tick(two)
    assert idle(one) == 0
    theirs.run(HOUR)
    tick(two)
    assert idle(one) == HOUR


def test_core_percepts_and_those_of_a_session_are_neither_idle_nor_aged_by_running(process: Callable[..., SqliteStore], time: TwoClocks) -> None:
    store = process()
    store.learn(fact("c", core=True, weight=100))
    store.learn(fact("s", scope="session", session="s1"))
    time.run(50 * DAY)
    tick(store, archive_after=0)

    assert [(percept.id, percept.weight, percept.idle_seconds) for percept in store.percepts(session="s1")] == [("c", 100, 0), ("s", 70, 0)]


# -- weights -------------------------------------------------------------------------------------


def test_global_ones_lose_one_for_each_hour_and_stop_at_the_threshold(process: Callable[..., SqliteStore], time: TwoClocks) -> None:
    store = process()
    store.learn(fact("p", weight=23))
    store.learn(fact("low", weight=12))
    seen = []
    for _ in range(10):
        time.run(HOUR / 2)
        tick(store)
        seen.append(weight(store))

    assert seen == [23, 22, 22, 21, 21, 20, 20, 20, 20, 20]
    assert weight(store, "low") == 12


def test_a_part_of_an_hour_is_kept_when_the_weight_changes_otherwise(process: Callable[..., SqliteStore], time: TwoClocks) -> None:
    store = process()
    store.learn(fact("p", weight=50))
    time.run(1.5 * HOUR)
    tick(store)
    store.learn(fact("again", content="a fact about ppp"))
    assert weight(store) == 59
    time.run(HOUR / 2)
    tick(store)
    assert weight(store) == 58


def take_turn(store: Store, session: str, at: datetime) -> None:
    index = store.log(session).next_index
    claim = store.claim(session, "me", timedelta(hours=1))
    assert isinstance(claim, Claim)
    header = store.find(session, "/work/a")
    store.open_turn(claim, Turn(index, Role.PRIMARY, "local", "hi", outcome=Outcome.OPEN, started_at=at), header)
    store.close_turn(claim, Turn(index, Role.PRIMARY, "local", "hi", started_at=at), header)
    store.release(claim)


def test_those_of_a_session_lose_ten_for_each_later_day_on_which_it_is_used(process: Callable[..., SqliteStore], time: TwoClocks) -> None:
    store = process()
    for session in ("s1", "s2"):
        store.create(Session(id=session, workspace="/work/a", nonce="n"))
        store.learn(fact(session, scope="session", session=session, weight=79))
    for days, expected in ((0, 79), (0, 79), (1, 69), (0, 69), (5, 59)):
        time.at += timedelta(days=days)
        for _ in range(3):
            take_turn(store, "s1", time.at)
            tick(store)
        assert weight(store, "s1") == expected
    assert weight(store, "s2") == 79


def test_days_between_two_passes_all_count(process: Callable[..., SqliteStore], time: TwoClocks) -> None:
    store = process()
    store.create(Session(id="s1", workspace="/work/a", nonce="n"))
    store.learn(fact("p", scope="session", session="s1", weight=75))
    for _ in range(3):
        time.at += timedelta(days=1)
        take_turn(store, "s1", time.at)
    tick(store)

    assert weight(store) == 45


@pytest.mark.parametrize("kind", ["extends", "updates", "derives"])
def test_an_edge_adds_to_its_target_once(process: Callable[..., SqliteStore], kind: str) -> None:
    store = process()
    store.learn(fact("a"))
    store.learn(fact("b"))
    store.link(Edge("a", "b", kind))  # type: ignore[arg-type]  # one of the kinds
    for _ in range(3):
        tick(store)

    assert (weight(store, "a"), weight(store, "b")) == (70, 75)


def test_a_contradiction_takes_from_both_once_and_weights_stay_within_their_bounds(process: Callable[..., SqliteStore]) -> None:
    store = process()
    for identity, start in (("a", 5), ("b", 100), ("c", 98), ("d", 50)):
        store.learn(fact(identity, weight=start, core=True))
    store.link(Edge("a", "b", "contradicts"))
    store.link(Edge("d", "c", "extends"))
    for _ in range(3):
        tick(store)

    assert [weight(store, identity) for identity in "abcd"] == [0, 90, 100, 50]


def test_light_ones_of_a_session_leave_it_for_the_archive(process: Callable[..., SqliteStore]) -> None:
    store = process()
    store.learn(fact("light", scope="session", session="s1", weight=20))
    store.learn(fact("heavy", scope="session", session="s1", weight=21))
    store.learn(fact("core", scope="session", session="s1", weight=10, core=True))

    assert tick(store).pruned == ("light",)
    assert gone(store) == {"light": "pruned"}
    assert [percept.id for percept in store.percepts(session="s1")] == ["heavy", "core"]


def test_heavy_ones_of_a_session_become_global_and_keep_their_workspace(process: Callable[..., SqliteStore], time: TwoClocks) -> None:
    store = process()
    store.learn(fact("p", scope="session", session="s1", workspace="/work/a", weight=80, source={"session": "s1", "turn": 3}))
    store.learn(fact("q", scope="session", session="s1", weight=79))
    time.run(5 * HOUR)

    assert tick(store).promoted == ("p",)
    percept = store.percept("p")
    assert (percept.scope, percept.session, percept.workspace, percept.idle_seconds, percept.weight) == ("global", None, "/work/a", 0, 80)
    assert percept.source == {"session": "s1", "turn": 3}


def test_one_that_a_global_one_says_already_is_merged_into_it(process: Callable[..., SqliteStore]) -> None:
    store = process()
    store.learn(fact("s", content="use tabs", scope="session", session="s1", weight=95))
    store.learn(fact("other", content="use really long tabs", scope="session", session="s1"))
    store.learn(fact("g", content="Use tabs!", weight=60))
    store.link(Edge("other", "s", "derives"))

    assert tick(store).merged == ("s",)
    assert weight(store, "g") == 100  # 95, and 5 for the edge
    assert gone(store) == {"s": "said by g"}
    assert Edge("other", "g", "derives") in store.edges()


# -- archive -------------------------------------------------------------------------------------


def stale_one(store: Store, time: TwoClocks, **fields: object) -> None:
    """A percept at the threshold that was not used for a day."""
    store.learn(fact("p", **{"weight": 20, **fields}))
    tick(store)
    time.run(DAY)


def test_both_conditions_must_hold(process: Callable[..., SqliteStore], time: TwoClocks) -> None:
    store = process()
    store.learn(fact("idle-but-heavy", weight=90))
    store.learn(fact("light-but-used", weight=20))
    store.learn(fact("both", weight=20))
    tick(store)
    time.run(DAY)
    store.mark_used(["light-but-used"], time.now())

    assert tick(store, archive_after=DAY).archived == ("both",)
    assert sorted(percept.id for percept in store.percepts()) == ["idle-but-heavy", "light-but-used"]


@pytest.mark.parametrize(("after", "archived"), [(DAY, True), (DAY + 1, False), (0, True), (None, False)])
def test_the_limit_is_reached_exactly_zero_is_at_once_and_none_is_never(
    process: Callable[..., SqliteStore], time: TwoClocks, after: float | None, *, archived: bool
) -> None:
    store = process()
    stale_one(store, time)

    assert (tick(store, archive_after=after).archived == ("p",)) is archived


def test_core_percepts_never_go(process: Callable[..., SqliteStore], time: TwoClocks) -> None:
    store = process()
    stale_one(store, time, core=True, weight=0)

    assert tick(store, archive_after=0, most=1) == Consolidated(idle_seconds=DAY)


def test_an_archived_one_leaves_with_its_edges_and_nothing_points_to_it(process: Callable[..., SqliteStore], folder: Path, time: TwoClocks) -> None:
    store = process()
    store.learn(fact("other", core=True))
    stale_one(store, time, subject="S")
    store.link(Edge("other", "p", "derives"))
    store.link(Edge("p", "other", "extends"))
    store.consolidate(archive_after=None, most=None)  # counts the edges
    time.run(5 * DAY)
    tick(store, archive_after=DAY)

    (record,) = records(folder / "memory" / "global-archive.jsonl")
    assert (record["percept"]["id"], record["reason"], record["idle_days"]) == ("p", "stale", 6)
    assert record["archived_at"] == "2026-01-07T10:00:00.000000Z"
    assert record["edges"] == [{"source": "other", "target": "p", "kind": "derives"}, {"source": "p", "target": "other", "kind": "extends"}]
    assert (store.edges(), store.engrams()) == ([], [])
    assert (folder / "memory" / "global-archive.jsonl").stat().st_mode & 0o077 == 0


def full(archive: Path) -> None:
    archive.symlink_to("/dev/full")


def read_only(archive: Path) -> None:
    archive.symlink_to("/proc/sys/kernel/ostype")  # not even root may write it


def no_folder(archive: Path) -> None:
    archive.parent.rmdir()
    archive.parent.write_text("a file in the folder's place")


def a_folder(archive: Path) -> None:
    archive.mkdir()


@pytest.mark.parametrize("broken", [full, read_only, no_folder, a_folder])
def test_a_failed_append_leaves_the_percept_in_place_and_is_said_while_the_rest_is_done(
    process: Callable[..., SqliteStore], folder: Path, time: TwoClocks, broken: Callable[[Path], None]
) -> None:
    store = process()
    stale_one(store, time)
    store.learn(fact("up", scope="session", session="s1", weight=80))
    archive = folder / "memory" / "global-archive.jsonl"
    archive.parent.mkdir()
    broken(archive)

    done = tick(store, archive_after=DAY, most=1)

    assert (done.archived, done.capped, done.promoted) == ((), (), ("up",))
    assert done.problem is not None
    assert str(archive) in done.problem
    assert sorted(percept.id for percept in store.percepts()) == ["p", "up"]
    assert idle(store) == DAY
    with pytest.raises(StoreError):
        store.forget("p")
    assert idle(store) == DAY


def test_a_crash_between_append_and_removal_leaves_a_duplicate_that_the_next_pass_knows(
    process: Callable[..., SqliteStore], folder: Path, time: TwoClocks
) -> None:
    archive = folder / "memory" / "global-archive.jsonl"
    with closing(process()) as store:
        stale_one(store, time)
        store.learn(fact("kept"))
        tick(store)
    shutil.copy(folder / "escalera.db", folder / "before.db")
    with closing(process()) as store:
        tick(store, archive_after=DAY)
        assert gone(store) == {"p": "stale"}
    os.replace(folder / "before.db", folder / "escalera.db")  # as if the transaction had never been committed

    store = process()
    assert sorted(percept.id for percept in store.percepts()) == ["kept", "p"]
    assert gone(store) == {}

    assert tick(store, archive_after=DAY).archived == ("p",)
    assert gone(store) == {"p": "stale"}
    assert len(records(archive)) == 1


def test_one_that_was_used_after_such_a_crash_stays_and_is_archived_anew_later(process: Callable[..., SqliteStore], folder: Path, time: TwoClocks) -> None:
    with closing(process()) as store:
        stale_one(store, time)
        tick(store)
    shutil.copy(folder / "escalera.db", folder / "before.db")
    with closing(process()) as store:
        tick(store, archive_after=DAY)
    os.replace(folder / "before.db", folder / "escalera.db")
    store = process()
    store.mark_used(["p"], time.now())
    store.learn(fact("other"))
    store.forget("other")
    assert tick(store, archive_after=DAY).archived == ()
    time.run(2 * DAY)
    assert tick(store, archive_after=DAY).archived == ("p",)

    assert [record["percept"]["id"] for record in records(folder / "memory" / "global-archive.jsonl")] == ["p", "other", "p"]
    assert gone(store) == {"p": "stale", "other": "forgotten"}


def test_a_torn_last_line_is_left_out_reported_and_spoils_no_other(process: Callable[..., SqliteStore], folder: Path) -> None:
    store = process()
    for identity in ("one", "two"):
        store.learn(fact(identity))
    store.forget("one")
    archive = folder / "memory" / "global-archive.jsonl"
    with archive.open("ab") as file:
        file.write(b'{"percept": {"id": "thr')
    assert gone(store) == {"one": "forgotten"}
    assert any("line 2" in notice for notice in store.notices)

    store.forget("two")

    assert gone(store) == {"one": "forgotten", "two": "forgotten"}


@pytest.mark.parametrize(
    "line", [b"[]", b"{}", b'{"percept": 1}', b'{"percept": {"id": 1}}', b'{"percept": {}}', b"[" * 100_000, b"\xff\xfe", b'{"restored": 3}', b'{"future": 1}']
)
def test_foreign_lines_hide_nothing(process: Callable[..., SqliteStore], folder: Path, line: bytes) -> None:
    store = process()
    archive = folder / "memory" / "global-archive.jsonl"
    archive.parent.mkdir()
    archive.write_bytes(line + b"\n")
    store.learn(fact("one"))
    store.forget("one")

    assert gone(store) == {"one": "forgotten"}
    assert store.restore("one").id == "one"


def test_restored_ones_come_back_with_the_edges_that_have_both_ends(process: Callable[..., SqliteStore], time: TwoClocks) -> None:
    store = process()
    for identity in ("living", "dead"):
        store.learn(fact(identity))
    stale_one(store, time, subject="S")
    store.link(Edge("p", "living", "extends"))
    store.link(Edge("dead", "p", "derives"))
    tick(store)
    time.run(30 * DAY)
    tick(store, archive_after=DAY)
    assert set(gone(store)) == {"p", "living", "dead"}

    store.restore("living")
    restored = store.restore("p")
    assert (restored.idle_seconds, restored.subject, restored.created_at) == (0, "S", None)
    assert store.edges() == [Edge("p", "living", "extends")]

    store.restore("dead")
    assert set(store.edges()) == {Edge("p", "living", "extends"), Edge("dead", "p", "derives")}
    before = weight(store, "living")
    tick(store)
    assert weight(store, "living") == before  # its edge has counted already


def test_restoring_appends_and_the_listing_folds(process: Callable[..., SqliteStore], folder: Path) -> None:
    archive = folder / "memory" / "global-archive.jsonl"
    store = process()
    store.learn(fact("p"))
    for _ in range(3):
        store.forget("p")
        assert gone(store) == {"p": "forgotten"}
        size = archive.stat().st_size
        store.restore("p")
        assert gone(store) == {}
        assert archive.stat().st_size > size

    assert [next(iter(record)) for record in records(archive)] == ["percept", "restored"] * 3


def test_restoring_is_refused_when_the_same_was_learned_again_and_names_that_one(process: Callable[..., SqliteStore]) -> None:
    store = process()
    store.learn(fact("old", content="use tabs"))
    store.forget("old")
    store.learn(fact("new", content="Use TABS."))

    with pytest.raises(UsageError, match="new"):
        store.restore("old")
    assert gone(store) == {"old": "forgotten"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({}, {"scope": "session", "session": "s1"}),
        ({"workspace": "/work/a"}, {"scope": "session", "session": "s1", "workspace": "/work/a"}),
        ({}, {"scope": "session", "session": "s1", "workspace": "/work/a"}),
        ({"scope": "session", "session": "s1"}, {"scope": "session", "session": "s1"}),
        ({"scope": "session", "session": "gone"}, {"scope": "session", "session": "s1"}),
        ({}, {"consumer": "local"}),
        ({"core": True, "producer": "user", "trust": "user"}, {"workspace": "/work/a"}),
    ],
)
def test_restoring_is_refused_beside_whatever_says_the_same_to_anybody(
    process: Callable[..., SqliteStore], old: dict[str, object], new: dict[str, object]
) -> None:
    store = process()
    store.create(Session(id="s1", workspace="/work/a", nonce="n"))
    store.learn(fact("old", content="use tabs", **old))
    store.forget("old")
    store.learn(fact("new", content="Use TABS.", **new))

    with pytest.raises(UsageError, match="new"):
        store.restore("old")
    assert [percept.id for percept in store.all_percepts()] == ["new"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"workspace": "/work/a"}, {"workspace": "/work/b"}),
        ({"consumer": "local"}, {"consumer": "strong"}),
        ({"scope": "session", "session": "s1"}, {"scope": "session", "session": "s2"}),
    ],
)
def test_what_is_told_elsewhere_is_in_no_ones_way(process: Callable[..., SqliteStore], old: dict[str, object], new: dict[str, object]) -> None:
    store = process()
    for session in ("s1", "s2"):
        store.create(Session(id=session, workspace="/work/a", nonce=session))
    store.learn(fact("old", content="use tabs", **old))
    store.forget("old")
    store.learn(fact("new", content="Use TABS.", **new))

    assert store.restore("old").id == "old"


def test_an_imported_fact_of_a_session_that_is_not_here_becomes_global_with_a_notice(process: Callable[..., SqliteStore]) -> None:
    store = process()
    store.create(Session(id="s1", workspace="/work/a", nonce="n"))
    given = [fact(identity, scope="session", session=session, workspace="/work/a") for identity, session in (("here", "s1"), ("a", "gone"), ("b", "gone"))]

    assert list(store.take_in(given)) == [True, True, True]
    assert [(percept.id, percept.scope, percept.session, percept.workspace) for percept in store.all_percepts()] == [
        ("here", "session", "s1", "/work/a"),
        ("a", "global", None, "/work/a"),
        ("b", "global", None, "/work/a"),
    ]
    assert [notice for notice in store.notices if "not in this store" in notice] == ["2 facts are of sessions not in this store, and told in all from now on"]

    assert list(store.take_in(given)) == [False, False, False]
    assert len([notice for notice in store.notices if "not in this store" in notice]) == 1


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"idle_days": int("9" * 400)}, (0, 0, 70)),
        ({"idle_days": float("nan")}, (0, 0, 70)),
        ({"idle_days": -3}, (0, 0, 70)),
        ({"percept": {"idle_seconds": int("9" * 400)}}, (1, 0, 70)),
        ({"percept": {"idle_seconds": float("nan")}}, (1, 0, 70)),
        ({"percept": {"idle_seconds": float("inf")}}, (1, 0, 70)),
        ({"percept": {"weight": int("9" * 400)}}, (1, 0, 100)),
        ({"percept": {"source": {"x": float("nan")}}}, (1, 0, 70)),
    ],
)
def test_absurd_numbers_in_the_archive_are_reported_and_hide_no_fact(
    process: Callable[..., SqliteStore], folder: Path, change: dict[str, Any], expected: tuple[float, float, int]
) -> None:
    store = process()
    store.learn(fact("p"))
    store.forget("p")
    archive = folder / "memory" / "global-archive.jsonl"
    (record,) = records(archive)
    archive.write_text(json.dumps({**record, "idle_days": 1, **change, "percept": {**record["percept"], **change.get("percept", {})}}) + "\n")

    (one,) = store.archived()

    assert (one.idle_days, one.percept.idle_seconds, one.percept.weight) == expected
    assert any("line 1" in notice for notice in store.notices)
    assert store.restore("p").id == "p"


def test_restored_and_stale_again_needs_a_full_period(process: Callable[..., SqliteStore], time: TwoClocks) -> None:
    store = process()
    stale_one(store, time)
    tick(store, archive_after=DAY)
    store.restore("p")
    tick(store, archive_after=DAY)
    time.run(DAY - 1)
    assert tick(store, archive_after=DAY).archived == ()
    time.run(1)
    assert tick(store, archive_after=DAY).archived == ("p",)


def test_one_that_was_pruned_stays_when_it_is_restored_and_becomes_global_without_its_session(process: Callable[..., SqliteStore]) -> None:
    store = process()
    store.create(Session(id="s1", workspace="/work/a", nonce="n"))
    for identity, session in (("here", "s1"), ("nowhere", "s2")):
        store.learn(fact(identity, scope="session", session=session, weight=10))
    tick(store)
    assert set(gone(store)) == {"here", "nowhere"}

    assert (store.restore("here").scope, store.restore("nowhere").scope) == ("session", "global")
    tick(store)
    assert gone(store) == {}


def test_archived_ones_are_named_by_unique_prefixes(process: Callable[..., SqliteStore]) -> None:
    store = process()
    for identity in ("abc", "abd"):
        store.learn(fact(identity))
        store.forget(identity)
    with pytest.raises(Ambiguous):
        store.restore("ab")
    for ref, error in (("x", NotFound), ("", UsageError), ("a\x00", UsageError)):
        with pytest.raises(error):
            store.restore(ref)
    assert store.restore("abd").id == "abd"


def test_a_restore_that_cannot_be_noted_changes_nothing(process: Callable[..., SqliteStore], folder: Path) -> None:
    store = process()
    store.learn(fact("p"))
    store.forget("p")
    archive = folder / "memory" / "global-archive.jsonl"
    with archive.open("ab") as file:
        file.write((b" " * 99_999 + b"\n") * 30)  # so that a limit of files' sizes keeps out the record alone, and not the database
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (archive.stat().st_size, hard))
    try:
        with pytest.raises(StoreFull):
            store.restore("p")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert not store.percepts()
    assert store.restore("p").id == "p"


def test_purging_leaves_nothing_of_it(process: Callable[..., SqliteStore], folder: Path) -> None:
    archive = folder / "memory" / "global-archive.jsonl"
    store = process()
    for identity in ("secret", "other"):
        store.learn(fact(identity))
        store.forget(identity)
    store.restore("secret")
    store.learn(fact("standing"))

    for ref in ("secret", "standing"):
        store.forget(ref, purge=True)
    assert gone(store) == {"other": "forgotten"}
    assert b"secret" not in archive.read_bytes()
    assert not store.percepts()

    store.forget("other", purge=True)
    assert gone(store) == {}
    with pytest.raises(NotFound):
        store.forget("other", purge=True)


def test_purging_takes_what_was_merged_into_it_and_says_where_it_was_recorded(process: Callable[..., SqliteStore], folder: Path) -> None:
    store = process()
    store.create(Session(id="s1-and-more", workspace="/work/a", nonce="n"))
    store.learn(fact("g", content="the key is KESTREL", source={"session": "s1-and-more", "turn": 3}))
    archive = folder / "memory" / "global-archive.jsonl"
    gone_before = [("merged", "said by g"), ("of-merged", "said by merged"), ("other", "said by h"), ("forgotten", "forgotten")]
    store.take_in((), (), [Archived(fact(identity, content=f"{identity} KESTREL"), None, reason, 0.0) for identity, reason in gone_before])

    store.forget("g", purge=True)

    assert gone(store) == {"other": "said by h", "forgotten": "forgotten"}
    assert archive.read_bytes().count(b"KESTREL") == 2
    said = "\n".join(store.notices)
    assert "from the archive what had been merged into it: merged, of-merge" in said
    assert "(session s1-and-m, turn 3) has its text still; `escalera session drop s1-and-m --purge` removes" in said


def test_purging_leaves_nothing_of_it_in_the_database_and_names_the_backups(
    process: Callable[..., SqliteStore], folder: Path, completed: Callable[..., Turn]
) -> None:
    store = process()
    store.learn(fact("p", content="the canary sings at dawn"))
    store.import_session(Session(id="s1", workspace="/w", nonce="n"), [completed(0, prompt="a nightingale at night", steps=(Text("nightingale"),))])
    assert store.search("nightingale", None, limit=5)
    files = lambda: [path for path in folder.glob("escalera.db*") if path.is_file()]  # noqa: E731  # said twice
    assert any(b"canary" in path.read_bytes() for path in files())
    (folder / "backups").mkdir()
    (folder / "backups" / "escalera-20251230T100000Z.db").write_bytes(b"")

    store.forget("p", purge=True)
    store.drop("s1", 1, purge=True)

    assert [word for word in (b"canary", b"sings", b"nightingale") for path in files() if word in path.read_bytes().lower()] == []
    assert any("backups" in notice for notice in store.notices)


def test_stale_says_how_long_each_was_idle_and_what_is_left_to_it(process: Callable[..., SqliteStore], time: TwoClocks) -> None:
    store = process()
    store.learn(fact("core", core=True))
    store.learn(fact("session", scope="session", session="s1"))
    store.learn(fact("heavy", weight=70))
    store.learn(fact("light", weight=20))
    tick(store)
    time.run(1.5 * HOUR)
    tick(store)
    listed = store.stale(5 * HOUR)

    assert [(one.percept.id, one.percept.idle_seconds, one.seconds_left) for one in listed] == [
        ("light", 1.5 * HOUR, 3.5 * HOUR),
        ("heavy", 1.5 * HOUR, 48.5 * HOUR),
    ]
    time.run(48.5 * HOUR - 1)
    assert tick(store, archive_after=5 * HOUR).archived == ("light",)
    time.run(1)
    assert tick(store, archive_after=5 * HOUR).archived == ("heavy",)


# -- cap -----------------------------------------------------------------------------------------


def test_the_lightest_go_where_there_are_too_many_but_core_ones_never(process: Callable[..., SqliteStore], time: TwoClocks) -> None:
    store = process()
    store.learn(fact("core", core=True, weight=1))
    for identity, start in (("a", 40), ("b", 30), ("c", 50)):
        store.learn(fact(identity, weight=start))
    assert tick(store, most=4).capped == ()

    assert tick(store, most=2).capped == ("b", "a")
    assert gone(store) == {"b": "more than the store may hold", "a": "more than the store may hold"}
    assert tick(store, most=1).capped == ("c",)
    assert tick(store, most=1).capped == ()


def test_of_equal_ones_those_go_first_that_were_not_used_for_longest(process: Callable[..., SqliteStore], time: TwoClocks) -> None:
    store = process()
    for identity in "abc":
        store.learn(fact(identity, weight=20))
    tick(store)
    time.run(HOUR)
    tick(store)
    store.mark_used(["a", "c"], time.now())

    assert tick(store, most=2).capped == ("b",)


def test_an_id_that_stands_for_another_text_here_loses_no_text(process: Callable[..., SqliteStore]) -> None:
    store = process()
    store.learn(fact("p", content="use tabs"))
    given = [fact("p", content="use spaces"), fact("q", content="one"), fact("q", content="two")]
    archived = [Archived(fact(identity, content=content), None, "stale", 3.0) for identity, content in (("p", "away"), ("q", "far"), ("r", "a"), ("r", "b"))]

    assert list(store.take_in(given, (), archived)) == [True, True, True]
    assert sorted(percept.content for percept in store.all_percepts()) == ["one", "two", "use spaces", "use tabs"]
    assert (store.percept("p").content, store.percept("q").content) == ("use tabs", "one")
    assert sorted(one.percept.content for one in store.archived()) == ["a", "away", "b", "far"]
    assert any("p is the id of another fact: 'use spaces' is taken in as " in notice for notice in store.notices)

    assert list(store.take_in(given, (), archived)) == [False, False, False]
    assert (len(store.all_percepts()), len(store.archived())) == (4, 4)


# -- older stores --------------------------------------------------------------------------------


def test_what_was_exported_is_taken_in_as_it_was(process: Callable[..., SqliteStore], time: TwoClocks) -> None:
    store = process()
    given = [fact("p", weight=33, idle_seconds=5 * DAY), fact("core", core=True, weight=100)]
    archived = [Archived(fact("away"), time.now(), "stale", 3.0, (Edge("away", "p", "extends"),))]

    assert store.take_in(given, [Edge("p", "core", "derives"), Edge("p", "nobody", "derives")], archived) == [True, True]
    assert store.take_in([*given, fact("same", content="A fact about PPP.")], (), archived) == [False, False, False]
    tick(store)
    assert (store.percept("p"), weight(store, "core")) == (replace(given[0]), 100)
    assert store.edges() == [Edge("p", "core", "derives")]
    assert json.dumps(sorted(gone(store))) == '["away"]'
    store.restore("away")
    assert set(store.edges()) == {Edge("p", "core", "derives"), Edge("away", "p", "extends")}
