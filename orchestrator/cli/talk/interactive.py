"""A chat on a screen: turns run in a thread of their own, while what comes of them is drawn and the next prompt is typed."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from prompt_toolkit.application import in_terminal

from orchestrator.asking import Asking, left_open
from orchestrator.broker import Waiting
from orchestrator.cli.asking import AtTerminal
from orchestrator.cli.briefing import editor_of
from orchestrator.cli.front import Front
from orchestrator.cli.interrupts import ENDING, cancelled_by_signals
from orchestrator.cli.notify import Happening
from orchestrator.cli.output import Output
from orchestrator.cli.spinner import TICK
from orchestrator.cli.talk.commands import Commands, Leave, is_command
from orchestrator.cli.talk.completion import Words
from orchestrator.cli.talk.conversation import Conversation
from orchestrator.cli.talk.lines import CANCELLED, told, welcome
from orchestrator.cli.talk.panel import Panel, PanelScreen
from orchestrator.cli.talk.past import Past
from orchestrator.cli.talk.remembered import VERBS, Remembered
from orchestrator.cli.talk.screen import Actions, Screen
from orchestrator.cli.talk.status import status_line
from orchestrator.cli.talk.view import Bare, Coloured, View, between_words
from orchestrator.cli.watch import summary
from orchestrator.dispatch.desk import Shown
from orchestrator.errors import Cancelled, EscaleraError
from orchestrator.planning.case import Wish
from orchestrator.providers import Cancel
from orchestrator.questions import StoredQuestion
from orchestrator.recording import Report
from orchestrator.session import State
from orchestrator.terminal import clean

LOOK_EVERY = 2.0
"""Seconds between two looks at what other processes did to the session."""
AGAIN_WITHIN = 2.0
"""Seconds within which a second Ctrl-C leaves, where no turn runs."""
_ECHOED = 12
"""Lines of a prompt that are repeated above."""


@dataclass(slots=True)
class _Line:
    """What was typed and is not begun with yet."""

    text: str
    own: str
    """What of it the user typed, as `Draft.own` has it."""
    overtaken: bool = False
    """Text of an answer came after it was typed: what that asks at its end, this is no reply to."""


@dataclass(slots=True)
class _Job:
    """One line being carried out."""

    line: _Line
    cancel: Cancel = field(default_factory=Cancel)
    report: Report | None = None
    leaves: bool = False
    refused: bool = False
    """A prompt of which nothing came: it goes back to where it can be mended."""
    problem: BaseException | None = None
    """What was raised that is no error of ours: a fault in the program, which ends it."""


@dataclass(frozen=True, slots=True)
class _Asked:
    waiting: Waiting
    ended: Future[StoredQuestion]


@dataclass(frozen=True, slots=True)
class _ToEdit:
    text: str
    done: Future[str]


@dataclass(frozen=True, slots=True)
class _ToLookThrough:
    panel: Panel
    cancel: Cancel
    closed: threading.Event


@dataclass(frozen=True, slots=True)
class _ToScreen(Output):
    """The program's output while the chat is on the screen."""

    put: Callable[[str, str], None] = lambda _kind, _text: None

    def say(self, text: str = "") -> None:
        self.put("say", text)

    def notice(self, text: str) -> None:  # type: ignore[override]  # the other needs no object
        self.put("notice", text)

    def heading(self, text: str) -> None:
        self.put("heading", text)


class Interactive:
    """The chat. Everything but `_work` and what it calls runs in the event loop's thread."""

    def __init__(self, front: Front, talk: Conversation) -> None:
        self._front, self._talk, self._commands = front, talk, Commands(front, talk, self._edited, self._looked_through)
        self._output = front.output
        self._ink = Coloured() if front.output.color else Bare()
        self._items: asyncio.Queue[object] = asyncio.Queue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._job: _Job | None = None
        self._thread: threading.Thread | None = None
        self._waiting: list[_Line] = []
        self._asks = False
        self._leaving: int | None = None
        self._last_interrupt: float | None = None
        self._standing = talk.standing()
        self._rings: bool = front.settings.value("notify.terminal")
        self._screen = Screen(
            Actions(self._submit, self._interrupt, self._end_of_input, self._unfold),
            history=Past(front.paths.state / "chat_history"),
            completer=Words(self._arguments(), cwd=Path(front.workspace), environ=front.environ),
            color=front.output.color,
            focus=self._rings or bool(front.settings.value("notify.command")),
            stdout=front.output.stdout,
            gone=self._gone,
        )
        self._view = View(self._ink, self._screen.print, lambda: self._screen.width, front.clock.monotonic)
        self._screen.tail = lambda: self._view.tail
        self._screen.activity = lambda: self._view.activity(self._output.stdout.encoding) + self._queue_text()
        self._screen.status = lambda width: status_line(self._standing, asks=self._asks, width=width)

    def run(self) -> int:
        """Until the user leaves: the exit code."""
        self._front.say_through(_ToScreen(self._output.interactive, self._output.color, self._output.plain, self._put, own_stdout=self._output.own_stdout))
        try:
            return self._screen.run(self._started)
        except EOFError:  # the terminal has gone
            return CANCELLED
        finally:
            self._front.say_through(self._output)
            with cancelled_by_signals(Cancel(), self._front.clock.monotonic):
                self._finish()

    def _finish(self) -> None:
        """Whatever ended the chat: no turn runs any more, and nothing waits for one."""
        if self._job is not None:
            self._job.cancel.set("the chat has ended")
        if self._thread is not None:
            self._thread.join()
        self._talk.close()

    def _started(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.add_signal_handler(signal.SIGINT, self._interrupt)
        for number in ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._loop.add_signal_handler(number, self._told_to_go, number)
        self._put("notice", welcome(self._talk))
        self._screen.task(self._pump())
        self._screen.task(self._tick())
        self._screen.task(self._look())
        threading.Thread(target=_warm_up, args=(self._output.color,), name="warm-up", daemon=True).start()

    # -- what is typed -----------------------------------------------------------------------------

    def _submit(self, text: str, own: str) -> None:
        self._last_interrupt = None
        self._waiting.append(_Line(text, own))
        self._next()

    def _next(self) -> None:
        """Begin with the next line, if none is being carried out."""
        if self._job is not None or not self._waiting:
            return
        line = self._waiting.pop(0)
        self._echo(line.text)
        self._job = _Job(line)
        self._view.begin("working", quiet=0.3)
        self._thread = threading.Thread(target=self._work, args=(self._job,), name="turn")
        self._thread.start()

    def _echo(self, text: str) -> None:
        first, *others = text.rstrip("\n").split("\n")
        more = f"\n  … {len(others) - _ECHOED:,} more lines" if len(others) > _ECHOED else ""
        self._screen.print(self._ink.strong("\n".join([f"> {first[:2000]}", *(f"  {line[:2000]}" for line in others[:_ECHOED])]) + more))

    def _interrupt(self) -> None:
        """Cancel what runs; pressed again, leave."""
        now = self._front.clock.monotonic()
        if self._job is not None and not self._job.cancel.is_set():
            self._job.cancel.set()
            self._give_back()
        elif self._job is not None or (self._last_interrupt is not None and now - self._last_interrupt <= AGAIN_WITHIN):
            self._leave(CANCELLED)
        else:
            self._screen.print(self._ink.faint("Ctrl-C once more leaves"))
        self._last_interrupt = now

    def _end_of_input(self) -> None:
        """As in a shell: after what was typed before is done."""
        self._leave(0)

    def _told_to_go(self, number: int) -> None:
        self._waiting.clear()
        if self._job is not None:
            self._job.cancel.set(f"ended by {signal.Signals(number).name}")
        self._leave(CANCELLED)

    def _gone(self) -> None:
        if self._loop is not None and self._leaving is None:
            self._loop.call_soon(self._told_to_go, signal.SIGHUP)

    def _leave(self, code: int) -> None:
        self._leaving = code if self._leaving is None else max(code, self._leaving)
        if self._job is None and not self._waiting:
            if self._screen.buffer.text.strip():
                self._screen.buffer.append_to_history()  # the draft is there next time
            self._screen.leave(self._leaving)

    def _unfold(self) -> None:
        self._screen.print(self._ink.faint(self._view.reasoning or "there was no reasoning to show"))

    def _give_back(self) -> None:
        """Lines that were not begun with become the draft again."""
        if self._waiting:
            self._screen.buffer.bring_back("\n".join(line.text for line in self._waiting), "\n".join(line.own for line in self._waiting))
            self._waiting.clear()

    def _queue_text(self) -> str:
        if self._leaving is not None and self._job is not None:
            return " · leaving when it is done"
        return f" · then: {len(self._waiting)} more" if self._waiting else ""

    # -- what is done, in a thread of its own --------------------------------------------------------

    def _work(self, job: _Job) -> None:
        try:
            with self._talk.lock:
                wish = self._commands.understand(job.line.text, cancel=job.cancel, own=job.line.own)
                job.report = None if wish is None else self._turn(wish, job.cancel)
                self._standing = self._talk.standing()
        except Leave:
            job.leaves = True
        except EscaleraError as error:
            self._front.failed(error)
            job.refused = not is_command(job.line.text)
            self._put("notice", told(error))
        except BaseException as problem:
            job.problem = problem
        self._post(job)

    def _turn(self, wish: Wish, cancel: Cancel) -> Report:
        human = self._human if self._output.asks else None
        asking = Asking(self._talk.front.broker(self._talk.store), cancel, human=human, waits=False, watch=self._post)
        report = self._talk.take(wish, cancel=cancel, ask=asking, watch=self._post)
        return replace(report, notices=(*report.notices, *asking.denied, *map(left_open, asking.left)))

    def _human(self, waiting: Waiting) -> StoredQuestion:
        asked = _Asked(waiting, Future())
        self._post(asked)
        return asked.ended.result()

    def _edited(self, text: str) -> str:
        """The text from the user's editor, which has the terminal meanwhile."""
        waiting = _ToEdit(text, Future())
        self._post(waiting)
        return waiting.done.result()

    def _looked_through(self, facts: Remembered, cancel: Cancel) -> None:
        """Show the panel of facts until the user closes it."""
        look = _ToLookThrough(Panel(facts), cancel, threading.Event())
        forget = cancel.on_cancel(look.closed.set)
        self._post(look)
        look.closed.wait()
        forget()

    def _post(self, item: object) -> None:
        """Hand something over to the loop; when that has ended, there is nobody to see it."""
        if self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._items.put_nowait, item)

    def _put(self, kind: str, text: str) -> None:
        self._post((kind, text))

    # -- what is shown -----------------------------------------------------------------------------

    async def _pump(self) -> None:
        """Show one thing after the other. A fault of ours ends the program: a chat that shows nothing any more is worse."""
        try:
            while True:
                await self._take_in(await self._items.get())
        except Exception as fault:
            self._screen.fail(fault)

    async def _take_in(self, item: object) -> None:
        match item:
            case Shown() as shown:
                self._view.show(shown)
                if shown.type == "text":
                    for line in self._waiting:
                        line.overtaken = True
                self._screen.app.invalidate()
            case ("notice", str(text)):
                self._view.aside(text)
            case (str(kind), str(text)):
                text = between_words(text, self._screen.width)
                self._screen.print(self._ink.strong(text) if kind == "heading" else clean(text))
            case _Asked() as asked:
                await self._ask(asked)
            case _ToEdit() as edit:
                await self._edit(edit)
            case _ToLookThrough() as look:
                await self._look_through(look)
            case _Job() as job:
                self._ended(job)

    async def _ask(self, asked: _Asked) -> None:
        """Give the terminal away for a question; the draft stays as it is."""
        self._view.end()
        question = asked.waiting.stored.question
        self._notify("question", question.agent, question.message)
        self._asks = True
        begun: list[str] = []
        try:
            async with in_terminal():
                ended = await asyncio.to_thread(AtTerminal(nullcontext, moves=True, draft=begun.append), asked.waiting)
            for text in begun:
                self._screen.buffer.bring_back(text, text)
            asked.ended.set_result(ended)
        finally:
            self._asks = False
            if not asked.ended.done():
                asked.ended.set_result(asked.waiting.withdraw())
        self._view.begin("going on")

    async def _edit(self, edit: _ToEdit) -> None:
        """Give the terminal away to the editor; the draft stays as it is."""
        self._view.end()
        try:
            async with in_terminal():
                edit.done.set_result(await asyncio.to_thread(editor_of(self._front.environ, self._front.cwd, self._output.stdout), edit.text))
        except EscaleraError as error:
            edit.done.set_exception(error)
        finally:
            if not edit.done.done():
                edit.done.set_exception(Cancelled("the chat has ended"))
        self._view.begin("working", quiet=0.3)

    async def _look_through(self, look: _ToLookThrough) -> None:
        """Give the terminal away to the panel, which a cancel closes."""
        self._view.end()
        screen = PanelScreen(look.panel, self._screen.app.output, color=self._output.color)
        forget = look.cancel.on_cancel(screen.close)
        try:
            async with in_terminal():
                if not look.cancel.is_set():
                    await screen.run()
        finally:
            forget()
            look.closed.set()

    def _ended(self, job: _Job) -> None:
        self._view.end()
        self._job = self._thread = None
        if job.problem is not None:
            self._screen.fail(job.problem)
            return
        if job.report is not None:
            self._tell(job.report)
            error, turn = job.report.error, job.report.turn
            self._notify("answer" if error is None else "failed", turn.agent, turn.answer if error is None else error.message)
            if job.report.error is not None or (job.report.session.state is State.WAITING and any(line.overtaken for line in self._waiting)):
                self._give_back()
        if job.refused:
            self._waiting.insert(0, job.line)
            self._give_back()
        if job.leaves:
            self._leaving = 0
            self._waiting.clear()
        self._next()
        if self._leaving is not None:
            self._leave(self._leaving)

    def _tell(self, report: Report) -> None:
        for notice in report.notices:
            self._view.notice(notice)
        if report.error is not None:
            self._view.notice(told(report.error))
        self._view.notice(summary(report))

    def _notify(self, event: Happening, agent: str, text: str) -> None:
        """Make the user look here, where the terminal has lost the focus."""
        if self._screen.has_focus:
            return
        if self._rings:
            self._screen.ring(f"escalera: {agent} {'asks' if event == 'question' else 'has answered' if event == 'answer' else 'has failed'}")
        self._front.notifier(event, session=self._talk.session.id, agent=agent, text=text)

    async def _tick(self) -> None:
        """Let the spinner turn."""
        while True:
            await asyncio.sleep(TICK)
            if self._job is not None:
                self._screen.app.invalidate()

    async def _look(self) -> None:
        """See what other processes did, while nothing is done here."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            await asyncio.to_thread(self._look_once)
            self._screen.app.invalidate()

    def _look_once(self) -> None:
        if not self._talk.lock.acquire(blocking=False):
            return
        try:
            self._talk.tell_news()
            self._standing = self._talk.standing()
        except EscaleraError:
            return  # the next turn will say what is the matter
        finally:
            self._talk.lock.release()

    # -- completion --------------------------------------------------------------------------------

    def _arguments(self) -> dict[str, Callable[[], Iterable[tuple[str, str]]]]:
        return {
            "agent": self._agents,
            "retry": self._agents,
            "session": self._sessions,
            "need": lambda: [("clear", "forget it"), ("restore", "bring the last one back")],
            "memory": lambda: [*VERBS.items(), *self._facts()],
        }

    def _agents(self) -> Iterable[tuple[str, str]]:
        return [(agent.name, agent.provider) for agent in self._talk.front.settings.agents.values()]

    def _sessions(self) -> Iterable[tuple[str, str]]:
        with suppress(EscaleraError):
            for summary_ in self._talk.store.list(self._front.workspace):
                yield summary_.name or summary_.id[:8], f"{summary_.turns} turns"

    def _facts(self) -> Iterable[tuple[str, str]]:
        with suppress(EscaleraError):
            for percept in self._talk.store.percepts(session=self._talk.session.id):
                for verb in ("forget", "keep", "everywhere"):
                    yield f"{verb} {percept.id[:8]}", percept.content


def _warm_up(color: bool) -> None:
    """Load what laying out the first block takes, while the user still types."""
    if color:
        import orchestrator.cli.talk.markdown  # noqa: F401
