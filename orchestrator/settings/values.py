"""Values of settings: from what was written to what is stored and shown, and on to what code works with (page 5)."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from decimal import Decimal

from orchestrator.settings.declarations import UNLIMITED, Setting, SettingType, SettingValue

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)", re.ASCII)
_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)\s*(B|[kMG]i?B)", re.ASCII | re.IGNORECASE)
_INT = re.compile(r"[+-]?\d{1,18}(?:_\d{1,3}){0,6}", re.ASCII)
_NUMBER = re.compile(r"[+-]?\d{1,18}(?:\.\d{1,18})?", re.ASCII)
_LONGEST_KEY = 200
_WORD = re.compile(r"[a-z][a-z _-]{0,23}")
_WORDS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}

LARGEST: dict[SettingType, float] = {"int": 10**12, "size": 10**12, "number": 10**6, "duration": 36500 * 86400.0}
"""Far beyond any use, and small enough for dates, sleeps and database columns."""

_EXPECTED: dict[SettingType, str] = {
    "bool": "true or false",
    "int": "a whole number",
    "number": "a number",
    "text": "a text",
    "duration": "a duration with its unit, such as 500ms, 120s, 30m, 24h or 14d",
    "size": "a whole number of bytes, or a size such as 500B, 2KiB (1024 bytes each) or 4kB (1000)",
    "list": "a list of texts",
}


def parse_value(setting: Setting, raw: object, *, text: bool) -> SettingValue:
    """Check a raw value and give it as it is stored and shown.

    `text` says that it comes from where everything is text (environment, flags); a file's own types are taken as they are.
    Raises `ValueError` that says what the value is and what is expected.
    """
    if isinstance(raw, str) and setting.unlimited and raw.strip().lower() == UNLIMITED:
        return UNLIMITED
    if text and isinstance(raw, str) and not raw.strip():
        raise ValueError(f"is empty; expected {expectation(setting)}")
    value = _PARSERS[setting.type](raw, text)
    if value is None:
        refused = quoted(raw) if setting.is_command else shown(raw)  # a command may hold a secret
        raise ValueError(f"{refused} is {'too small' if _is_negative(setting, raw) else 'not usable'}; expected {expectation(setting)}")
    _check_bounds(setting, value)
    return value


def python_value(setting: Setting, value: SettingValue) -> SettingValue:
    """What code works with: seconds for durations, `None` (or 0 where that is the word) for `unlimited`."""
    if value == UNLIMITED and setting.unlimited:
        return 0 if setting.zero_is_unlimited else None
    if setting.type == "duration" and isinstance(value, str):
        return seconds(value)
    if setting.type == "size" and isinstance(value, str):
        return size(value)
    return value


def seconds(duration: str) -> float:
    """Seconds of a duration such as `500ms`, `120s`, `30m`, `24h`, `14d`; raises `ValueError` for anything else."""
    match = _DURATION.fullmatch(duration.strip())
    if match is None:
        raise ValueError(f"{shown(duration)} is not usable; expected {_EXPECTED['duration']}")
    return round(float(match[1]) * _UNITS[match[2]], 6)


def size(text: str) -> int:
    """Bytes of a size such as `500B`, `2KiB`, `4kB`, `1.5MiB`; raises `ValueError` for anything else, and for parts of a byte."""
    match = _SIZE.fullmatch(text.strip())
    number = Decimal(match[1]) * _SIZES[match[2].lower()] if match else Decimal("0.5")
    if number != int(number):
        raise ValueError(f"{shown(text)} is not usable; expected {_EXPECTED['size']}")
    return int(number)


def expectation(setting: Setting) -> str:
    """What the setting takes, in words for an error message."""
    expected = _EXPECTED[setting.type]
    if setting.minimum is not None:
        expected += f", at least {_bound(setting, setting.minimum)}"
    return expected + (f", or {UNLIMITED}" if setting.unlimited else "")


def shown(value: object) -> str:
    """Any value in a message: on one line, without control characters, not too long."""
    try:
        text = repr(value)
    except ValueError:
        # The interpreter refuses to write out integers of many thousand digits.
        text = "a number of thousands of digits"
    return text if len(text) <= 80 else f"{text[:60]}… ({len(text)} characters)"


def quoted(value: object) -> str:
    """A refused value as a message may repeat it: of a text only a plain word, since it may be a secret in the wrong place."""
    if isinstance(value, str):
        return shown(value) if _WORD.fullmatch(value) else f"a text of {len(value)} characters"
    return "a table" if isinstance(value, Mapping) else "a list" if isinstance(value, list | tuple) else shown(value)


def shown_key(path: str) -> str:
    """The path of a key from a stranger's file, as a message may repeat it: all of it visible, nothing that could pass for our words, and not endless."""
    text = path if path.isascii() and path.isprintable() and " " not in path else repr(path)
    return text if len(text) <= _LONGEST_KEY else f"{text[:_LONGEST_KEY]}… ({len(path):,} characters)"


def path_parts(path: str) -> tuple[str, ...]:
    """The names on a path, which are divided by dots; one that has a dot itself stands in quotes, as in TOML: `agents.x.headers."X.Team"`."""
    if '"' in path or "'" in path:
        with suppress(ValueError, RecursionError):
            return _only_path(tomllib.loads(f"{path} = 0"))
    return tuple(part.strip() for part in path.split("."))


def _only_path(table: object) -> tuple[str, ...]:
    """Of nested tables that hold one value; a text with a line end in it may hold more, and is no path."""
    parts: list[str] = []
    while isinstance(table, dict):
        (name, table), *more = table.items()
        if more:
            raise ValueError
        parts.append(name)
    return tuple(parts)


def _is_negative(setting: Setting, raw: object) -> bool:
    pattern = {"duration": _DURATION, "size": _SIZE}.get(setting.type)
    return pattern is not None and isinstance(raw, str) and raw.strip().startswith("-") and pattern.fullmatch(raw.strip()[1:]) is not None


def _bool(raw: object, text: bool) -> SettingValue:
    if isinstance(raw, bool):
        return raw
    return _WORDS.get(raw.strip().lower()) if text and isinstance(raw, str) else None


def _int(raw: object, text: bool) -> SettingValue:
    if isinstance(raw, int) and not isinstance(raw, bool):
        return raw
    return int(raw) if text and isinstance(raw, str) and _INT.fullmatch(raw.strip()) else None


def _number(raw: object, text: bool) -> SettingValue:
    whole = _int(raw, text)
    if whole is not None:
        return whole
    if isinstance(raw, float) and math.isfinite(raw):
        return raw
    return float(raw) if text and isinstance(raw, str) and _NUMBER.fullmatch(raw.strip()) else None


def _text(raw: object, _: bool) -> SettingValue:
    return raw if isinstance(raw, str) and raw.strip() else None


def _duration(raw: object, _: bool) -> SettingValue:
    if not isinstance(raw, str):
        return None
    match = _DURATION.fullmatch(raw.strip())
    return match[1] + match[2] if match else None


def _size(raw: object, text: bool) -> SettingValue:
    whole = _int(raw, text)
    if whole is not None or not isinstance(raw, str):
        return whole
    match = _SIZE.fullmatch(raw.strip())
    return f"{match[1]}{match[2]}" if match and size(raw) >= 0 else None


def _list(raw: object, text: bool) -> SettingValue:
    if text and isinstance(raw, str) and raw.lstrip().startswith("["):
        try:
            raw = tomllib.loads(f"list = {raw.strip()}")["list"]
        except (ValueError, RecursionError):
            return None
    elif text and isinstance(raw, str):
        return tuple(part.strip() for part in raw.split(",") if part.strip())
    return tuple(raw) if isinstance(raw, list | tuple) and all(isinstance(item, str) for item in raw) else None


_PARSERS: dict[SettingType, Callable[[object, bool], SettingValue]] = {
    "bool": _bool,
    "int": _int,
    "number": _number,
    "text": _text,
    "duration": _duration,
    "size": _size,
    "list": _list,
}


def _check_bounds(setting: Setting, value: SettingValue) -> None:
    if setting.type not in LARGEST:
        return
    number = python_value(setting, value)
    if not isinstance(number, int | float):
        return
    largest = LARGEST[setting.type]
    if setting.minimum is not None and number < setting.minimum:
        raise ValueError(f"{shown(value)} is too small; expected {expectation(setting)}")
    if abs(number) > largest:
        raise ValueError(f"{shown(value)} is too large; the most is {_bound(setting, largest)}")


def _bound(setting: Setting, bound: float) -> str:
    if setting.type != "duration":
        return f"{bound:,.0f}".replace(",", "_") if bound >= 100_000 else f"{bound:g}"
    return f"{bound * 1000:g}ms" if 0 < bound < 1 else f"{bound / 86400:g}d" if bound >= 86400 else f"{bound:g}s"
