"""Headers from several sources as one set: names are the same in any case."""

from __future__ import annotations

from collections.abc import Mapping


def merged(*layers: Mapping[str, str]) -> dict[str, str]:
    """Each name once, spelt and set as the last of the layers that has it does."""
    found = {name.lower(): (name, value) for layer in layers for name, value in layer.items()}
    return dict(found.values())
