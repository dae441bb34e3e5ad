"""A change of a text as lines that go and lines that come, in time that does not depend on what is in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from escalera_workspace.places import lines_of

AROUND = 3
"""Lines that are shown before and after."""
_MOST_PAIRS = 40_000
"""Lines that go times lines that come, up to which it is worth finding out what stays between them."""

Block = tuple[int, int, int, int]
"""Lines from, to of the old text, and from, to of the new one that stand in their place."""


def difference(before: str, after: str) -> str:
    """What changes, with a few lines around it and a line before each place that says where."""
    old, new = lines_of(before), lines_of(after)
    return "".join(line for group in _groups(_blocks(old, new)) for line in _shown(group, old, new)).removesuffix("\n")


def tally(before: str, after: str) -> str:
    """How many lines come and go."""
    blocks = _blocks(lines_of(before), lines_of(after))
    return f"+{sum(block[3] - block[2] for block in blocks):,} −{sum(block[1] - block[0] for block in blocks):,} lines"


def _blocks(old: Sequence[str], new: Sequence[str]) -> list[Block]:
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    inner_old, inner_new = old[head : len(old) - tail], new[head : len(new) - tail]
    if not inner_old and not inner_new:
        return []
    if len(inner_old) * len(inner_new) > _MOST_PAIRS:
        return [(head, head + len(inner_old), head, head + len(inner_new))]
    codes = SequenceMatcher(None, inner_old, inner_new, autojunk=False).get_opcodes()
    return [(head + a, head + b, head + c, head + d) for tag, a, b, c, d in codes if tag != "equal"]


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines at the beginning are the same."""
    pairs = zip(one, other, strict=False)
    return next((count for count, (mine, theirs) in enumerate(pairs) if mine != theirs), min(len(one), len(other)))


def _groups(blocks: Sequence[Block]) -> Iterator[list[Block]]:
    """Blocks so near to each other that the lines around them meet."""
    group: list[Block] = []
    for block in blocks:
        if group and block[0] - group[-1][1] > 2 * AROUND:
            yield group
            group = []
        group.append(block)
    if group:
        yield group


def _shown(group: Sequence[Block], old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    at = max(0, group[0][0] - AROUND)
    yield f"@@ from line {at + 1} @@\n"
    for a, b, c, d in group:
        yield from _marked(" ", old[at:a])
        yield from _marked("-", old[a:b])
        yield from _marked("+", new[c:d])
        at = b
    yield from _marked(" ", old[at : at + AROUND])


def _marked(mark: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield mark + line if line.endswith("\n") else f"{mark}{line}\n\\ no newline at the end\n"
