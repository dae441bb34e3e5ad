"""What fits the flat schema of a question, and what is typed for it."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.answers import choices_of, problems_of, refusal_of, value_of
from orchestrator.providers import Answer, Question

FIELDS: dict[str, Any] = {
    "name": {"type": "string", "minLength": 2, "maxLength": 5},
    "mail": {"type": "string", "format": "email"},
    "site": {"type": "string", "format": "uri"},
    "day": {"type": "string", "format": "date"},
    "at": {"type": "string", "format": "date-time"},
    "age": {"type": "integer", "minimum": 0, "maximum": 150},
    "share": {"type": "number"},
    "sure": {"type": "boolean"},
    "colour": {"type": "string", "enum": ["red", "blue"], "enumNames": ["Red", "Blue"]},
    "size": {"type": "string", "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]},
    "sides": {"type": "array", "items": {"enum": ["left", "right", "top"]}, "minItems": 1, "maxItems": 2},
}
GOOD: dict[str, Any] = {
    "name": "Ann",
    "mail": "ann@example.org",
    "site": "https://example.org/a?b",
    "day": "2026-02-28",
    "at": "2026-02-28T12:00:00+01:00",
    "age": 7,
    "share": 0.5,
    "sure": False,
    "colour": "blue",
    "size": "l",
    "sides": ["top", "left"],
}
FORM = Question("Say", mode="form", schema={"type": "object", "properties": FIELDS, "required": list(FIELDS)})


def problems(**changes: Any) -> dict[str, str]:
    return problems_of(FORM, Answer("accept", {**GOOD, **changes}))


def test_what_fits_has_no_problems() -> None:
    assert refusal_of(FORM) is None
    assert problems() == {}


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("name", "A", "at least 2 characters"),
        ("name", "Annabella", "at most 5 characters"),
        ("name", 3, "a text"),
        ("name", None, "a text"),
        ("mail", "ann", "e-mail"),
        ("mail", "a@b", "e-mail"),
        ("mail", "a b@example.org", "e-mail"),
        ("site", "example", "address"),
        ("site", "https://a b", "address"),
        ("site", "http://[", "address"),
        ("day", "2026-02-30", "a date"),
        ("day", "20260228", "a date"),
        ("at", "2026-02-28T12:00:00", "with its zone"),
        ("at", "2026-02-28", "with its zone"),
        ("age", 7.5, "a whole number"),
        ("age", True, "a whole number"),
        ("age", -1, "at least 0"),
        ("age", 151, "at most 150"),
        ("share", "0.5", "a number"),
        ("share", math.nan, "a number"),
        ("share", math.inf, "a number"),
        ("sure", "yes", "true or false"),
        ("sure", 1, "true or false"),
        ("colour", "green", "one of: red, blue"),
        ("colour", "Blue", "one of: red, blue"),
        ("sides", "left", "some of"),
        ("sides", ["left", "bottom"], "some of"),
        ("sides", ["left", ["top"]], "some of"),
        ("sides", ["left", "left"], "once"),
        ("sides", [], "at least 1"),
        ("sides", ["left", "right", "top"], "at most 2"),
        ("more", "x", "not asked for"),
    ],
)
def test_e6_each_field_that_does_not_fit_is_named(name: str, value: Any, told: str) -> None:
    found = problems(**{name: value})

    assert list(found) == [name]
    assert told in found[name]


def test_e6_what_is_missing_is_named() -> None:
    assert problems_of(FORM, Answer("accept", {"name": "Ann"})) == dict.fromkeys([name for name in FIELDS if name != "name"], "is missing")


def test_what_is_not_required_may_be_left_out_but_not_everything() -> None:
    free = Question("Say", mode="form", schema={"properties": FIELDS})

    assert problems_of(free, Answer("accept", {"age": 3})) == {}
    assert list(problems_of(free, Answer("accept"))) == [""]


def test_a_yes_or_no_takes_no_content() -> None:
    assert problems_of(Question("May I?"), Answer("accept", {"a": 1})) == {"a": "is not asked for"}
    assert problems_of(Question("May I?"), Answer("decline", {"a": 1})) != {}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array"},
        {"properties": [1]},
        {"properties": {"a": "text"}},
        {"properties": {"a": {"type": "object"}}},
        {"properties": {"a": {"type": ["string", "null"]}}},
        {"properties": {"a": {"type": "array", "items": {"type": "string"}}}},
        {"properties": {"a": {"type": "string", "format": "password"}}},
        {"properties": {"a": {"type": "string", "writeOnly": True}}},
        {"properties": {"api_key": {"type": "string"}}},
        {"properties": {"password": {}}},
    ],
)
def test_what_is_not_flat_or_asks_for_a_secret_may_not_be_put(schema: dict[str, Any]) -> None:
    assert refusal_of(Question("Say", mode="form", schema=schema)) is not None


@pytest.mark.parametrize(
    ("name", "said", "value"),
    [
        ("age", "7", 7),
        ("share", "7", 7.0),
        ("sure", "Yes", True),
        ("sure", "n", False),
        ("colour", "blue", "blue"),
        ("colour", "Blue", "blue"),
        ("colour", "2", "blue"),
        ("size", "LARGE", "l"),
        ("sides", "1, top", ["left", "top"]),
        ("name", "Ann", "Ann"),
    ],
)
def test_what_is_typed_becomes_what_the_field_wants(name: str, said: str, value: object) -> None:
    assert value_of(FIELDS[name], said) == value


@pytest.mark.parametrize(
    ("name", "said"), [("age", "x"), ("age", "7.5"), ("share", "nan"), ("sure", "perhaps"), ("colour", "3"), ("sides", "1,9"), ("name", "")]
)
def test_what_cannot_be_that_says_what_it_must_be(name: str, said: str) -> None:
    with pytest.raises(ValueError, match="must"):
        value_of(FIELDS[name], said)


def test_choices_have_their_words() -> None:
    assert choices_of(FIELDS["colour"]) == [("red", "Red"), ("blue", "Blue")]
    assert choices_of(FIELDS["size"]) == [("s", "Small"), ("l", "Large")]
    assert choices_of({"enum": "red"}) == choices_of({"items": 3, "type": "array"}) == []


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
json_values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3), max_leaves=12)
keywords = st.sampled_from(["type", "properties", "required", "enum", "enumNames", "items", "oneOf", "minLength", "maximum", "minItems", "format", "title"])
fields = st.dictionaries(st.text(max_size=3), st.dictionaries(keywords, json_values, max_size=4) | json_values, max_size=3)
schemas = st.dictionaries(keywords | st.text(max_size=4), json_values | fields, max_size=5) | st.fixed_dictionaries({"properties": fields})


def test_a_bound_beyond_all_figures_is_none() -> None:
    question = Question("Say", mode="form", schema={"properties": {"n": {"type": "number", "minimum": 10**400, "maximum": -(10**400)}}})

    assert problems_of(question, Answer("accept", {"n": 10**400})) == {}


@given(schemas, st.dictionaries(st.text(max_size=3), json_values, max_size=3))
def test_no_schema_of_a_stranger_breaks_it(schema: dict[str, Any], content: dict[str, Any]) -> None:
    question = Question("Say", mode="form", schema=schema)
    if refusal_of(question) is None:
        problems = problems_of(question, Answer("accept", content))
        assert all(isinstance(why, str) and why for why in problems.values())
        assert problems_of(question, Answer("accept", content)) == problems
