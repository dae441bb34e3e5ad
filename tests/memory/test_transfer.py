"""Facts from elsewhere: what is sound is taken, what is not is named."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orchestrator.memory.transfer import Given, read_memory
from orchestrator.percepts import Archived, Edge, Percept

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def read(text: str | bytes) -> Given:
    ids = itertools.count(1)
    return read_memory(text if isinstance(text, bytes) else text.encode(), new_id=lambda: f"new-{next(ids)}", now=NOW)


def assert_storable(given: Given) -> None:
    """Whatever was read: only facts that the store takes, and a reason for each line that is left out."""
    for percept in (*given.percepts, *(one.percept for one in given.archived)):
        assert 0 < len(percept.content.strip()) <= 2000
        assert 0 <= percept.weight <= 100
        assert percept.idle_seconds >= 0
    assert given.fresh <= {percept.id for percept in (*given.percepts, *(one.percept for one in given.archived))}
    assert all(line > 0 and why for line, why in given.problems)


@pytest.mark.parametrize(
    ("text", "taken", "left_out"),
    [
        ("", 0, 0),
        ("\ufeff" + '{"content": "with a mark of the byte order"}', 1, 0),
        ('[{"content": "one"}, {"content": "two"}, 3]', 2, 1),
        ('{\n "content": "over\\nlines"\n}', 1, 0),
        ('{"content": "one"}\r\n{"content": "two"}\r\n', 2, 0),
        ('{"content": "one"}{"content": "two"}', 2, 0),
        ('{"content": "one\u2028half"}\n{"content": "two"}', 2, 0),
        ('{"content": ""}\n{"content": 7}\n{"content": "x", "weight": 101}\n{"content": "x", "weight": 0.5}\n{"content": "x", "scope": "moon"}', 0, 5),
        ('{"content": "' + "x" * 2001 + '"}', 0, 1),
        ('{"content": "' + "x" * 2000 + '"}', 1, 0),
        ("[" * 200_000, 0, 1),
        ('{"content": "x", "producer": "somebody"}\n{"content": "x", "id": ""}\n{"content": "x", "id": 3}\n{"content": "x", "core": "yes"}', 1, 3),
        ('{"content": "x", "weight": true}\n{"content": "x", "idle_seconds": -1}', 0, 2),
        ('{"content": "x", "idle_seconds": NaN}\n{"content": "x", "idle_seconds": Infinity}', 0, 2),
        ('{"content": "x", "idle_seconds": ' + "9" * 400 + '}\n{"content": "x", "weight": ' + "9" * 400 + "}", 0, 2),
        ('{"content": "x", "created_at": ' + "9" * 400 + '}\n{"content": "x", "source": {"y": NaN}}\n{"content": "x", "source": {"y": 1e999}}', 1, 2),
        ('{"content": "x", "archived_at": null, "idle_days": NaN}\n{"content": "x", "archived_at": null, "idle_days": ' + "9" * 400 + "}", 0, 2),
        ('{"content": "x", "scope": "session"}\n{"content": "x", "producer": ["user"]}', 0, 2),
        ('{"source": "a", "target": "b", "kind": "knows"}\n{"format": "escalera.memory/1"}', 0, 2),
        ("\x00\x01\x02", 0, 1),
        ("null\ntrue\n3", 0, 3),
    ],
)
def test_what_is_sound_is_taken(text: str, taken: int, left_out: int) -> None:
    found = read(text)

    assert (len(found.percepts), len(found.problems)) == (taken, left_out)


def test_bytes_that_are_no_text_spoil_only_their_own_line() -> None:
    found = read(b'\xff\xfe\n{"content": "sound"}\n')

    assert [percept.content for percept in found.percepts] == ["sound"]
    assert [line for line, _ in found.problems] == [1]


def test_a_bare_fact_is_as_if_the_user_had_stated_it() -> None:
    (percept,) = read('{"content": " use tabs "}').percepts

    assert percept == Percept("new-1", " use tabs ", "user", "all", 90, created_at=NOW, updated_at=NOW)
    assert read('{"content": "x", "core": true}').percepts[0].weight == 100
    assert (read('{"content": "x", "producer": "system"}').percepts[0].weight, read('{"content": "x", "producer": "system"}').percepts[0].trust) == (
        40,
        "agent",
    )


def test_only_facts_without_an_id_are_linked_anew() -> None:
    found = read('{"content": "one"}\n{"content": "two", "id": "p2"}')

    assert found.fresh == {"new-1"}
    assert [percept.id for percept in found.percepts] == ["new-1", "p2"]


def test_an_export_has_percepts_edges_and_the_archive() -> None:
    archived = {"id": "p3", "content": "three", "archived_at": "2026-01-01T00:00:00Z", "reason": "stale", "idle_days": 3, "edges": []}
    document = {
        "format": "escalera.memory/1",
        "percepts": [{"id": "p1", "content": "one"}, {"id": "p2", "content": "two"}, "spoilt"],
        "edges": [{"source": "p1", "target": "p2", "kind": "extends"}],
        "archived": [archived],
    }

    found = read(json.dumps(document))

    assert [percept.id for percept in found.percepts] == ["p1", "p2"]
    assert found.edges == [Edge("p1", "p2", "extends")]
    assert [(one.percept.id, one.reason, one.idle_days) for one in found.archived] == [("p3", "stale", 3.0)]
    assert isinstance(found.archived[0], Archived)
    assert len(found.problems) == 1


@given(st.binary(max_size=300))
def test_any_bytes_are_read(data: bytes) -> None:
    assert_storable(read(data))


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=10),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "content",
                        "id",
                        "type",
                        "percepts",
                        "edges",
                        "archived",
                        "archived_at",
                        "observations",
                        "name",
                        "weight",
                        "source",
                        "target",
                        "kind",
                        "from",
                        "to",
                        "relationType",
                    ]
                ),
                inner,
            )
        ),
        max_leaves=12,
    )
)
@example({"archived_at": 253402300800.0, "content": "of the year 10000"})
def test_any_json_is_read(value: object) -> None:
    assert_storable(read(json.dumps(value)))
