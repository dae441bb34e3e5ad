"""What a user's reference means: an id, or the beginning of just one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from orchestrator.errors import Ambiguous, NotFound, UsageError
from orchestrator.messages import well_formed

_LAST = "\U0010ffff"
"""Behind every id that begins with what stands before it."""
_MOST = 20
"""How many are looked at where a reference fits several."""


class HasId(Protocol):
    """What is referred to."""

    @property
    def id(self) -> str: ...


Found = TypeVar("Found", bound=HasId)


def one_of(
    ref: str, kind: str, read: Callable[[str, Sequence[object]], Sequence[Found]], *, hint: str, told: Callable[[Found], str] = lambda found: found.id
) -> Found:
    """The one meant, of what `read` gives for the end of a query and its values. Raises as `wanted_id` and `just_one` do."""
    wanted = wanted_id(ref, kind)
    found = read("WHERE id = ?", (wanted,)) or read(f"WHERE id >= ? AND id < ? ORDER BY id LIMIT {_MOST}", (wanted, wanted + _LAST))
    return just_one(ref, kind, found, hint=hint, told=told)


def wanted_id(ref: str, kind: str) -> str:
    """The reference as it can be looked for. Raises `UsageError` for what can be none."""
    if not ref or "\x00" in ref:
        raise UsageError(f"a {kind}'s id cannot be empty or hold a NUL character")
    return well_formed(ref)


def just_one(ref: str, kind: str, found: Sequence[Found], *, hint: str, told: Callable[[Found], str]) -> Found:
    """The only one found. Raises `NotFound` with the hint, and `Ambiguous`, which lists them as `told`."""
    if len(found) > 1:
        some = f"{_MOST} or more" if len(found) >= _MOST else str(len(found))
        raise Ambiguous(f"{ref!r} fits {some} {kind}s: {'; '.join(map(told, found))}", candidates=[one.id for one in found], hint="give more of the id")
    if not found:
        raise NotFound(f"there is no {kind} {ref!r}", hint=hint)
    return found[0]
