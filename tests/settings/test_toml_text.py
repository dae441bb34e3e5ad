from __future__ import annotations

import os
import tomllib
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from orchestrator.settings.toml_text import Uneditable, spelled, with_key, without_key

EXAMPLES = int(os.environ.get("ESCALERA_TEST_TOML_EXAMPLES", "150"))

FILE = """\
# My agents.

primary   =   'cheap'   # the small one
need_expiry_hours = 12

[limits]    # for all
idle_timeout = "10s"

# The cheap one.
[agents.cheap]
  provider = 'openai'   # Ollama
  base_url = "http://127.0.0.1/#x"
  headers = { x-one = "1",  "x.two" = '2' }
  models = [
    "a",  # first
    "b",
  ]
  prompt = \"\"\"
[limits]
idle_timeout = "no"
\"\"\"

[questions]
ttl = '60s'
"""


def path(dotted: str) -> tuple[str, ...]:
    return tuple(dotted.split("."))


@pytest.mark.parametrize(
    ("key", "value", "old", "new"),
    [
        ("primary", "big", "primary   =   'cheap'   #", 'primary   =   "big"   #'),
        ("need_expiry_hours", 3, "need_expiry_hours = 12", "need_expiry_hours = 3"),
        ("fallback", True, "need_expiry_hours = 12\n", "need_expiry_hours = 12\nfallback = true\n"),
        ("limits.idle_timeout", "5s", 'idle_timeout = "10s"', 'idle_timeout = "5s"'),
        ("limits.turn_timeout", "5m", 'idle_timeout = "10s"\n', 'idle_timeout = "10s"\nturn_timeout = "5m"\n'),
        ("agents.cheap.models", ["c"], '[\n    "a",  # first\n    "b",\n  ]', '["c"]'),
        ("agents.cheap.region", "x", '"no"\n"""\n', '"no"\n"""\n  region = "x"\n'),
        ("agents.cheap.headers.x-one", "9", 'x-one = "1"', 'x-one = "9"'),
        ("agents.cheap.headers.three", "3", "'2' }", "'2', three = \"3\" }"),
        ("agents.cheap.limits.retry_attempts", 1, "ttl = '60s'\n", "ttl = '60s'\n\n[agents.cheap.limits]\nretry_attempts = 1\n"),
        ("agents.new.api_key", {"env": "K"}, "ttl = '60s'\n", "ttl = '60s'\n\n[agents.new]\napi_key = { env = \"K\" }\n"),
    ],
)
def test_setting_a_key_changes_nothing_else(key: str, value: object, old: str, new: str) -> None:
    assert FILE.count(old) == 1

    changed = with_key(FILE, path(key), value)

    assert changed == FILE.replace(old, new)


@pytest.mark.parametrize(
    ("key", "old", "new"),
    [
        ("primary", "primary   =   'cheap'   # the small one\n", ""),
        ("agents.cheap.models", '  models = [\n    "a",  # first\n    "b",\n  ]\n', ""),
        ("agents.cheap.headers.x-one", 'x-one = "1",  ', ""),
        ("questions.ttl", "\n[questions]\nttl = '60s'\n", ""),
        ("limits.idle_timeout", 'idle_timeout = "10s"\n\n', "\n"),
        ("agents.cheap.gone", "", ""),
    ],
)
def test_unsetting_a_key_takes_away_its_line_and_a_table_that_held_nothing_else(key: str, old: str, new: str) -> None:
    assert without_key(FILE, path(key)) == FILE.replace(old, new)


@pytest.mark.parametrize(
    ("text", "key", "value", "changed"),
    [
        ("", "primary", "x", 'primary = "x"\n'),
        ("", "limits.retry_attempts", 1, "[limits]\nretry_attempts = 1\n"),
        ("a = 1", "primary", "x", 'a = 1\nprimary = "x"'),
        ("# only\n", "primary", "x", '# only\nprimary = "x"\n'),
        ("[limits] # mine", "limits.retry_attempts", 1, "[limits] # mine\nretry_attempts = 1"),
        ("# head\n\n# of cheap\n[agents.cheap]\n", "primary", "x", '# head\n\nprimary = "x"\n\n# of cheap\n[agents.cheap]\n'),
        ("a = 1\r\n[limits]\r\nb = 2\r\n", "limits.c", 3, "a = 1\r\n[limits]\r\nb = 2\r\nc = 3\r\n"),
        ("limits.a = 1\nb = 2\n", "limits.c", 3, "limits.a = 1\nlimits.c = 3\nb = 2\n"),
        ("agents.x.a = 1\n", "agents.x.limits.b", 2, "agents.x.a = 1\n\n[agents.x.limits]\nb = 2\n"),
        ("agents = { x = { a = 1 } }\n", "agents.x.limits.b", 2, "agents = { x = { a = 1, limits.b = 2 } }\n"),
        ("agents = {}\n", "agents.x.a", 2, "agents = {x.a = 2}\n"),
        ("'limits'.\"a\" = 1\n", "limits.b", 3, "'limits'.\"a\" = 1\n'limits'.b = 3\n"),
        ("[ limits ]\na = '''\n''''''\n", "limits.b", 3, None),
        ("[[limits]]\na = 1\n", "limits.a", 3, None),
        ("limits = 3\n", "limits.a", 3, None),
        ("[agents.x.headers]\na = '1'\n", "agents.x.headers", {"b": "2"}, None),
    ],
)
def test_every_way_to_write_a_table_is_kept(text: str, key: str, value: object, changed: str | None) -> None:
    if changed is None:
        with pytest.raises(ValueError, match=r".+"):
            with_key(text, path(key), value)
    else:
        assert with_key(text, path(key), value) == changed
        assert without_key(changed, path(key)) == text


def test_a_table_is_not_unset_as_a_whole_where_it_has_lines_of_its_own() -> None:
    with pytest.raises(Uneditable, match="unset its keys one by one"):
        without_key("[agents.x.headers]\na = '1'\n", path("agents.x.headers"))


@given(st.recursive(st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8))
def test_whatever_is_spelled_is_read_as_it_was(value: Any) -> None:
    read = tomllib.loads(f"v = {spelled(value)}")["v"]

    assert repr(read) == repr(value)


def test_what_is_no_text_is_not_spelled() -> None:
    for value in ("\ud800", None, object()):
        with pytest.raises(ValueError, match=r".+"):
            spelled(value)


NAMES = st.sampled_from(["a", "b", "limits", "agents", '"q u"', "'#'"])
VALUES = st.sampled_from(["1", "true", "'#x'", '"\\""', '"""\n[limits]\n"""', "[1, [2], # c\n 3]", "{}", "{ a = 1 }", "{a = 1, b.c = ']'}", "'''\nb = 1'''"])
ENDS = st.sampled_from(["", " ", "  # note", "# x = 1"])
LINES = st.one_of(
    st.tuples(st.sampled_from(["", "  "]), st.lists(NAMES, min_size=1, max_size=3).map(".".join), VALUES, ENDS).map("{0[0]}{0[1]} = {0[2]}{0[3]}".format),
    st.tuples(st.lists(NAMES, min_size=1, max_size=3).map(".".join), ENDS).map("[{0[0]}]{0[1]}".format),
    st.lists(NAMES, min_size=1, max_size=2).map(".".join).map("[[{}]]".format),
    st.sampled_from(["", "", " ", "# comment", "# a = 1", "# [limits]"]),
)


@st.composite
def toml_files(draw: st.DrawFn) -> str:
    """Valid TOML in many spellings: lines that would spoil it are left out."""
    eol = draw(st.sampled_from(["\n", "\r\n"]))
    kept: list[str] = []
    for line in draw(st.lists(LINES, max_size=10)):
        try:
            tomllib.loads("\n".join([*kept, line]))
        except tomllib.TOMLDecodeError:
            continue
        kept.append(line)
    return "\n".join(kept).replace("\n", eol) + draw(st.sampled_from(["", eol]))


KEYS = st.lists(st.sampled_from(["a", "b", "limits", "agents", "q u", "#"]), min_size=1, max_size=3).map(tuple)


def has_bare_empty_table(text: str, key: tuple[str, ...]) -> bool:
    """Where a table of nothing but its header goes with the key that was put into it."""
    data: Any = tomllib.loads(text)
    for part in key[:-1]:
        data = data.get(part) if isinstance(data, dict) else None
    headers = [named(line) for line in text.splitlines() if line.lstrip().startswith("[")]
    bare = [place for place, header in enumerate(headers) if header == key[:-1]]
    return data == {} or any(all(header[: len(key) - 1] != key[:-1] for header in headers[place + 1 :]) for place in bare)


def named(header: str) -> tuple[str, ...]:
    """The path of the table that a line begins; none for a line of some text or list that looks like one."""
    try:
        table: Any = tomllib.loads(header)
    except tomllib.TOMLDecodeError:
        return ()
    path: list[str] = []
    while table:
        ((part, table),) = (table[0] if isinstance(table, list) else table).items()
        path.append(part)
        table = table if table != [{}] else {}
    return tuple(path)


@settings(max_examples=EXAMPLES, deadline=None)
@given(toml_files(), KEYS, st.sampled_from([1, True, "x\ny", [1, 2], {"k": "v"}]))
@example("[limits]\na = 1\n\n# next\n[agents.x]\n", ("limits", "b"), 1)
@example(" ", ("limits", "b"), 1)
@example('a = 1\n["q u"]\n["q u".a]\n', ("q u", "b"), 1)
@example("[a]\n[a.b]\nc = 1\n", ("a", "z"), 1)
@example("[a.b]\nc = 1\n", ("a", "z"), 1)
@example("[a]\n[[a.b]]\n", ("a", "z"), 1)
def test_a_key_that_was_set_reads_back_and_unset_gives_the_same_bytes(text: str, key: tuple[str, ...], value: object) -> None:
    before = tomllib.loads(text)
    try:
        changed = with_key(text, key, value)
    except Uneditable:
        return

    read: Any = tomllib.loads(changed)
    for part in key:
        read = read[part]
    assert read == value
    absent: Any = before
    for part in key:
        absent = absent.get(part, ...) if isinstance(absent, dict) else ...
    if absent is ... and not has_bare_empty_table(text, key):
        assert without_key(changed, key) == text


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("#:schema x.json\n# mine\n[a]\n", "#:schema x.json\np = 1\n\n# mine\n[a]\n"),
        ("#:schema x.json\n[a]\n", "#:schema x.json\np = 1\n\n[a]\n"),
        ("# what this file is for\n[a]\n", "# what this file is for\np = 1\n\n[a]\n"),
        ("# this file\n\n# who\n[a]\n", "# this file\n\np = 1\n\n# who\n[a]\n"),
        ("[a]\n", "p = 1\n\n[a]\n"),
    ],
)
def test_a_key_of_the_top_goes_below_what_the_file_begins_with(text: str, changed: str) -> None:
    assert with_key(text, ("p",), 1) == changed


def test_a_table_with_a_comment_at_its_header_stays() -> None:
    assert without_key("[limits] # see [docs]\na = 1\n", ("limits", "a")) == "[limits] # see [docs]\n"
    assert without_key("x = 1\n\n[ limits ]\na = 1\n", ("limits", "a")) == "x = 1\n"
