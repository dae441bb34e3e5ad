"""The texts around a history, written again for a recorded turn: digests whose entries are made once, and the orientation."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from orchestrator.context.delivery import context_block, system_text
from orchestrator.context.digest import Teller, activity_turns, digest, prior_turns
from orchestrator.context.orientation import NOT_SHOWN_CHARS, Blocks, Situation, orientation
from orchestrator.history.budget import PART_OVERHEAD
from orchestrator.memory.inject import format_percepts, format_tool_percepts
from orchestrator.percepts import Percept
from orchestrator.providers import SystemBlock
from orchestrator.session import TOLD, Role, Turn
from orchestrator.templates import Templates
from orchestrator.tuning.past import PastLog

_ENOUGH = 80
"""A digest with this much room to spare is the same with any larger limit."""


class Excerpt(NamedTuple):
    """A digest, and the least limit that is known to give the same; `None` where it is cut short."""

    text: str
    enough: int | None


NOTHING = Excerpt("", None)
"""What a limit of 0 gives."""
NO_DIGEST = Excerpt("", 0)
"""Where none is told, whatever the limit."""


class Digests:
    """The digests of one session's turns. Each turn is told once in each of its two forms, whatever the limits."""

    def __init__(self, log: PastLog, nonce: str) -> None:
        self._log = log
        self._tellers = {sent: Teller(log, nonce, lambda _index, sent=sent: sent) for sent in (True, False)}  # type: ignore[misc]  # a default is no parameter
        self._entries: dict[tuple[int, bool], str] = {}
        self._whole: dict[tuple[object, ...], Excerpt] = {}
        self._cut: dict[tuple[object, ...], Excerpt] = {}

    def activity(self, boundary: int, start: int | None, limit: int | None) -> Excerpt:
        """`primary_activity` as the log stands; turns from `start` on are sent as messages, too."""
        return self._told(("activity", boundary), lambda: activity_turns(self._log, boundary), start, limit)

    def prior(self, start: int | None, limit: int | None) -> Excerpt:
        return self._told(("prior",), lambda: prior_turns(self._log), start, limit)

    def since(self, first: int, limit: int | None) -> Excerpt:
        return self._told(("since", first), lambda: self._log.newest_first(role=Role.ESCALATION, start=first), None, limit)

    def _told(self, what: tuple[object, ...], turns: Callable[[], Iterable[Turn]], start: int | None, limit: int | None) -> Excerpt:
        if limit is not None and limit <= 0:
            return NOTHING
        key = (*what, start, self._log.next_index)
        if (known := self._whole.get(key)) is not None and (limit is None or known.enough is None or limit >= known.enough):
            return known
        if (cut_short := self._cut.get((key, limit))) is not None:
            return cut_short
        cut = False

        def entry(turn: Turn, room: int) -> str:
            nonlocal cut
            text, whole = self._entry(turn, room, sent=start is not None and turn.index >= start)
            cut = cut or not whole
            return text

        text = digest(turns(), entry, limit)
        if not cut and (limit is None or limit - len(text) > 2 * _ENOUGH):
            self._whole[key] = told = Excerpt(text, len(text) + 2 * _ENOUGH)
        else:
            self._cut[key, limit] = told = Excerpt(text, None)
        return told

    def _entry(self, turn: Turn, room: int, *, sent: bool) -> tuple[str, bool]:
        key = (turn.index, sent)
        if (text := self._entries.get(key)) is None:
            text = self._entries[key] = self._tellers[sent].entry(turn, sys.maxsize)
        if len(text) <= room:
            return text, True
        one_line = sent or turn.outcome not in TOLD
        return (text if one_line else self._tellers[sent].shortened(turn, room)), False

    def forget(self) -> None:
        """The digests of the turn before; its entries are told again."""
        self._whole.clear()
        self._cut.clear()


class Script:
    """The templates, with what they put around other texts made once."""

    def __init__(self, templates: Templates) -> None:
        self._templates = templates
        self._frames: dict[tuple[str, bool, bool, bool], int] = {}
        self._lines: dict[tuple[int, int], str] = {}
        self._needs: dict[tuple[object, ...], str] = {}
        self._blocks: Blocks = {}

    def orientation(self, situation: Situation) -> str:
        return orientation(self._templates, situation, written=self._blocks)

    def forget(self) -> None:
        """The blocks of the turn before."""
        self._blocks.clear()

    def primary(self, key: tuple[object, ...], situation: Callable[[], Situation]) -> str:
        """The orientation of a primary that is told of its need alone: of few different texts, each written once."""
        if key not in self._needs:
            self._needs[key] = self.orientation(situation())
        return self._needs[key]

    def with_line(self, told: str, not_shown: int, rounds: int) -> str:
        """The orientation with the line about what is not shown, wherever in it that stands."""
        line = self._line(not_shown, rounds)
        return f"{told}\n\n{line}" if told else line

    def line_chars(self, index: int, told: str) -> int:
        """What the line about turns that are not shown adds at most."""
        count = max(1, index)
        return max(NOT_SHOWN_CHARS, 2 + len(self._line(count, count))) + (0 if told.strip() else PART_OVERHEAD)

    def _line(self, not_shown: int, rounds: int) -> str:
        key = (not_shown, rounds)
        if key not in self._lines:
            self._lines[key] = self._templates.render("not_shown", count=not_shown, batches=rounds)
        return self._lines[key]

    def percepts(self, percepts: Sequence[Percept]) -> tuple[str, str]:
        """The block of facts, and that of facts from tool output."""
        return format_percepts(percepts, self._templates), format_tool_percepts(percepts, self._templates)

    def system_frame(self, *, orientation: bool, percepts: bool) -> int:
        """Characters that the system text of a conversation has beside the static text, the orientation and the facts."""
        key = ("system", orientation, percepts, False)
        if key not in self._frames:
            texts = {"orientation": "x" * orientation, "percepts": "x" * percepts}
            self._frames[key] = len(system_text(self._templates, [SystemBlock("static", "x")], **texts)) - 1 - orientation - percepts
        return self._frames[key]

    def context_frame(self, *, orientation: bool = False, percepts: bool = False, tool_percepts: bool = False) -> int:
        """Characters of a context block beside what it tells."""
        key = ("context", orientation, percepts, tool_percepts)
        if key not in self._frames:
            texts = {"orientation": "x" * orientation, "percepts": "x" * percepts, "tool_percepts": "x" * tool_percepts}
            self._frames[key] = len(context_block(self._templates, **texts)) - orientation - percepts - tool_percepts
        return self._frames[key]
