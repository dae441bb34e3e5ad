"""The panel of remembered facts: looked through by keys, in the place of the prompt, and gone without a trace when it is closed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from prompt_toolkit.application import Application
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import FormattedTextControl, Layout, Window
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output import Output as Terminal
from prompt_toolkit.styles import Style
from prompt_toolkit.utils import get_cwidth

from orchestrator.cli.talk.remembered import Row, View
from orchestrator.cli.talk.screen import broken
from orchestrator.errors import EscaleraError
from orchestrator.percepts import Percept
from orchestrator.terminal import clean

_VIEWS = tuple(View)
_ABOUT = {
    View.TOLD: "what {agent} is told next, going by the need; /memory why MSG goes by MSG",
    View.LEFT_OUT: "what {agent} is not told then, and why",
    View.FADING: "what goes to the archive unless it is used, the next to go first",
    View.ARCHIVE: "what has left, the last to leave first",
}
_CHANGES = {"f": "forget", "k": "keep", "e": "everywhere", "r": "restore"}
_KEYS = {
    True: "Esc: close   Tab: view   ↑ ↓: choose   r: restore",
    False: "Esc: close   Tab: view   ↑ ↓: choose   f: forget   k: keep   e: everywhere",
}
"""By whether what is shown has left."""
_STYLES = {"chosen": "reverse", "name": "bold", "faint": "ansicyan"}
_DETAIL = 6
"""Lines that say all about the chosen one, where there is room for them."""
_BESIDE = 5
"""Lines that are no facts and no detail: names, what they are, a blank one, what was done, keys."""
_SHORTEST = 16
"""Columns that a fact keeps beside its mark."""


class Facts(Protocol):
    """What the panel shows, and what it lets one do."""

    @property
    def agent(self) -> str: ...

    def rows(self, view: View) -> Sequence[Row]: ...

    def change(self, verb: str, ref: str) -> str: ...


class Panel:
    """What is looked at, and what stands on the screen of it. Knows no terminal."""

    def __init__(self, facts: Facts) -> None:
        """Raises `EscaleraError` where there is nobody to tell, or no store that can be read."""
        self._facts, self._agent = facts, facts.agent
        self._view, self._chosen, self._note = View.TOLD, 0, ""
        self._rows = facts.rows(self._view)

    def turn(self, steps: int) -> None:
        """To the next view, or back."""
        self._show(_VIEWS[(_VIEWS.index(self._view) + steps) % len(_VIEWS)])

    def move(self, steps: int) -> None:
        """Down the facts, or up."""
        self._chosen = max(0, min(len(self._rows) - 1, self._chosen + steps))

    def do(self, verb: str) -> None:
        """Change the chosen fact, where the view has that verb; what came of it is said."""
        if not self._rows or (verb == "restore") != (self._view is View.ARCHIVE):
            return
        try:
            self._note = self._facts.change(verb, self._rows[self._chosen].percept.id)
            self._rows = self._facts.rows(self._view)
        except EscaleraError as error:
            self._note = f"{error.message}{f' ({error.hint})' if error.hint else ''}"
        self.move(0)

    def lines(self, width: int, height: int) -> list[tuple[str, str]]:
        """Exactly `height` lines, each with its style; none is wider than `width`, and none holds what could drive the terminal."""
        below = max(0, min(_DETAIL, (height - _BESIDE) // 2))
        detail = [*self._detail(width), *[""] * _DETAIL][:below]
        room = max(1, height - _BESIDE - below)
        first = max(0, min(self._chosen - room // 2, len(self._rows) - room))
        shown = [self._line(number, width) for number in range(first, min(first + room, len(self._rows)))] or [("", "  nothing")]
        lines = [
            ("name", self._names()),
            ("faint", f"  {_ABOUT[self._view].format(agent=self._agent)}"),
            *shown,
            *[("", "")] * (room - len(shown) + 1),
            *(("", line) for line in detail),
            ("name", self._note),
            ("faint", _KEYS[self._view is View.ARCHIVE]),
        ]
        return [(style, cut(text, width)) for style, text in lines[:height]]

    def _show(self, view: View) -> None:
        try:
            self._rows, self._view, self._chosen, self._note = self._facts.rows(view), view, 0, ""
        except EscaleraError as error:
            self._note = error.message

    def _names(self) -> str:
        names = "".join(f"[{view}]" if view is self._view else f" {view} " for view in _VIEWS)
        return f"{names} {self._chosen + 1 if self._rows else 0} of {len(self._rows):,}"

    def _line(self, number: int, width: int) -> tuple[str, str]:
        row = self._rows[number]
        chosen = number == self._chosen
        begin = f"{'>' if chosen else ' '} {row.percept.id[:8]}  {row.percept.weight:3}  "
        mark = cut(f"  [{row.mark}]", max(0, width - len(begin) - _SHORTEST))
        text = cut(" ".join(row.percept.content.split()), width - len(begin) - get_cwidth(mark))
        return "chosen" if chosen else "", begin + text + mark

    def _detail(self, width: int) -> list[str]:
        if not self._rows:
            return []
        row = self._rows[self._chosen]
        about = broken(cut(f"{row.mark}; {_origin(row.percept)}", 2 * width), width)
        text = [part for line in clean(row.percept.content).expandtabs().split("\n") for part in broken(line, width)]
        most = _DETAIL - len(about)
        return [*text[:most], *about] if len(text) <= most else [*text[: most - 1], f"… {len(text) - most + 1} more lines", *about]


def cut(text: str, width: int) -> str:
    """The text on one line of at most so many columns, harmless, with a mark where it was cut."""
    line = clean(text.replace("\t", " "), keep_newlines=False)
    if get_cwidth(line) <= width:
        return line
    return broken(line, width - 1)[0] + "…" if width > 0 else ""


def _origin(percept: Percept) -> str:
    """Who said it, for whom and where, and when it was used last."""
    source = percept.source or {}
    said = f"by {percept.producer}{f' in turn {turn}' if isinstance(turn := source.get('turn'), int) else ''}"
    subject = [] if percept.subject is None else [f"about {percept.subject}"]
    used = "never used" if percept.last_used_at is None else f"used {percept.last_used_at:%Y-%m-%d %H:%M} UTC"
    place = "everywhere" if percept.workspace is None else f"in {percept.workspace}"
    return ", ".join([said, f"for {percept.consumer}", *subject, place, used])


class PanelScreen:
    """The panel on a terminal that nothing else draws on meanwhile."""

    def __init__(self, panel: Panel, terminal: Terminal, *, color: bool) -> None:
        self._panel, self._terminal = panel, terminal
        self._app: Application[None] = Application(
            layout=Layout(Window(FormattedTextControl(self._text, focusable=True, show_cursor=False), always_hide_cursor=True)),
            key_bindings=self._bindings(),
            style=Style.from_dict(_STYLES if color else {}),
            include_default_pygments_style=False,
            color_depth=ColorDepth.DEPTH_4_BIT if color else ColorDepth.DEPTH_1_BIT,
            erase_when_done=True,
            output=terminal,
        )
        self._app.ttimeoutlen = 0.1  # until an Esc is taken for what it is

    async def run(self) -> None:
        """Until it is closed."""
        await self._app.run_async(set_exception_handler=False, handle_sigint=False)

    def close(self) -> None:
        if self._app.is_running and not self._app.is_done:
            self._app.exit()

    def _text(self) -> StyleAndTextTuples:
        size = self._terminal.get_size()
        lines = self._panel.lines(size.columns, max(1, size.rows - 2))
        return [(f"class:{style}" if style else "", text + "\n") for style, text in lines]

    def _bindings(self) -> KeyBindings:
        keys = KeyBindings()

        def add(names: tuple[str, ...], do: Callable[[], None]) -> None:
            for name in names:
                keys.add(name)(lambda _event: do())

        add(("escape", "q", "c-c", "c-d"), self.close)
        add(("tab", "right"), lambda: self._panel.turn(1))
        add(("s-tab", "left"), lambda: self._panel.turn(-1))
        add(("down", "c-n"), lambda: self._panel.move(1))
        add(("up", "c-p"), lambda: self._panel.move(-1))
        add(("pagedown",), lambda: self._panel.move(self._terminal.get_size().rows // 2))
        add(("pageup",), lambda: self._panel.move(-(self._terminal.get_size().rows // 2)))
        add(("home",), lambda: self._panel.move(-(1 << 30)))
        add(("end",), lambda: self._panel.move(1 << 30))
        for key, verb in _CHANGES.items():
            add((key,), lambda verb=verb: self._panel.do(verb))  # type: ignore[misc]  # a default binds the verb
        return keys
