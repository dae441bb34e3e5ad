"""`escalera memory`: what agents are told in later turns and sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from orchestrator.cli.front import Front
from orchestrator.clock import format_time
from orchestrator.errors import NotFound, UsageError
from orchestrator.messages import well_formed
from orchestrator.percepts import MAX_CONTENT, Percept
from orchestrator.session import Role
from orchestrator.settings.problems import did_you_mean, nearest
from orchestrator.store import Store

if TYPE_CHECKING:
    from orchestrator.documents.kinds import PerceptObject

CORE_WEIGHT = 100
"""What a fact weighs that the user asked to keep (page 4)."""

json_option = click.option("--json", "as_json", is_flag=True, help="Print the document.")


@click.group("memory")
def command() -> None:
    """Remembered facts."""


@command.command("list")
@click.option("--session", "ref", metavar="REF", help="Also the facts of this session; else of the newest.")
@json_option
@click.pass_obj
def list_(front: Front, ref: str | None, as_json: bool) -> None:
    """All facts that may be told, heaviest first. Listing is no use of them."""
    store = front.store(read_only=True)
    percepts = store.percepts(session=_session(front, store, ref))
    if as_json:
        front.output.print_json({"format": "escalera.percepts/1", "percepts": [_percept_object(percept) for percept in percepts]})
    else:
        say_percepts(front, percepts)


def say_percepts(front: Front, percepts: Sequence[Percept]) -> None:
    """For people."""
    for percept in percepts:
        marks = [percept.scope, *(["core"] if percept.core else []), *([f"for {percept.consumer}"] if percept.consumer != "all" else [])]
        front.output.say(f"{percept.id[:8]}  {percept.weight:3}  {percept.content}  [{', '.join(marks)}]")
    if not percepts:
        front.output.say("nothing is remembered; `memory learn TEXT` keeps a fact")


@command.command("learn")
@click.argument("text", nargs=-1, required=True)
@click.option("--for", "consumer", default="all", metavar="WHO", help="`primary`, `escalation` or an agent's name; else for all.")
@json_option
@click.pass_obj
def learn(front: Front, text: tuple[str, ...], consumer: str, as_json: bool) -> None:
    """Keep a fact, everywhere and for good; said again it is not stored twice."""
    standing, stored = learned(front, front.store(), " ".join(text), consumer)
    if as_json:
        front.output.print_json({"format": "escalera.percept/1", **_percept_object(standing), "stored": stored})
    else:
        say_learned(front, standing, stored=stored)


def learned(front: Front, store: Store, text: str, consumer: str = "all") -> tuple[Percept, bool]:
    """Store a fact of the user's: what stands now, and whether it is new. Raises `UsageError` for one that cannot be kept."""
    content = well_formed(text).strip()
    if not content:
        raise UsageError("a fact cannot be empty", hint="say it in one sentence")
    if len(content) > MAX_CONTENT:
        raise UsageError(f"a fact has at most {MAX_CONTENT} characters, this one has {len(content):,}", hint="say it shorter, or as several")
    known = ["all", *Role, *front.settings.agents]
    if consumer not in known:
        front.output.notice(f"there is no agent {consumer!r} (yet): nobody is told this fact until there is{did_you_mean(nearest(consumer, known))}")
    now = front.clock.now()
    percept = Percept(
        id=front.new_id(),
        content=content,
        producer="user",
        consumer=consumer,
        weight=CORE_WEIGHT,
        core=True,
        created_at=now,
        updated_at=now,
        source={"by": "command"},
    )
    return store.learn(percept)


def say_learned(front: Front, standing: Percept, *, stored: bool) -> None:
    """For people."""
    front.output.say(f"{'remembered' if stored else 'known already, and now weighs more'}: {standing.id[:8]}  {standing.content}")


@command.command("forget")
@click.argument("ref", metavar="ID")
@json_option
@click.pass_obj
def forget(front: Front, ref: str, as_json: bool) -> None:
    """Take a fact out of the memory, by its id or the beginning of one; it is kept in the archive."""
    percept = front.store().forget(ref)
    if as_json:
        front.output.print_json({"format": "escalera.percept/1", **_percept_object(percept), "stored": None})
    else:
        front.output.say(f"forgotten: {percept.id[:8]}  {percept.content}")


def _session(front: Front, store: Store, ref: str | None) -> str | None:
    try:
        return store.find(ref, front.workspace).id
    except NotFound:
        if ref is not None:
            raise
        return None


def _percept_object(percept: Percept) -> PerceptObject:
    return {
        "id": percept.id,
        "content": percept.content,
        "weight": percept.weight,
        "core": percept.core,
        "scope": percept.scope,
        "workspace": percept.workspace,
        "session": percept.session,
        "producer": percept.producer,
        "consumer": percept.consumer,
        "subject": percept.subject,
        "trust": percept.trust,
        "source": None if percept.source is None else dict(percept.source),
        "idle_seconds": percept.idle_seconds,
        "created_at": None if percept.created_at is None else format_time(percept.created_at),
        "updated_at": None if percept.updated_at is None else format_time(percept.updated_at),
        "last_used_at": None if percept.last_used_at is None else format_time(percept.last_used_at),
    }
