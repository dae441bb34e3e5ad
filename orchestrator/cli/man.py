"""Manual pages, made from the commands: one for the program, one for each command with all below it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from orchestrator.cli.tree import Option, Place

_EXIT = {
    "0": "done",
    "1": "the turn failed",
    "2": "wrong usage or configuration",
    "3": "not found, or ambiguous",
    "4": "the session is in use",
    "5": "the turn completed, but something that the agent asked for was denied, since nobody could be asked",
    "130": "cancelled",
}
_ENVIRONMENT = {
    "ESCALERA_HOME": "The folder that holds configuration, data, state and cache; else those of the platform.",
    "ESCALERA_*": "Any setting: `limits.idle_timeout` is ESCALERA_LIMITS_IDLE_TIMEOUT.",
    "NO_COLOR, FORCE_COLOR": "No colours; colours also where the output is no terminal.",
}


def man_pages(root: Place, *, version: str) -> dict[str, str]:
    """The pages by file name (`escalera.1`, `escalera-ask.1`, …), in roff; the same tree gives the same bytes."""
    pages = {"escalera.1": "\n".join([*_title("escalera", version), *_program(root)])}
    for place in root.places:
        name = f"escalera-{place.path[0]}"
        pages[f"{name}.1"] = "\n".join([*_title(name, version), *_command(place)])
    return {file: text + "\n" for file, text in pages.items()}


def _title(name: str, version: str) -> Iterator[str]:
    yield f'.TH {_word(name.upper())} 1 "" "escalera {version}" "Escalera"'


def _program(root: Place) -> Iterator[str]:
    yield from _name("escalera", root.text)
    yield from (".SH SYNOPSIS", _text(root.usage))
    yield from (".SH DESCRIPTION", *_paragraphs(root.text))
    yield from (".SH COMMANDS", *(line for place in root.places for line in _item(f"\\fBescalera\\-{place.path[0]}\\fR(1)", place.summary)))
    yield from (".SH OPTIONS", *_options(option for option in root.options if not option.is_setting))
    yield from (".SH SETTINGS", "Each is also a flag before the command.", *_options(option for option in root.options if option.is_setting))
    yield from (".SH EXIT STATUS", *_table(_EXIT))
    yield from (".SH ENVIRONMENT", *_table(_ENVIRONMENT))


def _command(place: Place) -> Iterator[str]:
    name = f"escalera-{place.path[0]}"
    yield from _name(name, place.summary)
    yield ".SH SYNOPSIS"
    for one in place.places or (place,):
        yield from (_text(one.usage), ".br")
    yield from (".SH DESCRIPTION", *_paragraphs(place.text))
    if place.options:
        yield from (".SH OPTIONS", *_options(place.options))
    for below in place.places:
        yield from (
            f".SH {_text(' '.join(below.path).upper())}",
            *_paragraphs(below.text),
            *_options(option for option in below.options if "--help" not in option.names),
        )
    yield from (".SH SEE ALSO", "\\fBescalera\\fR(1)")


def _name(name: str, summary: str) -> Iterator[str]:
    yield from (".SH NAME", f"{_text(name)} \\- {_text(summary.rstrip('.'))}")


def _options(options: Iterable[Option]) -> Iterator[str]:
    for option in options:
        names = ", ".join(f"\\fB{_text(name)}\\fR" for name in option.names)
        yield from _item(f"{names} \\fI{_text(option.metavar)}\\fR" if option.metavar else names, option.help)


def _table(rows: Mapping[str, str]) -> Iterator[str]:
    for name, text in rows.items():
        yield from _item(f"\\fB{_text(name)}\\fR", text)


def _item(head: str, text: str) -> Iterator[str]:
    yield from (".TP", head, _text(text))


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        yield from (".PP", _text(" ".join(paragraph.split())))


def _word(text: str) -> str:
    return f'"{_text(text)}"' if " " in text else _text(text)


def _text(text: str) -> str:
    """A text that is nothing but text: what roff would obey is written so that it shows."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("~", "\\(ti").replace("^", "\\(ha").replace("`", "\\(ga")
    plain = "".join(character if character.isascii() else f"\\[u{ord(character):04X}]" for character in escaped)
    return f"\\&{plain}" if plain.startswith((".", "'")) else plain
