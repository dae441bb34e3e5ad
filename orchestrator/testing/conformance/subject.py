"""The kind under test, from whatever names it."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from importlib.metadata import entry_points

from orchestrator.errors import PluginError
from orchestrator.hookspecs import PROJECT
from orchestrator.plugins import PluginManager, installed_entry_points
from orchestrator.providers import ProviderKind
from orchestrator.testing.conformance.harness import Harness

HARNESSES = "escalera.provider_tests"
"""The entry-point group in which a distribution names the harness of each of its kinds, by the kind's name."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A kind, the module of its plugin, empty where it is not known, and the distribution that brings it."""

    kind: ProviderKind
    module: str
    distribution: str = "unknown"
    version: str = "unknown"


def subject_of(named: ProviderKind | str) -> Subject:
    """A `ProviderKind`, the name of an installed kind, or `module:kind`. Raises `PluginError` for one that is not there."""
    if isinstance(named, ProviderKind):
        return Subject(named, "")
    module, colon, kind = named.partition(":")
    return _in_module(module, kind) if colon else installed_subject(named, PluginManager.load(installed_entry_points()))


def installed_subject(name: str, manager: PluginManager) -> Subject:
    """A kind that a plugin of this manager brings. Raises `PluginError` for one that is not there."""
    kind = manager.kind(name)
    (report,) = [report for report in manager.reports() if name in report.kinds]
    modules = [
        entry.module for entry in installed_entry_points() if entry.name == report.name and entry.dist is not None and entry.dist.name == report.distribution
    ]
    return Subject(kind, modules[0], report.distribution, report.version)


def harness_named(kind: str) -> type[Harness]:
    """The harness that an installed distribution names for a kind. Raises `PluginError` where none does, or it cannot be used."""
    found = [entry for entry in entry_points(group=HARNESSES) if entry.name == kind]
    if not found:
        raise PluginError(
            f"no installed distribution has a harness for the kind {kind!r}",
            hint=f"a plugin names it under the kind's name in the entry-point group {HARNESSES}; docs/provider-kit.md says how",
        )
    try:
        harness = found[0].load()
    except Exception as error:  # strangers' code, which may raise anything
        raise PluginError(f"the harness of {kind}, {found[0].value}, cannot be loaded: {type(error).__name__}: {error}") from error
    if not (isinstance(harness, type) and issubclass(harness, Harness)):
        raise PluginError(f"the harness of {kind}, {found[0].value}, is no subclass of `orchestrator.testing.conformance.Harness`")
    return harness


def _in_module(module: str, name: str) -> Subject:
    plugin = importlib.import_module(module)
    for kind in plugin.escalera_provider_kinds():
        if kind.name == name:
            return _described(kind, module)
    raise PluginError(f"the hook {PROJECT}_provider_kinds of {module} gives no kind {name!r}")


def _described(kind: ProviderKind, module: str) -> Subject:
    """With the distribution whose plugin lies in the same package, if there is one."""
    for entry in installed_entry_points():
        if entry.module.partition(".")[0] == module.partition(".")[0] and entry.dist is not None:
            return Subject(kind, entry.module, entry.dist.name, entry.dist.version)
    return Subject(kind, module)
