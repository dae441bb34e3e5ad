"""Indexes of turns as they are written: `0–4, 7`."""

from __future__ import annotations

from collections.abc import Sequence


def spans(indexes: Sequence[int]) -> str:
    """Indexes as ranges: `0–4, 7`."""
    found: list[list[int]] = []
    for index in sorted(indexes):
        if found and index == found[-1][-1] + 1:
            found[-1][-1] = index
        else:
            found.append([index, index])
    return ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in found)
