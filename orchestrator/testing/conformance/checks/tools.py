"""Tool calls: each with its id, its name and its arguments, and each result with its call."""

from __future__ import annotations

import json

from orchestrator.messages import Message, Text, ToolCall, ToolResult
from orchestrator.providers import Capabilities, MessageDone, ToolResultSeen
from orchestrator.testing.conformance.checks.check import Check
from orchestrator.testing.conformance.stage import LOOKUP, Stage
from orchestrator.testing.conformance.turns import Fault

CALLS = (ToolCall("call_wren", "lookup", {"word": "wren"}), ToolCall("call_none", "lookup", {}), ToolCall("call_jay", "lookup", {"word": 'a "jay" 🜂', "n": 3}))


def pairs(stage: Stage) -> None:
    stage.harness.calls_tools(CALLS, "Let me look.")
    turn = stage.run(stage.request(tools=(LOOKUP,))).succeeded()
    if [call.name for call in turn.calls] != [call.name for call in CALLS]:
        raise Fault(f"three calls of lookup were asked for, and the message has {[call.name for call in turn.calls]}")
    for got, asked in zip(turn.calls, CALLS, strict=True):
        if got.id != asked.id:
            raise Fault(f"the call of id {asked.id!r} came with the id {got.id!r}: its result would find no call")
        if dict(got.arguments) != dict(asked.arguments):
            raise Fault(f"the arguments {dict(asked.arguments)} came as {dict(got.arguments)}")
    if turn.finished is None or turn.finished.reason != "tool_calls":
        raise Fault(f"an answer that calls tools finished with {turn.finished.reason if turn.finished else None!r} instead of 'tool_calls'")


def results(stage: Stage) -> None:
    call = CALLS[0]
    history = (Message("user", (Text("Look."),)), Message("assistant", (call,)), Message("user", (ToolResult(call.id, "a small brown bird"),)))
    sent = json.dumps(stage.provider.preview(stage.request(tools=(LOOKUP,), messages=history)), default=str)
    if "a small brown bird" not in sent:
        raise Fault("the result of a tool is not sent")
    if sent.count(call.id) < 2:
        raise Fault(f"call and result are not sent with the same id: {call.id!r} stands {sent.count(call.id)} times in what is sent")
    if LOOKUP.description not in sent:
        raise Fault("the tools that are offered are not sent")


def seen(stage: Stage) -> None:
    stage.harness.uses_tool()
    turn = stage.run().succeeded()
    called: set[str] = set()
    results = 0
    for event in turn.events:
        if isinstance(event, MessageDone):
            called |= {part.id for part in event.parts if isinstance(part, ToolCall)}
        elif isinstance(event, ToolResultSeen):
            results += 1
            if event.id not in called:
                raise Fault(f"the result {event.id!r} was told before its call, or without one")
    if not results:
        raise Fault("the agent ran a tool, and no `ToolResultSeen` tells of it")


def takes_tools(capabilities: Capabilities) -> bool:
    return capabilities.takes_tools


def runs_its_own(capabilities: Capabilities) -> bool:
    return capabilities.keeps_conversation


CHECKS = (
    Check("tools.calls", "each call comes with its own id, name and arguments", pairs, takes_tools),
    Check("tools.results", "a result is sent with the id of its call", results, takes_tools, needs=("tools.calls",)),
    Check("tools.seen", "what the agent's own tools gave back is told after the call it belongs to", seen, runs_its_own),
)
