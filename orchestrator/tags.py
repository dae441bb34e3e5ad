"""The tags in an agent's answer: how they are found, taken out, printed and made harmless (page 2).

A tag is `<escalera:KIND:NONCE>body</escalera:KIND:NONCE>` with the session's nonce, letter for letter, outside code. What the page leaves open is settled here:

- A body is everything up to the next tag mark of this session. Where that mark is not the closing one of the same kind (another opening, another kind's
  closing, none within `MAX_BODY` characters, none at all), the opening is plain text and the search goes on right behind it. So the innermost of nested
  tags counts, a body never holds a mark of its own session, and one opening left open does not swallow the tag after it. A closing without an opening is text.
  Anything else may stand in a body: `<`, backticks, blank lines, the tags of other sessions. An empty body is a tag, too (an `escalate` without a reason).
- What begins first wins: backticks in a body open no code, and a mark in code opens no tag.
- Code is read as CommonMark does it: a span of n backticks ends at the next run of exactly n; a fence is three or more backticks or tildes behind at most
  three blanks, without a backtick in the rest of a backtick fence's line; it ends at a line with at least as many of the same and nothing else.
  Two things are simpler. Containers are not followed: a fence behind a list mark, or four blanks deep, is a span and ends at a blank line at the latest.
  And a span of three or more may be closed by backticks on a line of their own, which the book would take for a new fence.
  A backslash escapes no backtick.
- Whether a span closes is known only later. Until a tag comes, nothing has to wait for that; from a tag on the text is held, at most `MAX_HELD` characters.
  What is still open then is taken as code up to its end: shown, never acted on.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Final, Literal, get_args

TagKind = Literal["need", "percept", "escalate"]
KINDS: Final[tuple[TagKind, ...]] = get_args(TagKind)

MAX_BODY = 4000
"""Characters between the marks, outer blanks included (page 2)."""

MAX_HELD = 16_384
"""Characters behind the beginning of a tag for which it may stay open whether it stands in a code span."""

_MAX_SPANS = 128
"""Spans of different lengths that may be open at once in one paragraph; a further one is plain text."""


@dataclass(frozen=True, slots=True)
class Tag:
    """What an agent said to the orchestrator: the trimmed body, possibly empty."""

    kind: TagKind
    body: str


class TagFilter:
    """Takes the tags out of one streamed answer. What it gives does not depend on where the chunks were cut.

    One pass over the text; besides the chunk it keeps at most `MAX_HELD` characters. Make a new one for every message.
    """

    __slots__ = ("_code", "_longest", "_nonce", "_openings", "_pattern", "_scanned", "_text", "_trial")

    def __init__(self, nonce: str) -> None:
        if not nonce:
            raise ValueError("a nonce cannot be empty")
        self._nonce = nonce
        self._pattern: re.Pattern[str] | None = None
        self._openings = tuple(f"<escalera:{kind}:{nonce}>" for kind in KINDS)
        self._longest = max(map(len, self._openings)) + 1
        self._code = _Code()
        self._text = ""
        """What is not shown yet: an opening mark, or the beginning of one, and what follows."""
        self._scanned = 0
        """How much of it was searched in vain for what decides."""
        self._trial: _Code | None = None
        """Where the code would stand at `_scanned`, while it is open whether the mark stands in a span."""

    def feed(self, chunk: str) -> tuple[str, list[Tag]]:
        """The text that can be shown now, and the tags that were completed, in order."""
        if not self._text and "<" not in chunk:
            code = self._code
            if code.column >= 0 or "\n" in chunk or "`" in chunk or "~" in chunk or code.spans or code.run or code.rail:
                code.advance(chunk, 0, len(chunk))
            return chunk, []
        return self._filter(self._text + chunk, final=False)

    def finish(self) -> tuple[str, list[Tag]]:
        """What was still held when the answer ended: all of it shown, or the tags that only the end made certain."""
        return self._filter(self._text, final=True)

    def _filter(self, text: str, *, final: bool) -> tuple[str, list[Tag]]:
        shown: list[str] = []
        tags: list[Tag] = []
        at = 0
        while (mark := self._opening(text, at)) is not None:
            self._code.advance(text, at, mark.start())
            shown.append(text[at : mark.start()])
            at = mark.start()
            after, tag = self._judge(text, mark, final=final)
            if after == at:
                break
            if tag is None:
                shown.append(text[at:after])
            else:
                tags.append(tag)
            at, self._scanned, self._trial = after, 0, None
        else:
            end = len(text) if final else self._safe_end(text, at)
            shown.append(text[at:end])
            at = end
        self._text = text[at:]
        return "".join(shown), tags

    def _opening(self, text: str, start: int) -> re.Match[str] | None:
        while (start := text.find("<escalera:", start)) >= 0:
            if mark := self._mark().match(text, start):
                return mark
            start += 1
        return None

    def _mark(self) -> re.Pattern[str]:
        """Compiled only where something looks like a mark, which hardly any answer has."""
        self._pattern = self._pattern or re.compile(rf"<(/?)escalera:({'|'.join(KINDS)}):{re.escape(self._nonce)}>")
        return self._pattern

    def _safe_end(self, text: str, start: int) -> int:
        """Up to where nothing can become an opening mark any more; the code is advanced to there."""
        end = text.rfind("<", max(start, len(text) - self._longest))
        if end < 0 or not any(opening.startswith(text[end:]) for opening in self._openings):
            end = len(text)
        self._code.advance(text, start, end)
        if end < len(text) and self._code.certain:
            self._code.advance(text, end, len(text))
            return len(text)
        return end

    def _judge(self, text: str, mark: re.Match[str], *, final: bool) -> tuple[int, Tag | None]:
        """What an opening mark is: the place up to which that is settled, and the tag if it is one. The mark's own place: wait for more."""
        code = self._code
        start, end = mark.span()
        code.end_run()
        if code.rail is not None and not code.fence:
            verdict = self._judge_rail(text, start, end, final=final)
            if verdict is not None:
                return verdict, None
        if code.certain:
            return self._pass(text, start, end), None
        if code.spans:
            verdict = self._judge_span(text, start, final=final)
            if verdict is not None:
                return verdict, None
        return self._judge_body(text, mark, final=final)

    def _pass(self, text: str, start: int, end: int) -> int:
        """Let that text through."""
        self._code.advance(text, start, end)
        return end

    def _judge_rail(self, text: str, start: int, end: int, *, final: bool) -> int | None:
        """A mark on a line that began like a fence: with a backtick in the rest of the line it is none, and `None` says so."""
        code = self._code
        limit = min(len(text), start + MAX_HELD)
        line_end = text.find("\n", end, limit)
        if code.rail is not None and code.rail[0] == "`":
            if text.find("`", end, limit if line_end < 0 else line_end) >= 0:
                code.derail()
                return None
            if line_end < 0 and limit < start + MAX_HELD and not final:
                return start
        if line_end < 0:
            line_end = end - 1
        return self._pass(text, start, line_end + 1)

    def _judge_span(self, text: str, start: int, *, final: bool) -> int | None:
        """A mark behind backticks: text when one of those spans closes, and `None` when the paragraph ends first."""
        trial = self._trial = self._trial or copy(self._code).begin_trial()
        limit = min(len(text), start + MAX_HELD)
        at = start + self._scanned
        while at < limit and trial.outcome is None:
            at = trial.step(text, at, limit)
        if trial.outcome is None and at - start == MAX_HELD:
            trial.outcome, trial.given_up = "code", True
        if trial.outcome is None and final:
            trial.finish()
        self._scanned = at - start
        if trial.outcome is None:
            return start
        if trial.outcome == "code":
            self._code = trial
            return at
        self._code.end_paragraph()
        self._scanned, self._trial = 0, None
        return None

    def _judge_body(self, text: str, mark: re.Match[str], *, final: bool) -> tuple[int, Tag | None]:
        start, end = mark.span()
        following = self._mark().search(text, max(end, start + self._scanned), end + MAX_BODY + self._longest)
        if following is None and not final and len(text) < end + MAX_BODY + self._longest:
            self._scanned = max(0, len(text) - start - self._longest)
            return start, None
        if following is None or not following[1] or following[2] != mark[2] or following.start() > end + MAX_BODY:
            return self._pass(text, start, end), None
        self._code.pass_word()
        return following.end(), Tag(_kind(mark[2]), text[end : following.start()].strip())


def _kind(word: str) -> TagKind:
    return next(kind for kind in KINDS if kind == word)


_TOKEN = re.compile(r"`+|~+|\n|[ \t\r]+|[^`~\n]+")


class _Code:
    """Where a text stands among code spans and fences. It is told the text piece by piece and keeps none of it."""

    __slots__ = ("bare", "column", "fence", "given_up", "outcome", "rail", "run", "run_mark", "spans", "watched")

    def __init__(self) -> None:
        self.column = 0
        """Blanks at the beginning of the line, counted to 4; -1 behind anything else."""
        self.run = 0
        """Length of the run of backticks or tildes that may still grow."""
        self.run_mark = ""
        self.rail: tuple[str, int] | None = None
        """Mark and length of the run with which the line began, when it may open or close a fence: the line's end tells."""
        self.bare = False
        """Whether nothing but blanks followed it."""
        self.fence: tuple[str, int] | None = None
        self.spans: tuple[int, ...] = ()
        """Lengths of the spans that may be open, all different: each one counts if those before it never close."""
        self.given_up = False
        """Whether those are taken as code, since it took too long to tell."""
        self.watched = 0
        self.outcome: Literal["code", "plain"] | None = None
        """In a trial: what became of the spans that were open when it began."""

    @property
    def certain(self) -> bool:
        """Whether the text at this place is code, whatever comes."""
        return self.fence is not None or self.given_up

    def begin_trial(self) -> _Code:
        self.watched, self.outcome = len(self.spans), None
        return self

    def advance(self, text: str, at: int, end: int) -> None:
        """Go over `text[at:end]`. Where nothing is open, whole lines without a mark are skipped."""
        tick = tilde = -1
        while at < end:
            if not (self.spans or self.run or self.rail):
                if tick < at:
                    tick = text.find("`", at, end) % (end + 1)  # the end where there is none
                if tilde < at:
                    tilde = text.find("~", at, end) % (end + 1)
                nearest = tick if tick < tilde else tilde
                line = text.rfind("\n", at, nearest)
                if line >= 0:
                    self.column, at = 0, line + 1
                if nearest == end and (at == end or self.column < 0 or text[at] not in " \t\r"):
                    self.column = self.column if at == end else -1
                    return
            at = self.step(text, at, end)

    def step(self, text: str, at: int, end: int) -> int:
        """Go over one piece and say where it ends; the piece that ends a run is left for the next step."""
        first = text[at]
        if self.run and first != self.run_mark:
            self.end_run()
            return at
        token = _TOKEN.match(text, at, end)
        stop = end if token is None else token.end()
        if first in "`~":
            self.run_mark = first
            self.run += stop - at
        elif first == "\n":
            self._end_line()
        elif first not in " \t\r":
            self.pass_word()
        elif self.column >= 0:
            self.column = 4 if "\t" in text[at : min(stop, at + 4)] else min(4, self.column + stop - at)
        return stop

    def pass_word(self) -> None:
        """Go over something that is neither blank nor part of a run."""
        self.end_run()
        self.column, self.bare = -1, False

    def end_run(self) -> None:
        """The run does not grow any more."""
        if not self.run:
            return
        length, self.run = self.run, 0
        first, self.column = 0 <= self.column < 4, -1
        if first and length >= 3:
            self.rail, self.bare = (self.run_mark, length), True
            return
        self.bare = False
        if self.run_mark == "`" and not self.fence and (self.rail is None or self.rail[0] == "`"):
            self.derail()
            self._meet(length)

    def derail(self) -> None:
        """The line that began like a fence has another backtick: its run was one of a span."""
        if self.rail is not None:
            length, self.rail = self.rail[1], None
            self._meet(length)

    def _meet(self, length: int) -> None:
        """A run of that many backticks closes the span that it fits, or may open one."""
        if length in self.spans:
            place = self.spans.index(length)
            self.spans = self.spans[:place]
            if place < self.watched:
                self.outcome = self.outcome or "code"
            if not place:
                self.given_up = False
        elif len(self.spans) < _MAX_SPANS:
            self.spans += (length,)

    def _end_line(self) -> None:
        blank, self.column = self.column >= 0, 0
        rail, self.rail = self.rail, None
        if self.fence:
            if rail and self.bare and rail[0] == self.fence[0] and rail[1] >= self.fence[1]:
                self.fence = None
        elif rail and rail[0] == "`" and self.bare and rail[1] in self.spans:
            self._meet(rail[1])
        elif rail:
            self.fence = rail
            self.end_paragraph()
        elif blank:
            self.end_paragraph()

    def end_paragraph(self) -> None:
        """No span goes on: those that are open were plain text."""
        self.spans, self.given_up = (), False
        self.outcome = self.outcome or "plain"

    def finish(self) -> None:
        """The text ends here, and with it its line and its paragraph."""
        self.end_run()
        self._end_line()
        self.end_paragraph()


# -- texts that are sent to agents ---------------------------------------------------------------


def tag(kind: TagKind, body: str, nonce: str) -> str:
    """A tag as an agent writes it, for instructions."""
    return f"<escalera:{kind}:{nonce}>{body}</escalera:{kind}:{nonce}>"


def new_nonce(token_bytes: Callable[[int], bytes]) -> str:
    """Sixteen characters of a-z and 2-7 from ten bytes of a cryptographic source (`secrets.token_bytes`)."""
    return base64.b32encode(token_bytes(10)).decode("ascii").lower()


def strip_tags(text: str, nonce: str) -> str:
    """The text without the tags of this session, for digests."""
    if "<escalera:" not in text:
        return text
    tag_filter = TagFilter(nonce)
    shown, _ = tag_filter.feed(text)
    return shown + tag_filter.finish()[0]


def neutralise(text: str) -> str:
    """The text with `‹` for the bracket of everything that looks like a tag; without such a thing the same object.

    Alike are: any letter case, blanks and invisible characters in between, full-width forms, opening and closing, with whatever nonce or none.
    """
    if "<" not in text and "\uff1c" not in text and "\ufe64" not in text:
        return text
    return _LOOK_ALIKE.sub("‹", text)


def _letters(word: str) -> str:
    """A pattern for the word in ASCII and in full-width letters."""
    return "".join(f"[{letter}{chr(ord(letter) + 0xFEE0)}]" for letter in word)


_BLANK = r"\s\u00ad\u200b-\u200f\u2060\ufeff"
_GAP = rf"[{_BLANK}]{{0,8}}"
_LOOK_ALIKE = re.compile(
    rf"[<\uff1c\ufe64](?=[{_BLANK}/\uff0f]{{0,8}}{_letters('escalera')}{_GAP}[:\uff1a]{_GAP}(?:{'|'.join(map(_letters, KINDS))})(?![^\W_]))", re.IGNORECASE
)
