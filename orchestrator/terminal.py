"""Text on its way to a terminal: what would drive the terminal is shown instead (page 6).

For display only; what is stored or printed for machines stays as it is.
"""

from __future__ import annotations

import re


def clean(text: str, *, keep_newlines: bool = True) -> str:
    """The text with each control character replaced by something visible; tabs stay, and newlines unless told otherwise.

    Every character is looked at by itself, so a code that is cut in two, or never ends, is as harmless as a whole one and swallows nothing.
    For the same reason a carriage return is shown even in front of a newline. Text without controls is given back as the same object.
    """
    return (_CONTROL if keep_newlines else _CONTROL_OR_NEWLINE).sub(_picture, text)


def escape_controls(json: str) -> str:
    """JSON text with the characters that `clean` shows, and JSON lets stand in strings, as `\\uXXXX`: the value stays the same.

    Lone surrogates are written so too.
    """
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", json)


# C0 and DEL, C1 (its 8-bit CSI, OSC and the like), marks that turn the direction of text, and lone surrogates, which no stream can encode.
_CLASS = r"\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_CONTROL = re.compile(f"[{_CLASS}]")
_CONTROL_OR_NEWLINE = re.compile(f"[{_CLASS}\n]")


def _picture(match: re.Match[str]) -> str:
    """The control picture where Unicode has one (`␛`), else the character's number as Python writes it (`\\x9b`)."""
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
