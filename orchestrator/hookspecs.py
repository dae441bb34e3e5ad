"""The hooks a plugin may implement, in the order of a program's life (page 7)."""

from __future__ import annotations

from collections.abc import Sequence

import pluggy

from orchestrator.providers import ProviderKind

PROJECT = "escalera"
"""The entry-point group, and the name under which hooks are marked."""

API_LEVEL = 1
"""What a plugin may say it was built for, as `ESCALERA_API_LEVEL` in its module; another level is refused by name."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def escalera_provider_kinds() -> Sequence[ProviderKind]:  # type: ignore[empty-body]
    """Provider kinds that agents can name as their `provider`.

    Called once, when the plugin manager is built. Return the kinds; import no vendor SDK on the way.
    Without any, an agent that names the kind is an error that says which distribution brings it.
    """
