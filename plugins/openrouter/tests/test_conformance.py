"""Both kinds run the provider kit's suite."""

from __future__ import annotations

from escalera_openrouter.harness import OpenAIHarness, OpenRouterHarness

from orchestrator.testing.conformance import conformance

test_openai = conformance(OpenAIHarness)
test_openrouter = conformance(OpenRouterHarness)
