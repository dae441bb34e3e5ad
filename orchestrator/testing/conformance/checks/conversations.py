"""Agents that keep their own conversation, and those that ask for permissions."""

from __future__ import annotations

from orchestrator.errors import SessionLost
from orchestrator.providers import Capabilities, ExternalSessionStarted
from orchestrator.testing.conformance.checks.check import Check
from orchestrator.testing.conformance.checks.streaming import ANSWER
from orchestrator.testing.conformance.stage import Stage
from orchestrator.testing.conformance.turns import Fault


def resumed(stage: Stage) -> None:
    stage.harness.answers(ANSWER)
    first = stage.run().succeeded()
    ids = [event.id for event in first.events if isinstance(event, ExternalSessionStarted)]
    if not ids or not ids[-1]:
        raise Fault("no `ExternalSessionStarted` tells under which id the conversation can be resumed")
    stage.harness.answers(ANSWER)
    stage.run(stage.request(action="resume", conversation=ids[-1])).succeeded()


def lost(stage: Stage) -> None:
    stage.harness.fails(SessionLost)
    stage.run(stage.request(action="resume")).failed_as(SessionLost)


def denied(stage: Stage) -> None:
    stage.harness.asks()
    turn = stage.run()
    if not turn.questions:
        raise Fault("the agent wanted a permission, and nobody was asked")


def keeps(capabilities: Capabilities) -> bool:
    return capabilities.keeps_conversation


def asks(capabilities: Capabilities) -> bool:
    return capabilities.asks_permissions


CHECKS = (
    Check("conversation.resumed", "a conversation tells its id and is resumed by it", resumed, keeps),
    Check("conversation.lost", "one that is not there any more is `SessionLost`", lost, keeps),
    Check("permissions.asked", "a permission is asked for, and a refusal ends nothing but the act", denied, asks),
)
