"""What is wrong with a configuration: collected, so that one start reports all of it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from orchestrator.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Problem:
    """One wrong thing: where it was written, under which path, and what to do about it. Holds no secret."""

    source: str
    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.source}: {self.path}: {self.text}" if self.path else f"{self.source}: {self.text}"


class ConfigProblems(ConfigError):
    """A configuration with problems; `problems` lists every one that was found."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        lines = [str(problem) for problem in problems]
        message = lines[0] if len(lines) == 1 else f"{len(lines)} problems in the configuration:\n" + "\n".join(f"  {line}" for line in lines)
        super().__init__(message)
        self.problems = tuple(problems)

    @property
    def type(self) -> str:
        """In documents it is what it extends: the error tree knows no other (page 7)."""
        return ConfigError.__name__


def raise_problems(problems: Iterable[Problem]) -> None:
    """Raise `ConfigProblems` when there are any; the same one found twice is told once."""
    found = list(dict.fromkeys(problems))
    if found:
        raise ConfigProblems(found)


def nearest(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The known word that was probably meant."""
    by_folded = {name.lower(): name for name in known}
    # The comparison takes quadratic time; no name of ours is anywhere near this long.
    found = difflib.get_close_matches(word.lower()[:100], by_folded, n=1, cutoff=cutoff)
    return by_folded[found[0]] if found else None


def did_you_mean(word: str | None) -> str:
    """`; did you mean …?`, or nothing."""
    return f"; did you mean `{word}`?" if word else ""
