"""Who gets a turn: flag, then the agent that waits for a reply, then the primary."""

from __future__ import annotations

import pytest

from orchestrator.errors import ConfigError, UsageError
from orchestrator.routing import Choice, Pin, Route, RouteFacts, Rules, route
from orchestrator.session import Role

CONFIGURED = ("local", "strong", "other")


def routed(choice: Choice, asking: str | None = None, *, primary: str | None = "local", escalation: str | None = "strong") -> tuple[str, str, list[str]]:
    way: Route = route(RouteFacts(choice, asking, asking in CONFIGURED, primary, escalation), Rules())
    return way.role.value, way.agent, [reason.rule for reason in way.reasons]


@pytest.mark.parametrize(
    ("choice", "asking", "expected"),
    [
        (Choice(), None, ("primary", "local", ["default"])),
        (Choice(), "other", ("escalation", "other", ["waiting"])),
        (Choice(role=Role.PRIMARY), "other", ("primary", "local", ["flag"])),
        (Choice(role=Role.ESCALATION), None, ("escalation", "strong", ["flag"])),
        (Choice(role=Role.ESCALATION), "other", ("escalation", "other", ["flag", "waiting"])),
        (Choice(role=Role.ESCALATION, agent="strong"), "other", ("escalation", "strong", ["flag"])),
        (Choice(agent="local"), None, ("primary", "local", ["flag"])),
        (Choice(agent="other"), None, ("escalation", "other", ["flag"])),
        (Choice(role=Role.PRIMARY, agent="other"), None, ("primary", "other", ["flag"])),
        (Choice(pinned=Pin(Role.ESCALATION)), None, ("escalation", "strong", ["pinned"])),
        (Choice(pinned=Pin(Role.PRIMARY)), None, ("primary", "local", ["pinned"])),
        (Choice(pinned=Pin(Role.ESCALATION, "other")), None, ("escalation", "other", ["pinned"])),
        (Choice(pinned=Pin(Role.ESCALATION, "strong")), "other", ("escalation", "other", ["waiting"])),
        (Choice(role=Role.PRIMARY, pinned=Pin(Role.ESCALATION)), None, ("primary", "local", ["flag"])),
    ],
)
def test_flag_then_waiting_then_pinned_then_primary(choice: Choice, asking: str | None, expected: tuple[str, str, list[str]]) -> None:
    assert routed(choice, asking) == expected


def test_reply_to_an_agent_that_is_gone_goes_to_its_successor() -> None:
    assert routed(Choice(), "gone") == ("escalation", "strong", ["waiting"])


def test_primary_cannot_be_escalated_to() -> None:
    with pytest.raises(UsageError, match="primary"):
        routed(Choice(role=Role.ESCALATION, agent="local"))


def test_role_without_an_agent_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match="no escalation agent"):
        routed(Choice(role=Role.ESCALATION), escalation=None)
