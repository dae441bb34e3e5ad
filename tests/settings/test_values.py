from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import orchestrator
from orchestrator.settings.declarations import BY_PATH, SETTINGS, SettingValue, reference_table
from orchestrator.settings.limits import Limits
from orchestrator.settings.values import parse_value, path_parts, python_value, seconds, size


@pytest.mark.parametrize(
    ("written", "wanted"),
    [("500ms", 0.5), ("120s", 120.0), ("30m", 1800.0), ("24h", 86400.0), ("14d", 1209600.0), ("1.5h", 5400.0), (" 2 s ", 2.0), ("0s", 0.0)],
)
def test_durations_have_one_unit(written: str, wanted: float) -> None:
    assert seconds(written) == wanted


@pytest.mark.parametrize("written", ["", "120", "1h30m", "s", "-5s", "1e3s", "nan", "infs", "5 minutes", "٣s", "1.s", "5S"])
def test_other_durations_are_refused(written: str) -> None:
    with pytest.raises(ValueError, match="120s"):
        seconds(written)


@pytest.mark.parametrize(
    ("path", "raw", "text", "wanted"),
    [
        ("need_expiry_hours", "24", True, 24),
        ("need_expiry_hours", 0.5, False, 0.5),
        ("need_expiry_hours", "0", True, 0),
        ("global_archive_after_days", "-1", True, -1),
        ("percept_store_max", 500, False, 500),
        ("limits.message_budget_chars", "100_000", True, 100_000),
        ("limits.message_budget_chars", "unlimited", False, "unlimited"),
        ("limits.percept_relevance_gate", "off", True, False),
        ("limits.idle_timeout", "5s", True, "5s"),
        ("fallback", True, False, True),
        ("plugins.blocked", "one, two,", True, ("one", "two")),
        ("plugins.blocked", ["one"], False, ("one",)),
        ("primary", "local", False, "local"),
    ],
)
def test_values_are_read_from_text_and_from_toml(path: str, raw: object, text: bool, wanted: SettingValue) -> None:
    value = parse_value(BY_PATH[path], raw, text=text)

    assert value == wanted
    assert type(value) is type(wanted)


@pytest.mark.parametrize(
    ("path", "raw", "text"),
    [
        ("need_expiry_hours", -1, False),
        ("need_expiry_hours", float("nan"), False),
        ("need_expiry_hours", float("inf"), False),
        ("need_expiry_hours", True, False),
        ("need_expiry_hours", "24", False),
        ("need_expiry_hours", "", True),
        ("need_expiry_hours", "1e3", True),
        ("need_expiry_hours", 10**9, False),
        ("need_expiry_hours", "unlimited", True),
        ("limits.percept_inject_max", -1, False),
        ("limits.percept_inject_max", 2.0, False),
        ("limits.percept_inject_max", "٣", True),
        pytest.param("limits.percept_inject_max", 16**9999, False, id="huge"),
        ("limits.context_window_tokens", 0, False),
        ("limits.idle_timeout", 120, False),
        ("limits.idle_timeout", "120", True),
        ("limits.idle_timeout", "0s", True),
        ("limits.idle_timeout", "99999d", True),
        ("limits.retry_max_wait", "unlimited", True),
        ("questions.ttl", "", False),
        ("fallback", "true", False),
        ("fallback", "maybe", True),
        ("fallback", 1, False),
        ("plugins.blocked", [1], False),
        ("plugins.blocked", "one", False),
        ("primary", "", False),
        ("primary", 3, False),
    ],
)
def test_unusable_values_are_refused(path: str, raw: object, text: bool) -> None:
    with pytest.raises(ValueError, match=r"expected|most"):
        parse_value(BY_PATH[path], raw, text=text)


@given(st.sampled_from(SETTINGS), st.text() | st.integers() | st.floats() | st.booleans() | st.none() | st.lists(st.text()) | st.binary(), st.booleans())
def test_any_value_is_either_refused_or_within_its_bounds(setting, raw, text) -> None:  # type: ignore[no-untyped-def]
    try:
        value = parse_value(setting, raw, text=text)
    except ValueError as error:
        refusal = str(error)
    else:
        refusal = ""
    assert refusal.isprintable()
    if refusal:
        return

    number = python_value(setting, value)
    if isinstance(number, int | float) and setting.minimum is not None:
        assert number >= setting.minimum
    assert parse_value(setting, value, text=False) == value


def test_unlimited_means_what_the_help_says() -> None:
    assert python_value(BY_PATH["limits.idle_timeout"], "unlimited") is None
    assert python_value(BY_PATH["limits.message_budget_chars"], "unlimited") == 0
    assert python_value(BY_PATH["limits.returning_fresh_start_local_turns"], "unlimited") == 0


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.path)
def test_each_default_is_a_value_of_its_setting(setting) -> None:  # type: ignore[no-untyped-def]
    if setting.default is not None:
        assert parse_value(setting, setting.default, text=False) == setting.default


def test_declared_limits_and_their_defaults_are_those_of_the_limits() -> None:
    declared = {setting.name: python_value(setting, setting.default) for setting in SETTINGS if setting.per_agent}

    assert Limits(**declared) == Limits()  # type: ignore[arg-type]
    assert {*declared, "global_message_budget_chars"} == set(Limits.__slots__)


def test_variables_and_flags_are_unique_and_spelled_as_promised() -> None:
    assert len({setting.env for setting in SETTINGS}) == len({setting.flag for setting in SETTINGS}) == len(SETTINGS)
    assert (BY_PATH["questions.max_age"].env, BY_PATH["questions.max_age"].flag) == ("ESCALERA_QUESTIONS_MAX_AGE", "--questions-max-age")
    assert BY_PATH["limits.idle_timeout"].env == "ESCALERA_LIMITS_IDLE_TIMEOUT"


def test_the_reference_has_a_row_for_each_setting() -> None:
    rows = reference_table().splitlines()[2:]

    assert len(rows) == len(SETTINGS)
    assert all(row.startswith(f"| `{setting.path}` |") and row.count(" | ") == 5 for row, setting in zip(rows, SETTINGS, strict=True))


def test_a_setting_says_that_it_has_no_effect_yet_where_nothing_reads_it() -> None:
    package = Path(orchestrator.__file__).parent
    code = "".join(file.read_text() for file in package.rglob("*.py") if file.parent != package / "settings")
    code = re.sub(r"^ARTIFACT = .*$", "", code, flags=re.MULTILINE)  # its lifetime is declared, and nothing makes one yet

    def is_read(path: str, name: str) -> bool:
        return f"limits.{name}" in code if path.startswith("limits.") else f'"{path}"' in code

    unread = {setting.path for setting in SETTINGS if setting.path not in ("primary", "escalation") and not is_read(setting.path, setting.name)}
    assert {setting.path for setting in SETTINGS if setting.help.endswith("no effect yet.")} == unread


@pytest.mark.parametrize(
    ("written", "wanted"),
    [("500B", 500), ("2KiB", 2048), ("4kB", 4000), ("4 KB", 4000), ("1.5MiB", 1572864), ("1GB", 10**9), ("0B", 0), ("2kib", 2048)],
)
def test_sizes_have_one_unit(written: str, wanted: int) -> None:
    setting = BY_PATH["limits.percept_inject_max_bytes"]

    assert size(written) == python_value(setting, parse_value(setting, written, text=False)) == wanted


@pytest.mark.parametrize("written", ["", "5", "KiB", "-1KiB", "1.3B", "1e3B", "2 Kilobytes", "2K", "٣B", "99999999999999B", "1000GiB", "1001GB"])
def test_other_sizes_are_refused(written: str) -> None:
    with pytest.raises(ValueError, match=r"2KiB|most"):
        parse_value(BY_PATH["limits.percept_inject_max_bytes"], written, text=False)


def test_a_size_in_bytes_needs_no_unit_where_the_name_says_it() -> None:
    setting = BY_PATH["limits.percept_inject_max_bytes"]

    assert [parse_value(setting, raw, text=text) for raw, text in ((2048, False), ("2048", True), ("2KiB", True))] == [2048, 2048, "2KiB"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [('["a,b", "c"]', ("a,b", "c")), (" [ 'a' ] ", ("a",)), ("[]", ()), ("a, b", ("a", "b")), ("['a'", None), ("[1]", None), ("['a'] #", ("a",))],
)
def test_a_list_is_written_with_commas_or_as_in_toml(text: str, wanted: tuple[str, ...] | None) -> None:
    setting = BY_PATH["plugins.blocked"]

    if wanted is not None:
        assert parse_value(setting, text, text=True) == wanted
        return
    with pytest.raises(ValueError, match="a list of texts"):
        parse_value(setting, text, text=True)


@pytest.mark.parametrize(("path", "raw"), [("questions.ttl", "-5s"), ("artifacts.quota", "-2KiB"), ("artifacts.quota", "-2"), ("questions.ttl", " -1.5h")])
def test_a_negative_duration_or_size_is_too_small(path: str, raw: str) -> None:
    with pytest.raises(ValueError, match=f"'{raw}'? ?.*is too small; expected|-2 is too small; expected"):
        parse_value(BY_PATH[path], raw, text=True)


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("limits.idle_timeout", ("limits", "idle_timeout")),
        (" agents . a.model", ("agents", "a", "model")),
        ('agents.a.headers."X.Team"', ("agents", "a", "headers", "X.Team")),
        ("agents.a.headers.'X.Team'.b", ("agents", "a", "headers", "X.Team", "b")),
        ('agents.a."b', ("agents", "a", '"b')),
        ('"a" = 1\nb', ('"a" = 1\nb',)),
        ("a..b", ("a", "", "b")),
    ],
)
def test_a_name_with_dots_stands_in_quotes(path: str, parts: tuple[str, ...]) -> None:
    assert path_parts(path) == parts
