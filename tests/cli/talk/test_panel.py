"""`/memory`: the panel of remembered facts as keys move it and a terminal shows it, and the same as text."""

from __future__ import annotations

import asyncio
import io
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.application import create_app_session
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.utils import get_cwidth

from orchestrator.cli.front import Front
from orchestrator.cli.talk.commands import Commands
from orchestrator.cli.talk.conversation import Conversation
from orchestrator.cli.talk.panel import Panel, PanelScreen
from orchestrator.cli.talk.remembered import Remembered, Row, View
from orchestrator.cli.talk.status import status_line
from orchestrator.clock import FixedClock
from orchestrator.errors import UsageError
from orchestrator.lifetimes import begun
from orchestrator.needs import stated
from orchestrator.percepts import Percept
from orchestrator.planning.case import Wish
from orchestrator.providers import Answer, Cancel, Question
from orchestrator.questions import StoredQuestion
from orchestrator.session import State
from orchestrator.sessions import fresh_session
from orchestrator.testing.openai_server import OpenAIServer, reply

SCREENS = Path(__file__).parents[2] / "surface" / "screens"
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
OBEYED = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
HOSTILE = "harmless\x1b]0;title\x07\x1b[2J \u202egnp.exe \x9b31m\r\nsecond line"


@pytest.fixture
def still(front: Front) -> Front:
    """A front whose clocks stand still."""
    front.clock = FixedClock(NOW)
    return front


@pytest.fixture
def told(still: Front) -> Conversation:
    """A conversation in which five facts are known, and one has left."""
    store = still.store()
    store.create(session := fresh_session(still))
    talk = Conversation(still, store, session)
    here, session = talk.session.workspace, talk.session.id
    for percept in (
        Percept("1111aaaa", "the user wants terse output", "user", weight=100, core=True, source={"by": "command"}),
        Percept("2222bbbb", "the port of the database is 5433", "primary", weight=70, scope="session", session=session, workspace=here, trust="agent"),
        Percept("3333cccc", HOSTILE, "escalation", weight=60, trust="tool_output", source={"turn": 4}),
        Percept("4444dddd", "東京のサーバーは夜に止まる " * 40, "escalation", consumer="strong", weight=50, trust="agent"),
        Percept("5555eeee", "long ago somebody liked tabs", "primary", weight=20, idle_seconds=86_400.0 * 3, trust="agent"),
        Percept("6666ffff", "the office is in Sevilla", "user", weight=90),
    ):
        talk.store.learn(replace(percept, created_at=NOW, updated_at=NOW))
    talk.store.forget("6666")
    return talk


class Terminal:
    """A terminal of that size, and the panel on it."""

    def __init__(self, panel: Panel, *, columns: int = 80, rows: int = 24, color: bool = False) -> None:
        self.panel, self.size, self.color = panel, Size(rows=rows, columns=columns), color
        self.stream = io.StringIO()

    @property
    def screen(self) -> str:
        display = pyte.Screen(self.size.columns, self.size.rows)
        pyte.Stream(display).feed(self.stream.getvalue())
        return "\n".join(line.rstrip() for line in display.display).rstrip()

    def play(self, *steps: tuple[str, str]) -> str:
        """Type each text and wait for what it brings: the screen then. Esc closes it."""
        return asyncio.run(self._play(steps))

    async def _play(self, steps: Sequence[tuple[str, str]]) -> str:
        output = Vt100_Output(self.stream, lambda: self.size, term="xterm-256color", enable_cpr=False)
        with create_pipe_input() as keys, create_app_session(input=keys, output=output):
            running = asyncio.ensure_future(PanelScreen(self.panel, output, color=self.color).run())
            for typed, seen in steps:
                keys.send_text(typed)
                async with asyncio.timeout(10):
                    while seen not in self.screen:
                        await asyncio.sleep(0.01)  # keys come through a pipe
            screen = self.screen
            keys.send_text("\x1b")
            await asyncio.wait_for(running, 10)
            return screen


def looks_like(screen: str, name: str) -> None:
    path = SCREENS / f"{name}.txt"
    if os.environ.get("ESCALERA_WRITE_SCREENS"):
        path.write_text(screen + "\n", "utf-8")
    assert screen + "\n" == path.read_text("utf-8")


def test_the_panel_shows_who_is_told_what_and_what_fades_and_has_left(told: Conversation) -> None:
    terminal = Terminal(Panel(Remembered(told)))

    looks_like(terminal.play(("", "[told]")), "memory-told")
    looks_like(terminal.play(("\t", "[left out]")), "memory-left-out")
    looks_like(terminal.play(("\x1b[C", "[fading]")), "memory-fading")
    looks_like(terminal.play(("\t", "[archive]")), "memory-archive")
    assert terminal.screen == ""  # closed, it leaves nothing


def test_on_a_small_terminal_everything_keeps_its_width(told: Conversation) -> None:
    terminal = Terminal(Panel(Remembered(told)), columns=40, rows=10)

    looks_like(terminal.play(("\x1b[B\x1b[B\x1b[B", "> 5555eeee")), "memory-small")


@pytest.mark.parametrize("color", [True, False])
def test_stored_text_drives_no_terminal_and_colours_come_only_where_they_may(told: Conversation, color: bool) -> None:
    terminal = Terminal(Panel(Remembered(told)), color=color)

    screen = terminal.play(("", "3333cccc"), ("\x1b[B\x1b[B", "> 3333cccc"))

    assert "harmless␛]0;title␇␛[2J" in screen
    got = terminal.stream.getvalue()
    assert not [code for code in ("\x1b]0;", "\u202e", "\x9b31m", "\x07", "\x1b[31m") if code in got]
    assert ("\x1b[0;7m" in got) is color


@given(st.lists(st.text(), min_size=1, max_size=6), st.integers(1, 100), st.integers(1, 30), st.integers(0, 8))
def test_whatever_is_stored_the_lines_fit_and_hold_no_control(contents: list[str], width: int, height: int, steps: int) -> None:
    panel = Panel(Listed([Row(Percept(f"{number}", content, "user", subject=content), content) for number, content in enumerate(contents)]))
    panel.move(steps)

    lines = panel.lines(width, height)

    assert len(lines) == height
    assert all(get_cwidth(line) <= width and not OBEYED.search(line) and "\n" not in line for _, line in lines)


class Listed:
    """The same facts in every view."""

    agent = "local"

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows

    def rows(self, view: View) -> Sequence[Row]:
        return self._rows

    def change(self, verb: str, ref: str) -> str:
        return verb


def test_a_fact_is_forgotten_and_brought_back_by_keys(told: Conversation) -> None:
    terminal = Terminal(Panel(Remembered(told)))

    terminal.play(("\x1b[B", "> 2222bbbb"), ("f", "forgotten: 2222bbbb"))
    assert "2222bbbb" not in {percept.id for percept in told.store.all_percepts()}
    terminal.play(("\x1b[Z", "[archive]"), ("r", "restored: 2222bbbb"))

    assert told.store.percept("2222").session == told.session.id
    assert [one.percept.id for one in told.store.archived()] == ["6666ffff"]


def test_a_fact_of_an_agents_is_kept_or_told_everywhere_by_keys(told: Conversation) -> None:
    terminal = Terminal(Panel(Remembered(told)))

    terminal.play(("\x1b[B", "> 2222bbbb"), ("k", "kept: 2222bbbb"), ("\x1b[B", "> 3333cccc"), ("e", "told everywhere from now on: 3333cccc"))

    kept, wide = told.store.percept("2222"), told.store.percept("3333")
    assert (kept.core, kept.scope, kept.workspace, kept.weight) == (True, "global", None, 100)
    assert (wide.core, wide.workspace) == (False, None)


def test_looking_at_facts_is_no_use_of_them(told: Conversation) -> None:
    before = told.store.all_percepts()
    panel = Panel(Remembered(told))
    for _ in View:
        panel.turn(1)
        panel.move(1)
        panel.lines(80, 24)

    assert told.store.all_percepts() == before


def test_what_cannot_be_done_is_said_in_the_panel(told: Conversation) -> None:
    panel = Panel(Remembered(told))
    panel.turn(-1)
    told.store.learn(Percept("7777", "the office is in Sevilla", "user"))

    panel.do("restore")
    panel.do("forget")  # not here

    assert any("7777" in line for _, line in panel.lines(300, 24))
    assert [one.percept.id for one in told.store.archived()] == ["6666ffff"]


def test_what_the_user_has_kept_stays_when_the_turn_in_which_it_was_said_is_undone(server: OpenAIServer, front: Front) -> None:
    server.add(reply("I see."))
    talk = Conversation(front, front.store(), None, first=True)
    talk.take(Wish("hello"), cancel=Cancel(), ask=lambda _question: Answer("cancel"), watch=lambda _shown: None)
    source = {"session": talk.session.id, "turn": 0}
    for identity, content in (("1111", "use tabs"), ("2222", "the port is 5433")):
        talk.store.learn(Percept(identity, content, "primary", scope="session", session=talk.session.id, source=source))

    Commands(front, talk).understand("/memory keep 1111", cancel=Cancel())
    talk.undo(Cancel())

    assert [percept.id for percept in talk.store.all_percepts()] == ["1111"]


def said(talk: Conversation, line: str, capsys: pytest.CaptureFixture[str]) -> str:
    Commands(talk.front, talk).understand(line, cancel=Cancel())
    return capsys.readouterr().out


def test_without_a_screen_it_is_text(told: Conversation, capsys: pytest.CaptureFixture[str]) -> None:
    everything = said(told, "/memory", capsys)
    why = said(told, "/memory why which port has the database?", capsys)

    assert "local would be told 4 of 5 facts:" in everything
    assert "left out: 4444dddd" in everything
    assert "[meant for strong]" in everything
    assert "3 fade (/memory stale), 1 in the archive (/memory archive)" in everything
    assert not OBEYED.search(everything.replace("\n", ""))
    assert "local would be told 2 of 5 facts:" in why
    assert "5555eeee  long ago somebody liked tabs  [not relevant]" in why
    assert "5555eeee   20  long ago somebody liked tabs  [not used for 3 d 0 h, 11 d 0 h left]" in said(told, "/memory stale", capsys)
    assert "the office is in Sevilla  [forgotten, 2026-03-01 12:00 UTC]" in said(told, "/memory archive", capsys)
    assert said(told, "/memory restore 6666", capsys) == "restored: 6666ffff  the office is in Sevilla\n"
    assert said(told, "/memory everywhere 2222", capsys) == "told everywhere from now on: 2222bbbb  the port of the database is 5433\n"
    assert "6666ffff" in said(told, "/memory list", capsys)


def test_the_need_says_what_is_told_where_no_prompt_does(told: Conversation, capsys: pytest.CaptureFixture[str]) -> None:
    told.change_need(stated("move the database"), Cancel())

    assert "local would be told 2 of 5 facts:" in said(told, "/memory", capsys)


@pytest.mark.parametrize(
    ("line", "problem"), [("/memory lsit", "did you mean `list`"), ("/memory forget", "needs an ID"), ("/memory stale now", "takes nothing")]
)
def test_what_is_no_command_of_the_memory_is_said(told: Conversation, line: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        Commands(told.front, told).understand(line, cancel=Cancel())


# -- needs you ---------------------------------------------------------------------------------------


def test_the_status_line_counts_the_open_questions(told: Conversation, capsys: pytest.CaptureFixture[str]) -> None:
    told.store.create(replace(fresh_session(told.front), id="another"))
    life = begun(NOW, ttl=timedelta(hours=1), max_age=timedelta(hours=1))
    for identity, session in (("q1", told.session.id), ("q2", told.session.id), ("q3", "another")):
        question = Question("Which?", durable=True, session=session, agent="strong")
        told.store.add_question(StoredQuestion(identity, question, life, timedelta(days=1)))

    standing = told.standing()

    assert (standing.asked, standing.elsewhere) == (2, 1)
    assert "needs you (2, 1 elsewhere)" in status_line(standing, asks=False, width=80)
    assert "needs you (3, 1 elsewhere)" in status_line(replace(standing, state=State.WAITING), asks=True, width=80)
    assert "needs you (1 elsewhere)" in status_line(replace(standing, asked=0), asks=False, width=80)
    assert "needs you (1)" in status_line(replace(standing, asked=0, elsewhere=0), asks=True, width=80)
    assert "needs you" not in status_line(replace(standing, asked=0, elsewhere=0), asks=False, width=80)
    assert "1 more in other sessions" in said(told, "/questions", capsys)
