"""OpenAI-compatible servers and OpenRouter as agents of Escalera."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.hookspecs import hookimpl
from orchestrator.providers import ProviderKind

__all__ = ["escalera_provider_kinds"]


@hookimpl
def escalera_provider_kinds() -> Sequence[ProviderKind]:
    """The kinds `openai` and `openrouter`."""
    from escalera_openrouter.kinds import openai_provider, openrouter_provider
    from escalera_openrouter.options import OpenAIOptions, OpenRouterOptions

    return (
        ProviderKind("openai", OpenAIOptions, openai_provider, "any OpenAI-compatible server: llama.cpp, vLLM, Ollama, LM Studio, Groq, Azure, …"),
        ProviderKind("openrouter", OpenRouterOptions, openrouter_provider, "models of many vendors behind one key, with cost reported"),
    )
