"""The terminal of a chat: what was said scrolls away above; what is going on, the input and the status line stay below."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TextIO

from prompt_toolkit.application import Application
from prompt_toolkit.completion import Completer, ThreadedCompleter
from prompt_toolkit.data_structures import Size
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import BufferControl, ConditionalContainer, Container, Dimension, FormattedTextControl, HSplit, Layout, VerticalAlign, Window
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style
from prompt_toolkit.utils import get_cwidth
from prompt_toolkit.widgets import SearchToolbar

from orchestrator.cli.output import discard
from orchestrator.cli.talk.draft import Draft
from orchestrator.terminal import clean

INPUT_LINES = 10
"""Lines of the draft that are seen at once."""
_BELOW = 5
"""Lines of the terminal that the growing answer leaves to what stands below it, and to what was said before."""
_FOCUS_ON, _FOCUS_OFF = "\x1b[?1004h", "\x1b[?1004l"
_STYLES = {"status": "reverse", "activity": "ansicyan", "prompt": "bold"}


@dataclass(frozen=True, slots=True)
class Actions:
    """What is to be done when the user types something that is not text."""

    submit: Callable[[str, str], None]
    """With what of it the user typed, as `Draft.own` has it."""
    interrupt: Callable[[], None]
    end: Callable[[], None]
    unfold: Callable[[], None]


class Screen:
    """Draws, and reads keys. All of it in the thread of the event loop; `tail`, `activity` and `status` are read whenever it draws."""

    def __init__(self, keys: Actions, *, history: History, completer: Completer, color: bool, focus: bool, stdout: TextIO, gone: Callable[[], None]) -> None:
        """`focus`: ask the terminal to tell when it loses the focus. `gone` is called when it cannot be written any more."""
        self.tail: Callable[[], str] = str
        self.activity: Callable[[], str] = str
        self.status: Callable[[int], str] = lambda _width: ""
        self.has_focus = True
        self._keys, self._focus = keys, focus
        self._output = _Output(stdout, gone)
        self.buffer = Draft(completer=ThreadedCompleter(completer), history=history)
        self.app: Application[int] = Application(
            layout=self._layout(),
            key_bindings=self._bindings(),
            style=Style.from_dict(_STYLES) if color else None,
            include_default_pygments_style=False,
            color_depth=ColorDepth.DEPTH_4_BIT if color else ColorDepth.DEPTH_1_BIT,
            erase_when_done=True,
            output=self._output,
        )

    def run(self, started: Callable[[], None]) -> int:
        """Until `leave`; the code that it was given. Raises `EOFError` when the input ends otherwise."""
        if self._focus:
            self._output.write_raw(_FOCUS_ON)
        try:
            return self.app.run(pre_run=started, set_exception_handler=False, handle_sigint=False)
        finally:
            if self._focus:
                self._output.write_raw(_FOCUS_OFF)
            self._output.flush()

    def leave(self, code: int) -> None:
        if self.app.is_running and not self.app.is_done:
            self.app.exit(result=code)

    def fail(self, fault: BaseException) -> None:
        """End with a fault of ours, which `run` raises."""
        if self.app.is_running and not self.app.is_done:
            self.app.exit(exception=fault)

    def task(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it beside, until the end."""
        self.app.create_background_task(work)

    @property
    def width(self) -> int:
        return self._output.get_size().columns

    def print(self, text: str) -> None:
        """Lines above everything, as they are: whoever gives them has cleaned them."""
        self._output.held = True
        self.app.renderer.erase(leave_alternate_screen=False)
        self._output.held = False
        self._output.write_raw(text if text.endswith("\n") else text + "\n")
        self.app.invalidate()

    def ring(self, text: str) -> None:
        """Ring, and say why to the desktop (OSC 9)."""
        self._output.write_raw(f"\x07\x1b]9;{clean(text, keep_newlines=False)[:100]}\x1b\\")
        self._output.flush()

    # -- layout ------------------------------------------------------------------------------------

    def _layout(self) -> Layout:
        search = SearchToolbar()
        control = BufferControl(self.buffer, search_buffer_control=search.control, input_processors=[_Harmless()], focus_on_click=False)
        draft = Window(control, height=Dimension(min=1, max=INPUT_LINES), wrap_lines=True, get_line_prefix=_prompt, dont_extend_height=True)
        rows: list[Container] = [
            _rows(self._tail_text),
            ConditionalContainer(_rows(self._activity_text), Condition(lambda: bool(self.activity()))),
            draft,
            CompletionsMenu(max_height=8),
            search.container,
            Window(FormattedTextControl(self._status_text), height=1, style="class:status"),
        ]
        return Layout(HSplit(rows, align=VerticalAlign.TOP), focused_element=draft)

    def _tail_text(self) -> StyleAndTextTuples:
        size = self._output.get_size()
        draft = min(INPUT_LINES, self.buffer.document.line_count)
        lines = last_lines(clean(self.tail()).rstrip("\n"), size.columns, max(1, size.rows - draft - _BELOW))
        return [("", "\n".join(lines))] if lines else []

    def _activity_text(self) -> StyleAndTextTuples:
        return [("class:activity", clean(self.activity(), keep_newlines=False)[: self.width])]

    def _status_text(self) -> StyleAndTextTuples:
        return [("", self.status(self.width))]

    # -- keys --------------------------------------------------------------------------------------

    def _bindings(self) -> KeyBindings:
        keys = KeyBindings()
        empty = Condition(lambda: not self.buffer.text)
        here = Condition(lambda: self.app.layout.has_focus(self.buffer))
        keys.add("enter", filter=here)(self._enter)
        keys.add("escape", "enter", filter=here)(lambda event: event.current_buffer.insert_text("\n"))
        keys.add(Keys.BracketedPaste)(self._paste)
        keys.add("c-c", filter=here)(lambda _event: self._keys.interrupt())
        keys.add("c-d", filter=here & empty)(lambda _event: self._keys.end())
        keys.add("c-z", filter=here)(lambda event: event.app.suspend_to_background())
        keys.add("c-o", filter=here)(lambda _event: self._keys.unfold())
        if self._focus:
            keys.add("escape", "[", "I")(lambda _event: self._focused(True))
            keys.add("escape", "[", "O")(lambda _event: self._focused(False))
        return keys

    def _enter(self, event: KeyPressEvent) -> None:
        chosen = self.buffer.complete_state
        if chosen is not None and chosen.current_completion is not None:
            self.buffer.complete_state = None
            return
        text, own = self.buffer.text, self.buffer.own
        if not text.strip():
            return
        self.buffer.append_to_history()
        self.buffer.reset()
        self._keys.submit(text, own)

    def _paste(self, event: KeyPressEvent) -> None:
        text = event.data.replace("\r\n", "\n").replace("\r", "\n")
        if event.current_buffer is self.buffer:
            self.buffer.paste(text)
        else:
            event.current_buffer.insert_text(text)

    def _focused(self, has_focus: bool) -> None:
        self.has_focus = has_focus


def last_lines(text: str, width: int, count: int) -> list[str]:
    """The text's last lines as a terminal of that width breaks them, `count` at most."""
    lines: list[str] = []
    for line in reversed(text.split("\n") if text else []):
        lines[:0] = broken(line.expandtabs(), width)
        if len(lines) >= count:
            break
    return lines[-count:]


def broken(line: str, width: int) -> list[str]:
    """One line as a terminal of that width breaks it."""
    lines, used = [""], 0
    for character in line:
        wide = get_cwidth(character)
        if used + wide > width:
            lines.append("")
            used = 0
        lines[-1] += character
        used += wide
    return lines


def _rows(text: Callable[[], StyleAndTextTuples]) -> ConditionalContainer:
    """As many lines as the text has; none for no text."""
    return ConditionalContainer(Window(FormattedTextControl(text), dont_extend_height=True), Condition(lambda: bool(text())))


def _prompt(line: int, wrapped: int) -> StyleAndTextTuples:
    return [("class:prompt", "> " if line == wrapped == 0 else "  ")]


class _Harmless(Processor):
    """The draft as it is shown: prompt_toolkit shows controls, and turns of direction are not obeyed either (one character for one)."""

    _HIDDEN = dict.fromkeys(map(ord, "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"), "\ufffd")

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        return Transformation([(fragment[0], fragment[1].translate(self._HIDDEN)) for fragment in transformation_input.fragments])


class _Output(Vt100_Output):
    """A terminal that is not asked where its cursor is, and that gets each change in one piece."""

    def __init__(self, stream: TextIO, gone: Callable[[], None]) -> None:
        super().__init__(stream, self._size, term=os.environ.get("TERM"), enable_cpr=False)
        self._stream, self._gone = stream, gone
        self.held = False

    def flush(self) -> None:
        if self.held:
            return
        try:
            super().flush()
        except OSError:  # nobody is at the other end any more
            discard(self._stream)
            self._gone()

    def _size(self) -> Size:
        try:
            columns, rows = os.get_terminal_size(self._stream.fileno())
        except OSError:
            columns = rows = 0
        return Size(rows=rows or 24, columns=columns or 80)
