"""What came of a run of the suite: a table for people, a document for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from orchestrator.hookspecs import API_LEVEL
from orchestrator.testing import KIT_VERSION

Status = Literal["passed", "failed", "not_claimed", "not_shown"]
_WORDS: dict[Status, str] = {"passed": "passed", "failed": "FAILED", "not_claimed": "not claimed", "not_shown": "not shown"}


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one check; `detail` says what is wrong, or why it was not made."""

    check: str
    status: Status
    shows: str
    detail: str = ""
    seconds: float = 0.0

    def row(self, width: int) -> str:
        """Its line in the table, whose first column is that wide."""
        return f"{self.check:<{width}}  {_WORDS[self.status]:<11}  {self.detail or self.shows}".rstrip()


@dataclass(frozen=True, slots=True)
class Report:
    """All results of one kind."""

    kind: str
    distribution: str
    version: str
    results: Sequence[Result]

    @property
    def ok(self) -> bool:
        """Whether nothing failed and the plainest thing, an answer, was shown: a suite that shows nothing has not passed."""
        statuses = {result.check: result.status for result in self.results}
        return statuses.get("streaming.answer") == "passed" and "failed" not in statuses.values()

    def document(self) -> dict[str, Any]:
        """`escalera.conformance/1`."""
        return {
            "format": "escalera.conformance/1",
            "kind": self.kind,
            "distribution": self.distribution,
            "version": self.version,
            "kit": KIT_VERSION,
            "api_level": API_LEVEL,
            "ok": self.ok,
            "counts": dict(self._counts()),
            "checks": [
                {
                    "check": result.check,
                    "capability": result.check.partition(".")[0],
                    "status": result.status,
                    "shows": result.shows,
                    "detail": result.detail or None,
                    "seconds": round(result.seconds, 3),
                }
                for result in self.results
            ],
        }

    def lines(self) -> list[str]:
        """The table, and a last line that sums it up."""
        width = max(len(result.check) for result in self.results)
        return [*(result.row(width) for result in self.results), self.summary]

    @property
    def summary(self) -> str:
        """What was checked, and how many checks came to what."""
        counts = ", ".join(f"{count} {_WORDS[status].lower()}" for status, count in self._counts().items() if count)
        return f"{self.kind} ({self.distribution} {self.version}), kit {KIT_VERSION}: {counts}"

    def _counts(self) -> dict[Status, int]:
        found = Counter(result.status for result in self.results)
        return {status: found[status] for status in _WORDS}
