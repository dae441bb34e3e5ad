"""API keys in the environment, by name only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Vendor:
    """Who takes a key, and an agent that would use it. Without a `model` there is none that everybody has."""

    variable: str
    name: str
    provider: str
    base_url: str | None = None
    model: str | None = None


VENDORS = (
    Vendor("OPENROUTER_API_KEY", "OpenRouter", "openrouter", model="anthropic/claude-opus-4.5"),
    Vendor("ANTHROPIC_API_KEY", "Anthropic", "openai", "https://api.anthropic.com/v1", "claude-opus-4-5"),
    Vendor("OPENAI_API_KEY", "OpenAI", "openai", "https://api.openai.com/v1", "gpt-5"),
    Vendor("GEMINI_API_KEY", "Google", "openai", "https://generativelanguage.googleapis.com/v1beta/openai", "gemini-2.5-pro"),
    Vendor("MISTRAL_API_KEY", "Mistral", "openai", "https://api.mistral.ai/v1"),
    Vendor("DEEPSEEK_API_KEY", "DeepSeek", "openai", "https://api.deepseek.com/v1"),
    Vendor("GROQ_API_KEY", "Groq", "openai", "https://api.groq.com/openai/v1"),
    Vendor("TOGETHER_API_KEY", "Together", "openai", "https://api.together.xyz/v1"),
    Vendor("XAI_API_KEY", "xAI", "openai", "https://api.x.ai/v1"),
)
"""The strongest choice for escalation first."""


def keys_found(environ: Mapping[str, str]) -> list[Vendor]:
    """The vendors whose key is set."""
    return [vendor for vendor in VENDORS if environ.get(vendor.variable, "").strip()]
