"""What `doctor` found, what went over the wire, and how the user is called."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from orchestrator.documents.kinds.agents import FindingArea, FindingStatus
from orchestrator.documents.kinds.common import Stated


class FindingObject(TypedDict):
    """One thing that was looked at; `next` is what to do about it."""

    area: FindingArea
    name: str
    status: FindingStatus
    detail: str
    next: str | None


class BundledFile(TypedDict):
    """One file in a bundle."""

    name: Stated
    bytes: int


class BundleObject(TypedDict):
    """What `doctor --bundle` has written."""

    file: Stated
    contents: list[BundledFile]


class DoctorDocument(TypedDict):
    """`doctor --json`; `ok` where both roles have an agent that can work."""

    format: Literal["escalera.doctor/1"]
    ok: bool
    findings: list[FindingObject]
    user_file: Stated
    suggestion: str | None
    """A configuration to start with, in TOML."""
    written: bool
    bundle: BundleObject | None


class NotificationDocument(TypedDict):
    """What `notify.command` gets on its standard input: a question or an answer has come, or a turn has failed."""

    format: Literal["escalera.notification/1"]
    event: Literal["question", "answer", "failed"]
    session: Stated
    agent: Stated
    text: str
    """Its beginning, 200 characters at most on one line."""


class WireDocument(TypedDict):
    """`session show --turn N --wire --json`: the last request of a turn and its answer, secrets masked."""

    format: Literal["escalera.wire/1"]
    session: Stated
    turn: int
    agent: Stated
    sent: str
    received: str
    cut: bool
    """Whether something was cut out of a side's middle, since it was long."""
