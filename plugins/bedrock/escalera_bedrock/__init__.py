"""Models on Amazon Bedrock as agents of Escalera."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.hookspecs import hookimpl
from orchestrator.providers import ProviderKind

__all__ = ["escalera_provider_kinds"]


@hookimpl
def escalera_provider_kinds() -> Sequence[ProviderKind]:
    """The kind `bedrock`."""
    from escalera_bedrock.options import BedrockOptions
    from escalera_bedrock.provider import bedrock_provider

    return (ProviderKind("bedrock", BedrockOptions, bedrock_provider, "models on Amazon Bedrock, with the credentials that AWS tools use"),)
