"""What an agent may ask for in a form."""

from __future__ import annotations

import pytest

from orchestrator.answers import choices_of
from orchestrator.flat_schema import flat_schema


def of(**fields: object) -> dict[str, object]:
    return {"type": "object", "properties": fields}


def test_a_flat_schema_is_taken_in_a_form_of_its_own() -> None:
    given = {**of(port={"type": "integer", "minimum": 1, "maximum": 65535, "x-odd": {"deep": 1}}, name={"title": "Your\nname"}), "required": ["port", "gone"]}

    assert flat_schema(given) == {
        "type": "object",
        "properties": {"port": {"type": "integer", "minimum": 1, "maximum": 65535}, "name": {"type": "string", "title": "Your name"}},
        "required": ["port"],
    }


def test_what_an_answer_is_checked_by_is_kept() -> None:
    fields = {
        "mail": {"type": "string", "format": "email", "maxLength": 80},
        "sides": {"type": "array", "items": {"type": "string", "enum": ["left", "right"]}, "minItems": 1, "maxItems": 2},
    }

    assert flat_schema(of(**fields))["properties"] == fields
    assert flat_schema(of(odd={"type": "string", "format": "odd", "minLength": True}))["properties"] == {"odd": {"type": "string"}}


@pytest.mark.parametrize(
    "field",
    [
        {"type": "string", "enum": ["a", "b"]},
        {"type": "string", "oneOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]},
        {"type": "array", "items": {"enum": ["a", "b"]}},
        {"type": "array", "items": {"anyOf": [{"const": "a"}, {"const": "b"}]}},
    ],
)
def test_choices_are_found_in_every_spelling(field: dict[str, object]) -> None:
    assert choices_of(flat_schema(of(which=field))["properties"]["which"]) == [("a", "a"), ("b", "b")]


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "object"}, "1 to 20"),
        ([], "1 to 20"),
        (of(**{f"f{number}": {} for number in range(21)}), "1 to 20"),
        (of(inner={"type": "object", "properties": {}}), "'inner'"),
        (of(some={"type": "array", "items": {"type": "string"}}), "items.enum"),
        (of(which={"type": "string", "enum": [1, 2]}), "'which'"),
        (of(api_key={"type": "string"}), "secret"),
        (of(word={"type": "string", "format": "password"}), "secret"),
        (of(**{"\x1b[31m": {}}), "printable"),
        (of(field="text"), "'field'"),
    ],
)
def test_what_is_not_flat_or_asks_for_a_secret_is_refused_by_name(schema: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        flat_schema(schema)
