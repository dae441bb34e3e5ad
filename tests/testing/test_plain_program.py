"""The smallest plugin of the documentation, which neither streams nor reports anything, is asked for no more than it claims."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import ProviderError, Unavailable
from orchestrator.messages import Usage
from orchestrator.testing.conformance import CannotPlay, Conformance, Harness
from orchestrator.testing.scripted_program import DIE, HANG, ScriptedProgram

PACKAGE = Path(__file__).parents[1] / "third_party" / "escalera_command"


class CommandHarness(Harness):
    kind = "escalera_command:command"
    pace, limit = 0.2, 10.0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._program = ScriptedProgram(folder)

    def options(self) -> Mapping[str, object]:
        return {"command": self._program.command}

    def calls(self) -> int:
        return self._program.calls

    def received(self) -> object:
        return self._program.received()

    def answers(self, text: str, *, usage: Usage | None = None) -> None:
        self._program.add(text.encode())

    def breaks(self, text: str) -> None:
        self._program.add(text.encode(), DIE)

    def hangs(self, text: str = "") -> None:
        self._program.add(text.encode(), HANG)

    def fails(self, error: type[ProviderError], *, retry_after: float | None = None) -> None:
        if error is not Unavailable:
            raise CannotPlay("a program only ends with an exit code")
        self._program.add(b"", 1)


def test_it_shows_what_it_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PACKAGE))

    report = Conformance(CommandHarness).report()

    failed = {result.check: result.detail for result in report.results if result.status == "failed"}
    assert failed == {}
    assert {"programs.folder", "programs.missing"} <= {result.check for result in report.results if result.status == "passed"}
    claimed = {result.check for result in report.results if result.status != "not_claimed"}
    assert claimed & {"streaming.pieces", "streaming.early", "timers.first_byte", "timers.idle", "tools.calls", "usage.reported"} == set()
    assert {"cancel.silence", "cancel.nothing_left", "timers.turn", "programs.marked", "at_once.apart", "truncation.broken"} <= {
        result.check for result in report.results if result.status == "passed"
    }


@pytest.mark.parametrize(
    ("check", "right", "wrong"),
    [
        ("programs.folder", 'context.folders.get("command")', "None"),
        ("programs.missing", 'InvalidRequest(f"{self._command[0]} cannot', 'Unavailable(f"{self._command[0]} cannot'),
    ],
)
def test_a_program_that_is_looked_for_elsewhere_or_in_vain_is_named(check: str, right: str, wrong: str) -> None:
    plugin: dict[str, Any] = {}
    source = (PACKAGE / "escalera_command.py").read_text("utf-8")
    assert right in source
    exec(source.replace(right, wrong), plugin)  # noqa: S102 - the package is ours

    class Faulty(CommandHarness):
        kind = plugin["escalera_provider_kinds"]()[0]

    suite = Conformance(Faulty)

    assert (suite.result("streaming.answer").status, suite.result(check).status) == ("passed", "failed")
