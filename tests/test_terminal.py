"""Text of models and tools is shown, and never obeyed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.terminal import clean, escape_controls

PAYLOADS: list[str] = json.loads((Path(__file__).parent / "trials" / "T104.json").read_text("utf-8"))["payloads"]
OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.mark.trial("T104")
@pytest.mark.parametrize("payload", PAYLOADS)
def test_t104_no_escape_code_reaches_the_terminal(payload: str) -> None:
    whole = clean(payload)

    assert not OBEYED.search(whole)
    assert clean(payload[:1]) + clean(payload[1:]) == whole


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "␛[31mred␛[0m"),
        ("\x1b]0;title\x07 after", "␛]0;title␇ after"),
        ("\x1b]never ended, then text", "␛]never ended, then text"),
        ("\x9b31m", "\\x9b31m"),
        ("safe\rHIDDEN", "safe␍HIDDEN"),
        ("a\bb\x00\x7f", "a␈b␀␡"),
        ("\u202eevil\u202c", "\\u202eevil\\u202c"),
        ("\ud83d", "\\ud83d"),
    ],
)
def test_a_control_is_shown_and_what_follows_stays(text: str, shown: str) -> None:
    assert clean(text) == shown


def test_newlines_stay_unless_one_line_is_wanted() -> None:
    assert clean("a\tb\nc") == "a\tb\nc"
    assert clean("a\tb\nc", keep_newlines=False) == "a\tb␊c"


@pytest.mark.parametrize("text", ["", "plain", "naïve 日本語 🙂 👩‍💻", "a\n\tb"])
def test_text_without_controls_is_the_same_object(text: str) -> None:
    assert clean(text) is text


@given(st.text(st.characters(categories=["Cc", "Cf", "Cs", "L", "N"])), st.integers(0, 100))
def test_splits_cannot_matter_and_once_is_enough(text: str, cut: int) -> None:
    assert clean(text[:cut]) + clean(text[cut:]) == clean(text)
    assert clean(clean(text)) == clean(text)
    assert not OBEYED.search(clean(text))
    clean(text).encode("utf-8")


@given(st.text(st.characters(categories=["Cc", "Cf", "L", "N"])))
def test_json_with_its_controls_escaped_is_the_same_value(text: str) -> None:
    document = {text: [text]}
    escaped = escape_controls(json.dumps(document, ensure_ascii=False, indent=2))
    assert json.loads(escaped) == document
    assert not OBEYED.search(escaped)
