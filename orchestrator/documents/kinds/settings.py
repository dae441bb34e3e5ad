"""Settings, templates, paths, and the files of a project that need the user's word."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from typing_extensions import TypedDict

from orchestrator.documents.kinds.common import Schema, Stated


class ShadowedObject(TypedDict):
    """What another source says."""

    source: Stated
    value: Any


class SettingObject(TypedDict):
    """A setting: durations as text, `unlimited` as that word, secrets as `***`."""

    path: Stated
    value: Any
    default: Any
    source: Annotated[str, Schema(pattern="^(default|file:.+|env:.+|flag|runtime)$")]
    shadowed: list[ShadowedObject]
    """What would count without this one, the next first."""
    type: Stated
    unit: str | None
    help: str
    flag: str | None
    env: str | None


class SettingsDocument(TypedDict):
    """`settings list --json`."""

    format: Literal["escalera.settings/1"]
    settings: list[SettingObject]


class SettingDocument(SettingObject):
    """`settings get`, `set` and `unset` with `--json`: what counts now."""

    format: Literal["escalera.setting/1"]
    written: NotRequired[str | None]
    """The server's answer to a change: the file that was changed."""


class PathsDocument(TypedDict):
    """`paths --json`: the four folders."""

    format: Literal["escalera.paths/1"]
    config: Stated
    data: Stated
    state: Stated
    cache: Stated


class IgnoredTemplate(TypedDict):
    """A file that stands in for no template, and why."""

    origin: Literal["user", "project", "plugin"]
    path: Stated
    plugin: str | None
    problem: str | None
    """Null where it only stands behind another one."""


class TemplateObject(TypedDict):
    """A template as it is in use."""

    name: Stated
    origin: Literal["user", "project", "plugin", "built-in"]
    path: Stated
    plugin: str | None
    values: list[Stated]
    """The names that it is given."""
    ignored: list[IgnoredTemplate]


class TemplatesDocument(TypedDict):
    """`templates list --json`."""

    format: Literal["escalera.templates/1"]
    templates: list[TemplateObject]
    unknown: list[IgnoredTemplate]
    """Files with the name of no template."""


class EnabledObject(TypedDict):
    """A key that is ignored until its file is accepted; secrets in the value are masked."""

    path: Stated
    value: Any


class ProjectFileDocument(TypedDict):
    """`trust --json`: a project file or the folder of a project without one, whether it is accepted now, and what that enables.

    Among what is enabled are the project's AGENTS.md and templates, with their texts.
    """

    format: Literal["escalera.project-file/1"]
    file: Stated
    accepted: bool
    enables: list[EnabledObject]


class AcceptedFile(TypedDict):
    """A project file that was accepted, with that content."""

    file: Stated
    sha256: Stated
    standing: Literal["accepted", "changed", "gone"]
    """Whether the file still is what was accepted."""


class TrustedDocument(TypedDict):
    """`trust --list --json`."""

    format: Literal["escalera.trusted/1"]
    files: list[AcceptedFile]
