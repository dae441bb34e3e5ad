"""Runs the checks: each on a stage of its own, after those that it needs."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from orchestrator.testing.conformance.checks import CHECKS
from orchestrator.testing.conformance.checks.check import Check, NotClaimed
from orchestrator.testing.conformance.harness import CannotPlay, Harness
from orchestrator.testing.conformance.report import Report, Result, Status
from orchestrator.testing.conformance.stage import Stage, stage
from orchestrator.testing.conformance.subject import Subject, subject_of
from orchestrator.testing.conformance.turns import Fault, told
from orchestrator.testing.conformance.watch import the_watch


class Conformance:
    """The suite for one harness. Results are kept, so that a check that others need is made once."""

    def __init__(self, harness: type[Harness], subject: Subject | None = None) -> None:
        self._harness = harness
        self._subject = subject_of(harness.kind) if subject is None else subject
        self._watch = the_watch()
        self._checks = {check.name: check for check in CHECKS}
        self._results: dict[str, Result] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._checks)

    @property
    def width(self) -> int:
        """Characters of the longest name of a check."""
        return max(map(len, self._checks))

    def result(self, name: str) -> Result:
        """What comes of one check, and before it of those that it needs."""
        if name not in self._results:
            self._results[name] = self._made(self._checks[name])
        return self._results[name]

    def report(self, watch: Callable[[Result], None] = lambda _: None) -> Report:
        """All checks; `watch` is told of each when it is over."""
        results = []
        for name in self.names:
            results.append(self.result(name))
            watch(results[-1])
        return Report(self._subject.kind.name, self._subject.distribution, self._subject.version, results)

    def _made(self, check: Check) -> Result:
        for needed in check.needs:
            status = self.result(needed).status
            if status in ("failed", "not_shown"):
                return Result(check.name, "not_shown", check.shows, f"since {needed} was not passed")
        began = time.monotonic()
        status, detail = self._outcome(check)
        return Result(check.name, status, check.shows, detail, time.monotonic() - began)

    def _outcome(self, check: Check) -> tuple[Status, str]:
        try:
            with tempfile.TemporaryDirectory(prefix="escalera-kit-") as folder, self._stage(Path(folder)) as set_up:
                if not check.claim(set_up.made().capabilities):
                    return "not_claimed", ""
                check.run(set_up)
        except CannotPlay as error:
            return "not_shown", str(error)
        except NotClaimed as error:
            return "not_claimed", str(error)
        except Fault as error:
            return "failed", str(error)
        except Exception as error:  # of the provider, or of the harness: both are their author's to mend
            return "failed", f"was not expected: {told(error)}"
        return "passed", ""

    def _stage(self, folder: Path) -> AbstractContextManager[Stage]:
        return stage(self._harness, folder, self._subject.kind, self._subject.module, self._watch)
