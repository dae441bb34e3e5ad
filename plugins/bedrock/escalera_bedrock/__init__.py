"""Models on Amazon Bedrock as agents of Escalera."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.hookspecs import hookimpl
from orchestrator.providers import ProviderKind

__all__ = ["escalera_provider_kinds"]


@hookimpl
def escalera_provider_kinds() -> Sequence[ProviderKind]:
    """The kind `bedrock`."""
    from escalera_bedrock.options import CREDENTIALS, BedrockOptions
    from escalera_bedrock.provider import bedrock_provider

    summary = "models on Amazon Bedrock, with the credentials that AWS tools use"
    return (ProviderKind("bedrock", BedrockOptions, bedrock_provider, summary, environment=CREDENTIALS),)
