"""Models on Amazon Bedrock as agents of Escalera."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.hookspecs import hookimpl
from orchestrator.providers import ProviderKind

__all__ = ["escalera_provider_kinds"]

CREDENTIALS = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN"),
    *("AWS_BEARER_TOKEN_BEDROCK", "AWS_CONTAINER_AUTHORIZATION_TOKEN"),
)
"""What boto3 takes from the environment to sign in with."""


@hookimpl
def escalera_provider_kinds() -> Sequence[ProviderKind]:
    """The kind `bedrock`."""
    from escalera_bedrock.options import BedrockOptions
    from escalera_bedrock.provider import bedrock_provider

    summary = "models on Amazon Bedrock, with the credentials that AWS tools use"
    return (ProviderKind("bedrock", BedrockOptions, bedrock_provider, summary, environment=CREDENTIALS),)
