"""The kind runs the provider kit's suite, as far as a model that cannot be scripted goes."""

from __future__ import annotations

from escalera_embedded.harness import EmbeddedHarness

from orchestrator.testing.conformance import conformance

SHOWN = (
    *("streaming.answer", "streaming.pieces", "streaming.early", "cancel.stream", "cancel.flood", "cancel.closed", "leftovers.answer", "timers.turn"),
    *("usage.reported", "options.strict", "import.cost", "preview.opens_nothing"),
)

test_embedded = conformance(EmbeddedHarness, only=SHOWN)
