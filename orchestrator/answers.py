"""Whether an answer fits its question: the flat subset of JSON Schema that MCP elicitation has (page 5)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from typing import Any
from urllib.parse import urlsplit

from orchestrator.providers import Answer, Question
from orchestrator.settings.secrets import is_secret_name

MAX_CONTENT = 256 * 1024
"""Characters of an answer as JSON."""
MAX_QUESTION = 64 * 1024
"""Characters of a question and of its schema. A longer one is not put: what is not shown would be approved unseen."""

_EMAIL = re.compile(r"[^@\s]+@[^@\s.]+(\.[^@\s.]+)+")


def refusal_of(question: Question) -> str | None:
    """Why a question may not be put to a human; `None` where it may: a form has flat fields, and asks for no secret."""
    if len(question.message) > MAX_QUESTION or not _fits(question.schema):
        return f"it has more than {MAX_QUESTION:,} characters"
    if question.mode != "form":
        return None
    fields = question.schema.get("properties", {})
    if question.schema.get("type", "object") != "object" or not isinstance(fields, Mapping):
        return "its schema is not of an object with `properties`"
    for name, field in fields.items():
        problem = _unusable(str(name), field)
        if problem is not None:
            return f"its field {str(name)!r} {problem}"
    return None


def problems_of(question: Question, answer: Answer) -> dict[str, str]:
    """Each field of the answer's content that does not fit, with what it must be; `""` stands for the content as a whole."""
    if answer.action != "accept":
        return {"": "goes with no refusal"} if answer.content else {}
    if len(json.dumps(dict(answer.content), default=str)) > MAX_CONTENT:
        return {"": f"must be at most {MAX_CONTENT:,} characters long"}
    if question.mode != "form":
        return dict.fromkeys(answer.content, "is not asked for")
    fields = fields_of(question)
    if fields and not answer.content:
        return {"": f"must have the fields {', '.join(fields)}"}
    problems = {name: "is missing" for name in fields if is_required(question, name) and name not in answer.content}
    for name, value in answer.content.items():
        problem = _wrong(fields[name], value) if name in fields else "is not asked for"
        if problem is not None:
            problems[name] = problem
    return problems


def fields_of(question: Question) -> dict[str, Mapping[str, Any]]:
    """The fields of a form by name; none of any other question."""
    fields = question.schema.get("properties") if question.mode == "form" else None
    return {str(name): field for name, field in fields.items() if isinstance(field, Mapping)} if isinstance(fields, Mapping) else {}


def is_required(question: Question, name: str) -> bool:
    """Whether a form must have that field."""
    required = question.schema.get("required")
    return isinstance(required, list | tuple) and name in required


def value_of(field: Mapping[str, Any], said: str) -> object:
    """What was typed for one field, as the field wants it. Raises `ValueError` saying what it must be."""
    value = _read(field, said)
    problem = _wrong(field, value)
    if problem is not None:
        raise ValueError(problem)
    return value


def choices_of(field: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What there is to choose from: each value with the words for it; empty where anything will do."""
    holder = field.get("items") if field.get("type") == "array" else field
    if not isinstance(holder, Mapping):
        return []
    titled = holder.get("oneOf") or holder.get("anyOf")
    if isinstance(titled, Sequence) and not isinstance(titled, str):
        pairs = [one for one in titled if isinstance(one, Mapping) and isinstance(one.get("const"), str)]
        return [(one["const"], str(one.get("title") or one["const"])) for one in pairs]
    values, names = holder.get("enum"), holder.get("enumNames")
    if not isinstance(values, Sequence) or isinstance(values, str):
        return []
    words = names if isinstance(names, Sequence) and len(names) == len(values) else values
    return [(str(value), str(word)) for value, word in zip(values, words, strict=True)]


def _fits(schema: Mapping[str, Any]) -> bool:
    try:
        return len(json.dumps(dict(schema))) <= MAX_QUESTION
    except (TypeError, ValueError, RecursionError):  # no JSON at all, or without end
        return False


def _unusable(name: str, field: object) -> str | None:
    if not isinstance(field, Mapping):
        return "is not described by an object"
    kind = field.get("type", "string")
    if kind == "array":
        return None if choices_of(field) else "is a list of something else than choices"
    if not isinstance(kind, str) or kind not in _KINDS:
        return f"is of the type {kind!r}, which is not flat"
    if kind == "string" and not choices_of(field) and (field.get("format") == "password" or field.get("writeOnly") is True or is_secret_name(name)):
        return "asks for a secret, which no form may"
    return None


# -- one value -----------------------------------------------------------------------------------


def _wrong(field: Mapping[str, Any], value: object) -> str | None:
    """What the value must be and is not."""
    kind = str(field.get("type", "string"))
    choices = [choice for choice, _ in choices_of(field)]
    if kind == "array":
        return _wrong_list(field, value, choices)
    fits, name = _KINDS.get(kind, (_never, kind))
    if not fits(value):
        return f"must be {name}"
    if choices and value not in choices:
        return f"must be one of: {', '.join(choices)}"
    if isinstance(value, str):
        return _out_of_bounds(len(value), field, "minLength", "maxLength", " characters long") or _wrong_format(field.get("format"), value)
    return _out_of_bounds(value, field, "minimum", "maximum", "") if isinstance(value, int | float) and not isinstance(value, bool) else None


def _wrong_list(field: Mapping[str, Any], value: object, choices: Sequence[str]) -> str | None:
    if not isinstance(value, list | tuple) or not all(item in choices for item in value):
        return f"must be some of: {', '.join(choices)}"
    if len(set(value)) != len(value):
        return "must have each choice once"
    return _out_of_bounds(len(value), field, "minItems", "maxItems", " choices")


def _out_of_bounds(size: float, field: Mapping[str, Any], low: str, high: str, what: str) -> str | None:
    least, most = (_bound(field.get(name)) for name in (low, high))
    if least is not None and size < least:
        return f"must be at least {least:g}{what}"
    if most is not None and size > most:
        return f"must be at most {most:g}{what}"
    return None


def _bound(value: Any) -> float | None:  # of a stranger's schema
    return value if _is_number(value) and abs(value) < 1e300 else None


def _wrong_format(name: object, value: str) -> str | None:
    if not isinstance(name, str) or name not in _FORMATS:
        return None
    fits, words = _FORMATS[name]
    return None if fits(value) else f"must be {words}"


def _is_number(value: object) -> bool:
    return _is_whole(value) or (isinstance(value, float) and math.isfinite(value))


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _never(_value: object) -> bool:
    return False


_KINDS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "string": (lambda value: isinstance(value, str), "a text"),
    "integer": (_is_whole, "a whole number"),
    "number": (_is_number, "a number"),
    "boolean": (lambda value: isinstance(value, bool), "true or false"),
}


def _is_uri(value: str) -> bool:
    try:
        parts = urlsplit(value)
    except ValueError:
        return False
    return bool(parts.scheme) and bool(parts.netloc or parts.path) and not any(character.isspace() for character in value)


def _is_date(value: str) -> bool:
    try:
        return date.fromisoformat(value).isoformat() == value
    except ValueError:
        return False


def _is_moment(value: str) -> bool:
    try:
        return datetime.fromisoformat(value).tzinfo is not None and len(value) > 10
    except ValueError:
        return False


_FORMATS: Mapping[str, tuple[Callable[[str], bool], str]] = {
    "email": (lambda value: _EMAIL.fullmatch(value) is not None, "an e-mail address"),
    "uri": (_is_uri, "an address such as https://example.org/"),
    "date": (_is_date, "a date such as 2026-01-31"),
    "date-time": (_is_moment, "a time with its zone, such as 2026-01-31T12:00:00Z"),
}


# -- what was typed ------------------------------------------------------------------------------

_YES, _NO = ("y", "yes", "true"), ("n", "no", "false")


def _read(field: Mapping[str, Any], said: str) -> object:
    choices, kind = choices_of(field), field.get("type", "string")
    if kind == "array":
        return [_choice(part.strip(), choices) for part in said.split(",") if part.strip()]
    if choices:
        return _choice(said, choices)
    if kind == "boolean":
        if said.lower() not in (*_YES, *_NO):
            raise ValueError("must be yes or no")
        return said.lower() in _YES
    if kind in ("integer", "number"):
        try:
            return int(said) if kind == "integer" else float(said)
        except ValueError:
            raise ValueError(f"must be {_KINDS[kind][1]}") from None
    return said


def _choice(said: str, choices: Sequence[tuple[str, str]]) -> str:
    """By its value, its words, or its number."""
    for value, words in choices:
        if said in (value, words):
            return value
    if said.isdecimal() and 1 <= int(said) <= len(choices):
        return choices[int(said) - 1][0]
    match = [value for value, words in choices if said.casefold() in (value.casefold(), words.casefold())]
    if not match:
        raise ValueError(f"must be one of: {', '.join(value for value, _ in choices)}, or a number from 1 to {len(choices)}")
    return match[0]
