"""Remembered facts as people are shown them: who would be told which, what fades, what has left."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.cli.front import Front
from orchestrator.clock import duration
from orchestrator.facts import Told
from orchestrator.percepts import Archived, Percept, Stale

SHOWN = 20
"""Facts that are left out and shown to people."""


def row(text: str) -> str:
    """On one line, whatever stands in it: no part of a fact can pose as a row of its own."""
    return " ".join(text.splitlines())


def say_percepts(front: Front, percepts: Sequence[Percept]) -> None:
    """All of them, for people."""
    for percept in percepts:
        front.output.say(row(f"{_line(percept)}  [{marks_of(percept)}]"))
    if not percepts:
        front.output.say("nothing is remembered; `memory learn TEXT` keeps a fact")


def say_told(front: Front, told: Told, *, rest: str) -> None:
    """Those that would be told, and the first of those that would not; `rest` says where the others are named."""
    sent, withheld = told.sent, told.withheld
    front.output.say(f"{told.agent} would be told {len(sent)} of {len(sent) + len(withheld)} facts" + (":" if sent else ""))
    for percept, score in sent:
        front.output.say(row(f"  {percept.id[:8]}  {percept.weight:3}  {score:.3g}  {percept.content}"))
    for percept, why in withheld[:SHOWN]:
        front.output.say(row(f"  left out: {percept.id[:8]}  {percept.content}  [{why}]"))
    if len(withheld) > SHOWN:
        front.output.say(f"  and {len(withheld) - SHOWN:,} more are left out; {rest}")


def say_stale(front: Front, found: Sequence[Stale], *, never: bool) -> None:
    """Those that fade, the next to go first; `never` where age takes none to the archive."""
    if never:
        front.output.say("nothing goes to the archive for its age: global_archive_after_days is negative")
    for one in found:
        front.output.say(row(f"{_line(one.percept)}  [{idle_text(one, never=never)}]"))
    if not found:
        front.output.say("no fact can become stale: all of them are core, or of a session")


def say_archived(front: Front, found: Sequence[Archived]) -> None:
    """What left, in the order of leaving."""
    for one in found:
        front.output.say(row(f"{_line(one.percept)}  [{left_text(one)}]"))
    if not found:
        front.output.say("the archive is empty")


def marks_of(percept: Percept, *, place: bool = True) -> str:
    """What else there is to say of it; with its workspace or without."""
    marks = [percept.scope, *(["core"] if percept.core else []), *([f"for {percept.consumer}"] if percept.consumer != "all" else [])]
    marks += [*([f"in {percept.workspace}"] if place and percept.workspace else []), *(["from tool output"] if percept.trust == "tool_output" else [])]
    return ", ".join(marks)


def idle_text(one: Stale, *, never: bool) -> str:
    """How long it was not used, and the running time that is left to it."""
    return f"not used for {duration(one.percept.idle_seconds)}{'' if never else f', {duration(one.seconds_left)} left'}"


def left_text(one: Archived) -> str:
    """Why and when it left."""
    return one.reason if one.archived_at is None else f"{one.reason}, {one.archived_at:%Y-%m-%d %H:%M} UTC"


def _line(percept: Percept) -> str:
    return f"{percept.id[:8]}  {percept.weight:3}  {percept.content}"
