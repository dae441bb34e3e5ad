"""The convention itself: its table, which has everything that expires, and the properties of touch-on-read."""

from __future__ import annotations

import re
import sqlite3
from datetime import UTC, datetime, timedelta
from typing import get_args, get_type_hints

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.cli.app import COMMANDS, root
from orchestrator.documents.kinds import Document
from orchestrator.documents.kinds.stream import StreamLine
from orchestrator.lifetimes import EXPIRING, LAST_NEED_KEPT, LEASE_TTL, Lifespan, Side, begun, idle_deadline, lifetime_fields, outlived
from orchestrator.settings.declarations import BY_PATH, SETTINGS
from orchestrator.store.schema import migrate

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)

moments = st.integers(-10, 4000).map(lambda tenths: START + tenths * SECOND / 10)
spans = st.integers(1, 2_000_000).map(lambda milliseconds: timedelta(milliseconds=milliseconds))


@st.composite
def lives(draw: st.DrawFn) -> Lifespan:
    ttl = draw(spans)
    explicit = draw(st.none() | moments)
    return begun(START, ttl=ttl, max_age=ttl + draw(spans), expires_at=explicit)


@given(lives(), st.lists(moments, max_size=30))
def test_touching_never_shortens_never_revives_and_never_passes_the_ceiling(life: Lifespan, reads: list[datetime]) -> None:
    for now in reads:
        after = life.touched(now)
        assert after.expires_at >= life.expires_at
        assert after.last_touched >= life.last_touched
        if not life.is_alive(now):
            assert after == life
        if life.explicit:
            assert after.expires_at == life.expires_at
        else:
            assert after.expires_at <= life.created + life.max_age
        life = after


@given(lives(), moments)
def test_whatever_reads_twice_at_one_moment_reads_once(life: Lifespan, now: datetime) -> None:
    assert life.touched(now).touched(now) == life.touched(now)


# -- the table -----------------------------------------------------------------------------------


def test_every_expiring_resource_has_its_side_once() -> None:
    assert len({expiring.resource for expiring in EXPIRING}) == len(EXPIRING)
    assert all(isinstance(expiring.side, Side) for expiring in EXPIRING)
    assert all(bool(expiring.settings) != (expiring.span is not None) for expiring in EXPIRING), "its span stands in settings, or else in the table"


def test_h16_every_table_with_a_deadline_is_declared() -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection)
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    with_deadline = {table for table in tables if "expires_at" in {column[1] for column in connection.execute(f"PRAGMA table_info({table})")}}

    assert with_deadline == {expiring.table for expiring in EXPIRING if expiring.table is not None}


def test_h16_every_setting_of_a_lifetime_is_declared() -> None:
    lifetimes = {setting.path for setting in SETTINGS if re.search(r"(^|[._])(ttl|max_age|keep|idle|idle_exit|expiry_hours)$", setting.path)}

    assert lifetimes == {path for expiring in EXPIRING for path in expiring.settings}
    assert all(path in BY_PATH for path in lifetimes)


def test_c9_every_document_that_expires_has_the_three_names_and_no_other() -> None:
    kinds = [*get_args(Document), *get_args(StreamLine)]
    names = {kind.__name__: set(get_type_hints(kind)) for kind in kinds}

    with_lifetime = {name for name, keys in names.items() if {"expiresAt", "lastTouched", "ttlRemainingMs"} <= keys}
    assert with_lifetime == {"ArtifactDocument", "NeedDocument", "QuestionDocument", "TaskDocument"}
    assert not {name for name, keys in names.items() if keys & {"expires", "ttl", "expires_at", "expiry"}}


def test_b15_no_command_renews_anything() -> None:
    verbs = {"renew", "touch", "extend", "prolong", "refresh", "keep-alive"}
    context = click.Context(root)
    for name in COMMANDS:
        command = root.get_command(context, name)
        assert command is not None
        below = set(command.commands) if isinstance(command, click.Group) else set()
        assert not ({name, *below} & verbs)


# -- absolute and idle ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("age", "hours", "expected"), [(24, 24, False), (24.001, 24, True), (9999, 0, False), (-5, 24, False)], ids=["to the limit", "past it", "never", "stepped"]
)
def test_hours_end_strictly_after_the_limit(age: float, hours: float, expected: bool) -> None:
    assert outlived(START, hours, START + timedelta(hours=age)) is expected


def test_an_unknown_time_and_one_beyond_the_calendar_never_end() -> None:
    assert idle_deadline(None, 24) is None
    assert idle_deadline(datetime(9999, 12, 31, tzinfo=UTC), 24) is None
    assert idle_deadline(datetime(9999, 12, 31, tzinfo=UTC), 1) == datetime(9999, 12, 31, 1, tzinfo=UTC)
    assert not outlived(None, 24, START)


def test_the_fixed_spans_are_those_of_the_specification() -> None:
    assert (timedelta(days=7), timedelta(seconds=60)) == (LAST_NEED_KEPT, LEASE_TTL)


# -- representation ------------------------------------------------------------------------------


@given(st.integers(-(10**9), 10**9))
def test_c3_c4_remaining_time_is_whole_milliseconds_and_never_negative(milliseconds: int) -> None:
    fields = lifetime_fields(START + timedelta(milliseconds=milliseconds), START, START)

    assert fields["ttlRemainingMs"] == max(0, milliseconds)


def test_what_never_ends_says_so() -> None:
    assert lifetime_fields(None, None, START) == {"expiresAt": None, "lastTouched": None, "ttlRemainingMs": None}
