"""Installed plugins, what is checked of them, and packages begun for new ones."""

from __future__ import annotations

from typing import Annotated, Literal

from typing_extensions import TypedDict

from orchestrator.documents.kinds.common import Count, Schema, Stated


class PluginObject(TypedDict):
    """An installed plugin; one with a problem may still be loaded."""

    name: Stated
    distribution: str
    version: str
    loaded: bool
    kinds: list[Stated]
    problem: str | None
    blocked: bool
    hooks: list[Stated]
    """The hooks that it implements."""
    hook_problems: list[Stated]
    """What it gives wrongly where those hooks were tried."""


class MissingPlugin(TypedDict):
    """A plugin that `plugins.wanted` names and that is not there as it is named."""

    requirement: Stated
    distribution: Stated
    problem: Stated


class PluginsDocument(TypedDict):
    """`plugins list --json`."""

    format: Literal["escalera.plugins/1"]
    plugins: list[PluginObject]
    missing: list[MissingPlugin]


class CheckedObject(TypedDict):
    """One check of the provider kit. `not_claimed`: the provider does not do that; `not_shown`: its harness cannot play it."""

    check: Stated
    capability: Stated
    status: Literal["passed", "failed", "not_claimed", "not_shown"]
    shows: Stated
    """What holds where it passes."""
    detail: str | None
    """What is wrong, or why it was not made."""
    seconds: Annotated[float, Schema(minimum=0)]


class CheckCounts(TypedDict):
    """How many checks came to what."""

    passed: Count
    failed: Count
    not_claimed: Count
    not_shown: Count


class ConformanceDocument(TypedDict):
    """`plugins check KIND --json`; `ok` where nothing failed and an answer was shown."""

    format: Literal["escalera.conformance/1"]
    kind: Stated
    distribution: str
    version: str
    kit: Count
    """The version of the kit."""
    api_level: Count
    """The plugin API level."""
    ok: bool
    counts: CheckCounts
    checks: list[CheckedObject]


class PackageDocument(TypedDict):
    """`plugins new NAME --json`: the package that was written."""

    format: Literal["escalera.package/1"]
    folder: Stated
    kind: Stated
    files: list[Stated]
