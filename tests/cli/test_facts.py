"""Facts as people are shown them: one row each, whatever stands in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.cli.facts import say_archived, say_percepts, say_stale, say_told
from orchestrator.cli.front import Front
from orchestrator.cli.output import Output
from orchestrator.facts import Told
from orchestrator.percepts import Archived, Percept, Stale

HOSTILE = "one\nabcdef12  100  two\r\nthree\u2028four\x85five\x0bsix\x1b[2J\rseven"


@pytest.mark.parametrize(
    "show",
    [
        lambda front, fact: say_percepts(front, [fact]),
        lambda front, fact: say_stale(front, [Stale(fact, 5.0)], never=False),
        lambda front, fact: say_archived(front, [Archived(fact, None, "gone\nabcdef12", 0.0)]),
        lambda front, fact: say_told(front, Told("a", ((fact, 1.0),), ()), rest=""),
        lambda front, fact: say_told(front, Told("a", (), ((fact, "meant for\nabcdef12"),)), rest=""),
    ],
    ids=["list", "stale", "archive", "told", "left out"],
)
def test_a_fact_is_one_row(tmp_path: Path, capsys: pytest.CaptureFixture[str], show: Callable[[Front, Percept], None]) -> None:
    output = Output(interactive=False, color=False, plain=True)
    front = Front(environ={"ESCALERA_HOME": str(tmp_path)}, cwd=tmp_path, config_file=None, sets=(), flags={}, output=output)

    show(front, Percept("01234567-x", HOSTILE, "user", consumer="x\nabcdef12", workspace="/w\nabcdef12"))

    printed = capsys.readouterr().out
    (line,) = [line for line in printed.splitlines() if "would be told" not in line]
    assert "01234567" in line
    assert "one abcdef12  100  two" in line
    assert "\x1b" not in printed
