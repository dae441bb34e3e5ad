"""Shell commands as permission rules see them: one plain program with its words, or whatever a line may start."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

_WORD = r"""(?:[^\s\x00-\x1f'"\\;&|<>()`$]|'[^']*'|"[^"\\`$]*")+"""
_PLAIN = re.compile(rf"[ \t]*{_WORD}(?:[ \t]+{_WORD})*[ \t]*")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
_BORDERS = re.compile(r"[;&|<>\n(){}`]")
_REDIRECTION = re.compile(r"""\d{0,9}(?:&>>?|>>?[&|]?|<>|<<<|<<-?|<&?)[ \t]*(?:[^\s;&|<>()'"]|'[^']*'|"[^"]*")+""")

_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "fish", "eval"})
_PREFIXES = frozenset({"sudo", "doas", "env", "nohup", "time", "timeout", "nice", "ionice", "setsid", "stdbuf", "exec", "command", "builtin", "xargs"})
_RESERVED = frozenset({"!", "if", "then", "else", "elif", "while", "until", "do"})
_RUNS_NEXT = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_GIT_WITH_VALUE = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--config-env", "--attr-source"})
"""Options before git's own commands whose value is the next word."""
_DEEPEST = 5


def plain_words(command: str) -> tuple[str, ...] | None:
    """The words of a command that starts one program and nothing else.

    `None` where anything in it may start, write or hold more: operators, substitutions, variables, backslashes, redirections, assignments.
    """
    if _PLAIN.fullmatch(command) is None:
        return None
    words = tuple(shlex.split(command))
    return None if not words or _ASSIGNMENT.match(words[0]) else words


def started(command: str) -> Iterator[tuple[str, ...]]:
    """Every program with its words that the line may start, as far as reading it tells; rather one too many than one too few."""
    yield from _started(command, _DEEPEST)


def _started(command: str, depth: int) -> Iterator[tuple[str, ...]]:
    without = _REDIRECTION.sub(" ", command)  # they may stand anywhere, also before the program
    for part in (part for text in dict.fromkeys((command, without)) for part in _BORDERS.split(text)):
        words, prefixed = _without_prefixes(_words(part))
        # Behind `sudo -u root` it is not told which word is the program: any may be.
        for start in range(len(words) if prefixed else min(1, len(words))):
            yield from _program(words[start:], depth)


def _program(words: Sequence[str], depth: int) -> Iterator[tuple[str, ...]]:
    name = words[0].rpartition("/")[2]
    yield (name, *words[1:])
    if name == "git":
        yield (name, *_past_options(words[1:]))
    for position, word in enumerate(words[1:], 1):
        if depth and word in _RUNS_NEXT:
            yield from _started(shlex.join(words[position + 1 :]), depth - 1)
        elif depth and name in _SHELLS and any(map(str.isspace, word)):
            yield from _started(word, depth - 1)


def _past_options(words: Sequence[str]) -> Sequence[str]:
    """The words of `git` from its own command on."""
    while words and words[0].startswith("-"):
        words = words[2 if words[0] in _GIT_WITH_VALUE else 1 :]
    return words


def _words(part: str) -> list[str]:
    try:
        return shlex.split(part.replace("$", ""))
    except ValueError:  # a quote without its other half, as a cut between two commands leaves it
        return part.translate(_NO_QUOTES).split()


_NO_QUOTES = str.maketrans("", "", "'\"\\$")


def _without_prefixes(words: Sequence[str]) -> tuple[Sequence[str], bool]:
    """From the program on that is really meant, and whether one that starts another stood before it."""
    prefixed = False
    while words:
        name = words[0].rpartition("/")[2]
        if name not in _PREFIXES and name not in _RESERVED and not _ASSIGNMENT.match(words[0]):
            break
        prefixed = prefixed or name in _PREFIXES
        words = words[1:]
    return words, prefixed
