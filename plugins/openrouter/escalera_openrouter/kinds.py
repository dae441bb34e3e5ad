"""The two kinds: what each makes of its options."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from escalera_openrouter.options import OpenAIOptions, OpenRouterOptions, below, versioned
from escalera_openrouter.provider import Endpoint, OpenAIProvider
from orchestrator.providers import AgentContext, Capabilities

_ATTRIBUTION = {"http-referer": "https://escalera.example", "x-title": "Escalera"}
"""By the first OpenRouter counts whose requests these are, the second is what it shows. The address is of a reserved name: it is nobody's site."""
_NO_COMPRESSION = [{"id": "context-compression", "enabled": False}]
"""OpenRouter shortens long prompts by itself for small models, unless told not to; what is left out is the core's decision."""


def openai_provider(options: OpenAIOptions, context: AgentContext) -> OpenAIProvider:
    """Any server that speaks OpenAI's chat completions."""
    base = options.base_url if options.chat_path is not None else versioned(options.base_url)
    endpoint = replace(
        _endpoint(options, context, base),
        fields=options.body,
        replay_reasoning=options.replay_reasoning,
        any_model=options.chat_path is not None,
    )
    return OpenAIProvider(endpoint, _capabilities(options, cost=False))


def openrouter_provider(options: OpenRouterOptions, context: AgentContext) -> OpenAIProvider:
    """OpenRouter: routing, fallback models, cost, reasoning given back in tool loops."""
    base = options.base_url if options.chat_path is not None else versioned(options.base_url, bare=("", "/api"))
    fields: dict[str, Any] = {"usage": {"include": True}}
    if options.provider_routing:
        fields["provider"] = options.provider_routing
    if options.models:
        fields["models"] = options.models
    endpoint = replace(
        _endpoint(options, context, base),
        open_headers=_ATTRIBUTION,
        fields={**fields, **options.body, "plugins": _plugins(options.body)},
        replay_reasoning=True,
        key_url=below(base, "key"),
        cost_source="billed",
        key_hint='Set api_key = { env = "OPENROUTER_API_KEY" } for this agent; keys are made at https://openrouter.ai/keys.',
    )
    return OpenAIProvider(endpoint, _capabilities(options, cost=True))


def _endpoint(options: OpenAIOptions | OpenRouterOptions, context: AgentContext, base: str) -> Endpoint:
    path = options.chat_path or "/chat/completions"
    return Endpoint(
        agent=context.name,
        chat_url=below(base, path),
        models_url=below(base, "models"),
        model=options.model,
        api_key=options.api_key,
        token_cmd=tuple(options.token_cmd),
        token_folder=context.folders.get("token_cmd"),
        headers=options.headers,
        tls_ca=options.tls_ca,
        strict_roles=options.strict_roles,
    )


def _plugins(body: dict[str, Any]) -> list[Any]:
    """The user's own plugins, with compression off unless they say something about it."""
    own = body.get("plugins")
    own = own if isinstance(own, list) else []
    named = any(isinstance(plugin, dict) and plugin.get("id") == "context-compression" for plugin in own)
    return own if named else [*own, *_NO_COMPRESSION]


def _capabilities(options: OpenAIOptions | OpenRouterOptions, *, cost: bool) -> Capabilities:
    return Capabilities(takes_tools=options.tools, reports_cost=cost, profile="openai-strict" if options.strict_roles else "openai")
