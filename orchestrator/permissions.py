"""Rules on what tools may do in a workspace: what each covers, and what counts where several do. Deny beats ask beats allow."""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import chain
from typing import Literal, cast, get_args

from orchestrator.commands import plain_words, started
from orchestrator.tools import Act, Beyond, Verb

Effect = Literal["deny", "ask", "allow"]

EXACTLY = "="
"""Before a pattern that is meant as it stands, without anything standing for something else."""

_RULE = re.compile(r"(?P<verb>[a-z]+)(?P<beyond>(?:\+[a-z]+)*)(?:\((?P<pattern>.+)\))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Rule:
    """Such as `run(git status *)`, `write(docs/**)`, `run+network(pip install *)` or `read`, which is everything that is read."""

    verb: Verb
    pattern: str | None = None
    beyond: frozenset[Beyond] = frozenset()

    def __str__(self) -> str:
        head = "+".join([self.verb, *sorted(self.beyond)])
        return head if self.pattern is None else f"{head}({self.pattern})"


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules that the settings have."""

    deny: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    allow: tuple[Rule, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to become of an act, and the rule that says so; without one it is what such acts get."""

    effect: Effect
    rule: Rule | None = None


def rule_of(text: str) -> Rule:
    """A rule as it is written. Raises `ValueError` saying what is wrong with it."""
    match = _RULE.fullmatch(text.strip())
    verbs, beyonds = get_args(Verb), get_args(Beyond)
    if match is None or match["verb"] not in verbs:
        raise ValueError(f"{text!r:.200} is no rule; expected {', '.join(verbs[:-1])} or {verbs[-1]}, then what is meant in brackets, as in run(git status *)")
    beyond = match["beyond"].split("+")[1:]
    unknown = [name for name in beyond if name not in beyonds or match["verb"] != "run"]
    if unknown:
        raise ValueError(f"{text!r:.200}: `+{unknown[0]}` is unknown; run takes {' and '.join(f'+{name}' for name in beyonds)}")
    return Rule(cast("Verb", match["verb"]), match["pattern"], frozenset(cast("list[Beyond]", beyond)))


def verdict(act: Act, rules: RuleSet, granted: Iterable[Rule] = ()) -> Verdict:
    """What counts for an act; `granted` are rules that allow, beside those of the settings, and looked at last.

    A rule that forbids or asks is read generously, one that allows narrowly: where reading cannot tell, the human is asked.
    """
    denying = _first(rules.deny, act, _concerns)
    if denying is not None:
        return Verdict("deny", denying)
    asking = _first(rules.ask, act, _concerns)
    if asking is not None:
        return Verdict("ask", asking)
    if not act.asks:
        return Verdict("allow")
    allowing = _first(chain(rules.allow, granted), act, covers)
    return Verdict("ask") if allowing is None else Verdict("allow", allowing)


def covers(rule: Rule, act: Act) -> bool:
    """Whether the rule allows the act: nothing about it goes beyond what the rule says."""
    if rule.verb != act.verb or not act.beyond <= rule.beyond:
        return False
    if rule.pattern is None:
        return True
    if rule.pattern.startswith(EXACTLY):
        return rule.pattern.removeprefix(EXACTLY) == act.what
    return _covers_command(rule.pattern, act.what) if act.verb == "run" else _path_fits(rule.pattern, act.what, hidden=False)


def _first(rules: Iterable[Rule], act: Act, fits: Callable[[Rule, Act], bool]) -> Rule | None:
    return next((rule for rule in rules if fits(rule, act)), None)


def _concerns(rule: Rule, act: Act) -> bool:
    """Whether the rule may be meant for the act."""
    if rule.verb != act.verb or not rule.beyond <= act.beyond:
        return False
    if rule.pattern is None:
        return True
    pattern = rule.pattern.removeprefix(EXACTLY)
    if act.verb == "run":
        return pattern.strip() == act.what.strip() or (pattern == rule.pattern and _concerns_command(pattern, act.what))
    path, parts = _folded(act.what), _folded(act.what).split("/")
    if pattern != rule.pattern:
        return _folded(pattern) == path
    return any(_path_fits(_folded(pattern), "/".join(parts[:count]), hidden=True) for count in range(1, len(parts) + 1))


# -- commands ------------------------------------------------------------------------------------


def _covers_command(pattern: str, command: str) -> bool:
    """Word for word; a `*` at the end stands for any further words, or none. Only a plain command is covered, never one that may start a second program."""
    words, wanted = plain_words(command), _pattern_words(pattern)
    if words is None or not wanted:
        return False
    return words[: len(wanted) - 1] == wanted[:-1] if wanted[-1] == "*" else words == wanted


def _concerns_command(pattern: str, command: str) -> bool:
    wanted = _pattern_words(pattern)
    wanted = wanted[:-1] if wanted[-1:] == ("*",) else wanted
    if not wanted:
        return True
    wanted = (wanted[0].rpartition("/")[2], *wanted[1:])
    return any(words[: len(wanted)] == wanted for words in started(command))


def _pattern_words(pattern: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(pattern))
    except ValueError:
        return tuple(pattern.split())


# -- paths ---------------------------------------------------------------------------------------


def _path_fits(pattern: str, path: str, *, hidden: bool) -> bool:
    """Part by part, `**` for any number of them; `*` and `?` within one. A part that begins with a dot only fits one that says so, unless `hidden`."""
    wanted = (pattern.removesuffix("/") + "/**" if pattern.endswith("/") else pattern).removeprefix("./").split("/")
    parts = [] if path == "." else path.split("/")
    reached = {0}
    for one in wanted:
        if one == "**":
            reached = {end for start in reached for end in _runs(parts, start, hidden=hidden)}
        else:
            reached = {start + 1 for start in reached if start < len(parts) and _part_fits(one, parts[start], hidden=hidden)}
    return len(parts) in reached


def _runs(parts: Sequence[str], start: int, *, hidden: bool) -> Iterable[int]:
    yield start
    for position in range(start, len(parts)):
        if parts[position].startswith(".") and not hidden:
            return
        yield position + 1


def _part_fits(pattern: str, part: str, *, hidden: bool) -> bool:
    return (hidden or not part.startswith(".") or pattern.startswith(".")) and fnmatchcase(part, pattern)


def _folded(text: str) -> str:
    """As a file system may see it for which letter case or composed letters make no difference."""
    return unicodedata.normalize("NFC", text).casefold()
