"""The suite as cases of pytest, for an author's one line."""

from __future__ import annotations

from collections.abc import Callable, Collection

from orchestrator.testing.conformance.checks import CHECKS
from orchestrator.testing.conformance.engine import Conformance
from orchestrator.testing.conformance.harness import Harness


def conformance(harness: type[Harness], *, only: Collection[str] = ()) -> Callable[..., None]:
    """A test with one case for each check: `test_conformance = conformance(MyHarness)`.

    `only` names the checks to be made, for a second harness that is dear; without it they all are.
    What the provider does not claim and what the harness cannot play is skipped, and says so.
    Raises `ValueError` for a name in `only` that is no check's.
    """
    import pytest

    unknown = sorted(set(only) - {check.name for check in CHECKS})
    if unknown:
        raise ValueError(f"there is no check {', '.join(unknown)}; docs/provider-checks.md has them all")

    suites: list[Conformance] = []

    @pytest.mark.parametrize("check", [check.name for check in CHECKS if not only or check.name in only])
    def test_conformance(check: str) -> None:
        if not suites:
            suites.append(Conformance(harness))
        result = suites[0].result(check)
        if result.status == "failed":
            pytest.fail(f"{check} ({result.shows}): {result.detail}", pytrace=False)
        if result.status != "passed":
            pytest.skip(f"{result.status.replace('_', ' ')}: {result.detail or check}")

    return test_conformance
