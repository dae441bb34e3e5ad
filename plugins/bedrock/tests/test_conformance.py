"""The kind runs the provider kit's suite."""

from __future__ import annotations

from escalera_bedrock.harness import BedrockHarness

from orchestrator.testing.conformance import conformance

test_bedrock = conformance(BedrockHarness)
