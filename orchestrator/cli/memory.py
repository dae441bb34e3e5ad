"""`escalera memory`: what agents are told in later turns and sessions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator.cli.facts import SHOWN, row, say_archived, say_percepts, say_stale, say_told
from orchestrator.cli.front import Front
from orchestrator.cli.prompt import read_input
from orchestrator.documents.json_text import json_text
from orchestrator.errors import UsageError
from orchestrator.facts import explained, found_session, learned, why_document
from orchestrator.percepts import Percept

if TYPE_CHECKING:
    from orchestrator.documents.kinds.memory import SkippedLine

_BATCH = 500
"""Facts that one transaction of an import stores: others who write wait no longer than for that."""

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
    from orchestrator.documents.memory import percepts_document

    store = front.store(read_only=True)
    with store.snapshot():
        session = found_session(front, store, ref)
        identity = None if session is None else session.id
        percepts, engrams, edges = store.percepts(session=identity), store.engrams(session=identity), store.edges()
    if not as_json:
        say_percepts(front, percepts)
        return
    front.output.print_json(percepts_document(percepts, engrams, edges))


@command.command("learn")
@click.argument("text", nargs=-1, required=True)
@click.option("--for", "consumer", default="all", metavar="WHO", help="`primary`, `escalation` or an agent's name; else for all.")
@click.option("--subject", metavar="TEXT", help="What the fact is about: a fact that changes a value of the same subject takes the place of the old one.")
@click.option("--extends", multiple=True, metavar="ID", help="A fact that this one says more about; also several times.")
@click.option("--updates", multiple=True, metavar="ID", help="A fact that this one takes the place of.")
@click.option("--derives", multiple=True, metavar="ID", help="A fact that this one follows from.")
@click.option("--contradicts", multiple=True, metavar="ID", help="A fact that cannot be true together with this one.")
@click.option("--everywhere", is_flag=True, help="TEXT is the ID of a fact that was learned in one workspace: tell it in all of them.")
@json_option
@click.pass_obj
def learn(front: Front, /, text: tuple[str, ...], consumer: str, subject: str | None, everywhere: bool, as_json: bool, **links: tuple[str, ...]) -> None:
    """Keep a fact, everywhere and for good; said again it is not stored twice."""
    from orchestrator.documents.memory import percept_document

    store = front.store()
    if everywhere:
        standing, stored = store.widen(" ".join(text)), False
    else:
        standing, stored = learned(front, store, " ".join(text), consumer, subject=subject, links=links)
    if as_json:
        front.output.print_json(percept_document(standing, stored=stored))
    elif everywhere:
        front.output.say(row(f"told everywhere from now on: {standing.id[:8]}  {standing.content}"))
    else:
        say_learned(front, standing, stored=stored)


def say_learned(front: Front, standing: Percept, *, stored: bool) -> None:
    """For people."""
    front.output.say(row(f"{'remembered' if stored else 'known already, and now weighs more'}: {standing.id[:8]}  {standing.content}"))


@command.command("forget")
@click.argument("ref", metavar="ID")
@click.option("--purge", is_flag=True, help="Keep nothing of it in the archive; also for one that is there already.")
@json_option
@click.pass_obj
def forget(front: Front, ref: str, purge: bool, as_json: bool) -> None:
    """Take a fact out of the memory, by its id or the beginning of one; it is kept in the archive unless --purge."""
    from orchestrator.documents.memory import percept_document

    percept = front.store().forget(ref, purge=purge)
    if as_json:
        front.output.print_json(percept_document(percept, stored=None))
    else:
        front.output.say(row(f"{'purged' if purge else 'forgotten'}: {percept.id[:8]}  {percept.content}"))


@command.command("why")
@click.argument("prompt", nargs=-1)
@click.option("--agent", metavar="NAME", help="Who would be told; else the primary.")
@click.option("--session", "ref", metavar="REF", help="An id, the beginning of one, or a name; else the newest.")
@json_option
@click.pass_obj
def why(front: Front, prompt: tuple[str, ...], agent: str | None, ref: str | None, as_json: bool) -> None:
    """Which facts an agent would be told with that prompt, which not, and why. Nobody is called, and no fact counts as used."""
    told = explained(front, front.store(read_only=True), " ".join(prompt), agent=agent, ref=ref)
    if as_json:
        front.output.print_json(why_document(told))
    else:
        say_told(front, told, rest="--json names all")


@command.command("stale")
@json_option
@click.pass_obj
def stale(front: Front, as_json: bool) -> None:
    """Facts that go to the archive unless they are used: how long each was not, and how much running time is left to it."""
    from orchestrator.documents.memory import stale_document

    after = front.upkeep.archive_after
    found = front.store(read_only=True).stale(after or 0.0)
    if as_json:
        front.output.print_json(stale_document(found, None if after is None else front.upkeep.archive_after_days))
        return
    say_stale(front, found, never=after is None)


@command.command("archive")
@json_option
@click.pass_obj
def archive(front: Front, as_json: bool) -> None:
    """The facts that left the memory; `memory restore ID` brings one back."""
    from orchestrator.documents.memory import archive_document

    found = front.store(read_only=True).archived()
    if as_json:
        front.output.print_json(archive_document(found))
        return
    say_archived(front, found)


@command.command("restore")
@click.argument("ref", metavar="ID")
@json_option
@click.pass_obj
def restore(front: Front, ref: str, as_json: bool) -> None:
    """Bring a fact back from the archive, by its id or the beginning of one."""
    from orchestrator.documents.memory import percept_document

    percept = front.store().restore(ref)
    if as_json:
        front.output.print_json(percept_document(percept, stored=True))
    else:
        front.output.say(row(f"restored: {percept.id[:8]}  {percept.content}"))


@command.command("consolidate")
@json_option
@click.pass_obj
def consolidate(front: Front, as_json: bool) -> int:
    """Do now what is done after turns: reckon weights, make what weighs enough global, archive what nobody uses."""
    from orchestrator.documents.memory import consolidated_document

    upkeep = front.upkeep
    done = front.store().consolidate(archive_after=upkeep.archive_after, most=upkeep.most)
    if as_json:
        front.output.print_json(consolidated_document(done))
    else:
        parts = {"became global": (*done.promoted, *done.merged), "left their session": done.pruned, "went to the archive": (*done.archived, *done.capped)}
        front.output.say(", ".join(f"{len(ids)} {what}" for what, ids in parts.items()))
    if done.problem is not None:
        front.output.notice(f"escalera: {done.problem}")
    return 0 if done.problem is None else 1


@command.command("import")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@json_option
@click.pass_obj
def import_(front: Front, file: Path, as_json: bool) -> None:
    """Facts from an export, or from one JSON object or line for each; `-` reads them from stdin. What cannot be read is named and left out."""
    from orchestrator.memory.transfer import read_memory

    given = read_memory(read_input(file), new_id=front.new_id, now=front.clock.now())
    store = front.store()
    new = [is_new for start in range(0, len(given.percepts), _BATCH) for is_new in store.take_in(given.percepts[start : start + _BATCH], fresh=given.fresh)]
    if given.edges or given.archived:
        store.take_in((), given.edges, given.archived)
    for line, reason in given.problems[:SHOWN]:
        front.output.notice(f"line {line} is left out: {reason}")
    if len(given.problems) > SHOWN:
        front.output.notice(f"and {len(given.problems) - SHOWN:,} more are left out")
    if as_json:
        skipped: list[SkippedLine] = [{"line": line, "why": reason} for line, reason in given.problems]
        front.output.print_json({"format": "escalera.imported/1", "stored": sum(new), "known": len(new) - sum(new), "skipped": skipped})
    else:
        front.output.say(f"{sum(new)} facts are new, {len(new) - sum(new)} were known, {len(given.problems)} left out")


@command.command("export")
@click.option("--output", "-o", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write it there, not to stdout.")
@click.option("--json", "_as_json", is_flag=True, help="Print the document, as it is done anyway.")
@click.pass_obj
def export(front: Front, output: Path | None, _as_json: bool) -> None:
    """Everything that is remembered, of all sessions, with its links and the archive, as one document that `memory import` reads."""
    from orchestrator.documents.memory import archived_object, edge_object, percept_object

    store = front.store(read_only=True)
    with store.snapshot():
        percepts, edges, gone = store.all_percepts(), store.edges(), store.archived()
    text = json_text(
        {
            "format": "escalera.memory/1",
            "percepts": [percept_object(percept) for percept in percepts],
            "edges": [edge_object(edge) for edge in edges],
            "archived": [archived_object(one) for one in gone],
        }
    )
    if output is None:
        front.output.print_text(text)
        return
    try:
        with open(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror}") from error
