"""A small model in process as an agent of Escalera: no key, no network."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.hookspecs import hookimpl
from orchestrator.providers import ProviderKind

__all__ = ["escalera_provider_kinds"]


@hookimpl
def escalera_provider_kinds() -> Sequence[ProviderKind]:
    """The kind `embedded`; its agents share the servers of one pool, which lives as long as the kind."""
    from escalera_embedded.options import EmbeddedOptions
    from escalera_embedded.provider import EmbeddedProvider
    from escalera_embedded.server import Servers

    servers = Servers()
    return (
        ProviderKind(
            "embedded",
            EmbeddedOptions,
            lambda options, context: EmbeddedProvider(options, context, servers),
            "a small model in this process (llama.cpp), to see everything work; no judge of anything",
        ),
    )
