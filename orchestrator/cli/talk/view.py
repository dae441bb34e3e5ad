"""How a turn is shown in a chat: its answer block by block, tools on a line each, reasoning folded."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Protocol

from orchestrator.cli.spinner import elapsed, frame
from orchestrator.cli.talk.answer import Answer
from orchestrator.cli.watch import tool_line
from orchestrator.dispatch.desk import Shown
from orchestrator.quoting import one_line
from orchestrator.terminal import clean

_TAIL = 8000
"""Characters of the growing block that can be seen at all."""


class Ink(Protocol):
    """How text is put on the terminal: cleaned, and with colours where they may be used."""

    def block(self, text: str, width: int) -> str:
        """A block of an answer."""

    def faint(self, text: str) -> str:
        """Something beside the answer."""

    def strong(self, text: str) -> str:
        """Something that stands out."""


class Bare:
    """Without any colour; Markdown stays as it was written."""

    def block(self, text: str, width: int) -> str:
        return clean(text).strip("\n")

    def faint(self, text: str) -> str:
        return clean(text)

    def strong(self, text: str) -> str:
        return clean(text)


class Coloured:
    """With colours, and Markdown laid out."""

    def block(self, text: str, width: int) -> str:
        from orchestrator.cli.talk.markdown import rendered

        return rendered(text, width)

    def faint(self, text: str) -> str:
        return f"\x1b[2m{clean(text)}\x1b[0m"

    def strong(self, text: str) -> str:
        return f"\x1b[1m{clean(text)}\x1b[0m"


class View:
    """Turns what a turn shows into lines that are printed, and a rest and an activity that change."""

    def __init__(self, ink: Ink, put: Callable[[str], None], width: Callable[[], int], monotonic: Callable[[], float]) -> None:
        self._ink, self._put, self._width, self._monotonic = ink, put, width, monotonic
        self._answer = Answer(_TAIL)
        self._reasoning: list[str] = []
        self._folded = ""
        self._again = self._gap = False
        """Whether a block stands right above, and a blank line belongs behind it."""
        self._told: set[str] = set()
        self._agent, self._doing, self._began, self._quiet = "", "", 0.0, 0.0

    @property
    def tail(self) -> str:
        """The block that still grows."""
        return self._answer.tail

    @property
    def reasoning(self) -> str:
        """What the last agent thought."""
        return "".join(self._reasoning) or self._folded

    def begin(self, doing: str, *, quiet: float = 0.0) -> None:
        """Something begins that takes its time; for so many seconds nothing is said of it."""
        self._told.clear()
        self._doing, self._began, self._quiet = doing, self._monotonic(), quiet

    def end(self) -> None:
        """It is over: what is there of the answer stays."""
        self._fold()
        self._flush()
        self._doing = ""

    def activity(self, encoding: str | None) -> str:
        """What goes on and since when; empty when nothing does."""
        seconds = self._monotonic() - self._began
        if not self._doing or seconds < self._quiet:
            return ""
        return f"{frame(seconds, encoding)} {self._doing} {elapsed(seconds)}"

    def show(self, shown: Shown) -> None:
        """One event of the turn."""
        if shown.type != "reasoning":
            self._fold()
        match shown.type:
            case "turn_started":
                mode = f", {shown.data['mode']}" if shown.data.get("mode") else ""
                self._flush()
                self._folded = ""
                self._agent = one_line(str(shown.data["agent"]), 40)
                self.begin(f"{self._agent} ({shown.data['role']}{mode}) is thinking")
            case "text":
                self._doing = f"{self._agent} is answering"
                for block in self._answer.feed(shown.text):
                    self._block(block)
            case "reasoning":
                self._flush()
                self._doing = f"{self._agent} is reasoning"
                self._reasoning.append(shown.text)
            case "tool_call":
                self._flush()
                self._doing = f"{self._agent} is running {one_line(str(shown.data['name']), 40)}"
                self.aside(tool_line(shown))
            case "tool_result":
                self._doing = f"{self._agent} is thinking"
                self.aside(_result(shown))
            case "withdrawn":
                self._flush()
                self.notice("what stands above was withdrawn; the agent is asked again")
            case "notice" | "retry":
                self._flush()
                self.notice(shown.text)

    def notice(self, text: str) -> None:
        """Each once, however often the turn gives it."""
        if text not in self._told:
            self._told.add(text)
            self.aside(text)

    def aside(self, text: str) -> None:
        """Something beside the answer, broken between its words."""
        self._again = False
        self._put(self._ink.faint(between_words(text, self._width())))

    def _flush(self) -> None:
        rest = self._answer.rest()
        if rest.strip():
            self._block(rest)

    def _block(self, block: str) -> None:
        if self._again and self._gap:
            self._put("\n")
        self._put(self._ink.block(block, self._width()))
        self._again, self._gap = True, block.endswith("\n\n")

    def _fold(self) -> None:
        if self._reasoning:
            self._folded = "".join(self._reasoning)
            self._reasoning.clear()
            self.aside(f"· reasoning, {len(self._folded):,} characters (Ctrl-O shows it)")


def between_words(text: str, width: int) -> str:
    """The text with lines that do not fit broken between words, and what is broken off set in under what is set in itself."""
    return "\n".join(part for line in text.split("\n") for part in (_parts(line, width) if len(line) > width else [line]))


def _parts(line: str, width: int) -> list[str]:
    indent = len(line) - len(line.lstrip())
    return textwrap.wrap(line, width, break_on_hyphens=False, subsequent_indent=" " * (indent + 2 if indent or line.startswith("·") else 0))


def _result(shown: Shown) -> str:
    lines = shown.text.strip().splitlines()
    more = f" (+{len(lines) - 1} lines)" if len(lines) > 1 else ""
    failed = "failed: " if shown.data.get("is_error") else ""
    return f"  → {failed}{one_line(lines[0], 120) if lines else 'nothing'}{more}"
