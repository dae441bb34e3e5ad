"""Markdown for the terminal. Of what is given nothing drives it: the only codes in the result are colours of ours."""

from __future__ import annotations

import re
from typing import ClassVar

from rich.color import ColorSystem
from rich.console import Console, JustifyMethod
from rich.markdown import Heading, Markdown, MarkdownElement
from rich.segment import Segment
from rich.style import Style

from orchestrator.terminal import clean

_LONGEST = 100_000
"""Characters of a block that are laid out; a longer one is shown as it is."""
_FENCED = re.compile(r"^ {0,3}(`{3,}|~{3,})")


def rendered(text: str, width: int) -> str:
    """A block of an answer, laid out, with colours."""
    text = clean(text).strip("\n")
    if len(text) > _LONGEST:
        return text + "\n"
    try:
        shown = [_line(line) for line in _laid_out(text, width)]
    except Exception:  # whatever a parser and a highlighter trip over in a stranger's text, that can be read as it is
        return text + "\n"
    while shown and not shown[-1]:
        shown.pop()
    while shown and not shown[0]:
        shown.pop(0)
    return "".join(f"{line}\n" for line in shown)


class _Heading(Heading):
    """To the left, as all else is."""

    LEVEL_ALIGN: ClassVar[dict[str, JustifyMethod]] = {}


class _Markdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "heading_open": _Heading}


def _laid_out(text: str, width: int) -> list[list[Segment]]:
    console = Console(width=max(20, width), color_system="standard", force_terminal=True, legacy_windows=False, highlight=False, emoji=False)
    return console.render_lines(_Markdown(_with_its_lines(text), code_theme="ansi_dark", hyperlinks=False), pad=False)


def _line(segments: list[Segment]) -> str:
    """Cleaned once more: an entity of Markdown (`&#13;`) becomes its character only when it is laid out."""
    shown = [(clean(segment.text, keep_newlines=False), segment.style) for segment in segments if not segment.control]
    while shown and not shown[-1][0].strip():
        shown.pop()
    return "".join(_colours(style).render(text, color_system=ColorSystem.STANDARD) if style else text for text, style in shown)


def _colours(style: Style) -> Style:
    return style.update_link(None) if style.link else style


def _with_its_lines(text: str) -> str:
    """With the line breaks that its author made, where Markdown would run lines together: a hard break at the end of each line of prose."""
    lines, fence = text.split("\n"), ""
    for place, line in enumerate(lines):
        mark = _FENCED.match(line)
        if not fence and not mark and line.strip() and not line.lstrip().startswith("|"):
            lines[place] = line.rstrip() + "  "
        if mark:
            fence = mark[1] if not fence else "" if mark[1].startswith(fence) else fence
    return "\n".join(lines)
