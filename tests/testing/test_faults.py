"""The conformance suite names each fault of a deliberately bad plugin by the check that is meant for it, and by no other."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.testing.conformance import Conformance, Harness, Report

PACKAGE = Path(__file__).parents[1] / "third_party" / "escalera_faulty"

FAULTS = {
    "takes_a_broken_stream_for_an_end": "truncation.broken",
    "takes_a_cut_for_an_end": "truncation.anywhere",
    "reports_no_usage_as_0": "usage.unknown",
    "leaves_a_thread_behind": "cancel.nothing_left",
    "leaves_a_connection_open": "leftovers.answer",
    "ignores_cancel": "cancel.stream",
    "ignores_the_idle_timer": "timers.idle",
    "says_its_key_in_errors": "secrets.errors",
    "shows_its_key_in_previews": "secrets.preview",
    "represents_itself_with_its_key": "secrets.repr",
    "says_its_key_in_checks": "secrets.check",
    "logs_its_key": "secrets.log",
    "notes_its_key": "secrets.wire",
    "imports_its_sdk": "import.cost",
    "takes_429_for_final": "errors.RateLimited",
    "forgets_the_wait": "errors.retry_after",
    "raises_what_it_likes": "errors.OutOfFunds",
    "makes_up_ids": "tools.calls",
    "shares_its_state": "at_once.apart",
    "shows_nothing_early": "streaming.early",
    "shows_behind_the_message": "streaming.pieces",
    "shows_withdrawn_text_again": "withdrawn.text",
    "connects_in_preview": "preview.opens_nothing",
    "previews_something_else": "preview.true",
    "checks_by_a_call": "check.free",
    "strips_the_answer": "streaming.space",
    "does_not_say_that_it_streams": "streaming.claimed",
    "shows_no_reasoning": "reasoning.shown",
    "keeps_no_reasoning": "reasoning.kept",
    "always_says_emitted": "errors.emitted",
    "asks_another_address": "preview.head",
    "sends_no_key": "preview.head",
    "never_begins_the_wire": "wire.begun",
    "takes_misspelt_options": "options.strict",
}
IN_ITS_MODULE = {"imports_its_sdk", ""}
"""Only these need the check that starts a Python of its own; the others lie in the provider."""


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Harness]]:
    monkeypatch.syspath_prepend(str(PACKAGE))
    from escalera_faulty.harness import FaultyHarness  # type: ignore[import-not-found]

    yield FaultyHarness
    for name in [name for name in sys.modules if name.startswith("escalera_faulty")]:
        del sys.modules[name]


def run(harness: type[Harness], fault: str, monkeypatch: pytest.MonkeyPatch) -> Report:
    monkeypatch.setenv("KIT_FAULT", fault)
    suite = Conformance(harness)
    return Report("faulty", "escalera-faulty", "1.0", [suite.result(name) for name in suite.names if name != "import.cost" or fault in IN_ITS_MODULE])


def test_without_a_fault_it_passes(faulty: type[Harness], monkeypatch: pytest.MonkeyPatch) -> None:
    report = run(faulty, "", monkeypatch)

    assert report.ok
    assert [result for result in report.results if result.status == "failed"] == []
    claimed = set(FAULTS.values()) - {"streaming.claimed"}
    assert {result.check for result in report.results if result.status == "passed"} >= claimed


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_by_the_check_that_is_meant_for_it(fault: str, faulty: type[Harness], monkeypatch: pytest.MonkeyPatch) -> None:
    report = run(faulty, fault, monkeypatch)

    assert {result.check: result.detail for result in report.results if result.status == "failed"}.keys() == {FAULTS[fault]}, report.lines()
    assert not report.ok
