"""The provider kit's conformance suite: what a provider of Escalera has to show, one check at a time (docs/provider-kit.md).

In the tests of a plugin, one line makes one case of each check:

    test_conformance = conformance(MyHarness)

`escalera plugins check KIND` runs the same for an installed kind, whose harness stands under the kind's name in the entry-point
group `escalera.provider_tests`.
"""

from __future__ import annotations

from orchestrator.testing.conformance.cases import conformance
from orchestrator.testing.conformance.engine import Conformance
from orchestrator.testing.conformance.harness import CannotPlay, Harness
from orchestrator.testing.conformance.report import Report, Result

__all__ = ["CannotPlay", "Conformance", "Harness", "Report", "Result", "conformance"]
