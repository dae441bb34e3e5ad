"""A provider with faults, for the tests of the provider kit."""

import os

from orchestrator.hookspecs import hookimpl
from orchestrator.providers import ProviderKind

if os.environ.get("KIT_FAULT") == "imports_its_sdk":
    from escalera_faulty_sdk import Client  # noqa: F401 - the fault


@hookimpl
def escalera_provider_kinds():
    from escalera_faulty.options import LaxOptions, Options
    from escalera_faulty.provider import FaultyProvider

    lax = os.environ.get("KIT_FAULT") == "takes_misspelt_options"
    return [ProviderKind("faulty", LaxOptions if lax else Options, FaultyProvider, summary="breaks its promises, one at a time")]
