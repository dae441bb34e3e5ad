"""Showing a turn at a terminal while it runs."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stderr, redirect_stdout

from orchestrator.cli.output import Output
from orchestrator.cli.watch import watcher_for
from orchestrator.dispatch.desk import Shown

STARTED = Shown("turn_started", data={"agent": "local", "role": "primary", "mode": None})
CALL = Shown("tool_call", data={"name": "escalate", "arguments": {"reason": "too hard, 'naïve'\n"}})


class Terminal(io.StringIO):
    """Both outputs in the order in which they are written."""

    encoding = "utf-8"


def showing(*events: Shown, plain: bool) -> list[str]:
    """What stands on the terminal after each of them."""
    terminal, seen = Terminal(), []
    with (
        redirect_stdout(terminal),
        redirect_stderr(terminal),
        watcher_for(Output(interactive=True, color=False, plain=plain), as_json=False, stream_json=False) as watcher,
    ):
        for shown in events:
            watcher.show(shown)
            seen.append(terminal.getvalue())
    return seen


def test_at_a_plain_terminal_text_and_tools_are_shown_as_they_come_and_nothing_moves() -> None:
    seen = showing(STARTED, Shown("text", "I looked"), Shown("text", " at it."), CALL, CALL, Shown("text", "Done.\x1b[2J"), Shown("withdrawn"), plain=True)

    assert seen[1:3] == ["local (primary) is thinking\nI looked", "local (primary) is thinking\nI looked at it."]
    call = '· escalate {"reason": "too hard, \'naïve\'\\n"}'
    told = "what stands above was withdrawn; the agent is asked again"
    assert seen[-1] == f"local (primary) is thinking\nI looked at it.\n{call}\n{call}\nDone.␛[2J\n{told}\n"


def test_text_that_ends_its_line_gets_no_empty_one() -> None:
    *_, shown = showing(Shown("text", "One.\n"), Shown("text", ""), CALL, Shown("notice", "mind"), Shown("notice", "mind"), plain=False)

    assert re.fullmatch(r"One.\n· escalate \{.*\}\nmind\n", shown)
