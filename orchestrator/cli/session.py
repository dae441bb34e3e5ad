"""`escalera session`: the sessions of this workspace, or of all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from orchestrator.attachments import referenced
from orchestrator.cli.front import Front
from orchestrator.cli.prompt import read_input
from orchestrator.cli.wire import show_wire
from orchestrator.documents.sessions import hits_document, session_ref_document, sessions_document, shown_document
from orchestrator.errors import EscaleraError, NotFound, UsageError
from orchestrator.needs import need_document
from orchestrator.quoting import one_line
from orchestrator.session import Session, Turn, TurnLog
from orchestrator.sessions import Style, all_turns, dropped, exported, forked, held_session, read_session, renamed
from orchestrator.store import SessionSummary, Store
from orchestrator.terminal import clean

json_option = click.option("--json", "as_json", is_flag=True, help="Print the document.")
all_option = click.option("--all-workspaces", "everywhere", is_flag=True, help="Not only this directory's.")
ref_argument = click.argument("ref", required=False, metavar="[REF]")


@click.group("session")
def command() -> None:
    """Sessions. REF is an id, the beginning of one, or a name in this workspace; without it the newest is meant."""


@command.command("list")
@all_option
@json_option
@click.pass_obj
def list_(front: Front, everywhere: bool, as_json: bool) -> None:
    """The sessions, newest first."""
    store = front.store(read_only=True)
    summaries = store.list(None if everywhere else front.workspace)
    if as_json:
        front.output.print_json(sessions_document(summaries))
        return
    for summary in summaries:
        front.output.say(summary_line(summary, everywhere))
    if not summaries:
        front.output.say("there is no session here yet; `escalera ask` begins one")


@command.command("show")
@ref_argument
@click.option("--turn", type=int, metavar="N", help="Only this turn, with all its steps.")
@click.option("--plan", "explained", is_flag=True, help="What that turn was decided by, and what was planned to be sent.")
@click.option("--wire", is_flag=True, help="What the turn's last call sent and received, as it was; secrets are masked.")
@json_option
@click.pass_obj
def show(front: Front, ref: str | None, turn: int | None, explained: bool, wire: bool, as_json: bool) -> None:
    """A session with its turns; failed and interrupted ones too."""
    if (explained or wire) and turn is None:
        raise UsageError(f"{'--plan explains' if explained else '--wire shows'} one turn", hint="name it: --turn N")
    if explained and wire:
        raise UsageError("--plan and --wire show two different things", hint="give one of them")
    store = front.store(read_only=True)
    with store.snapshot():
        session = store.find(ref, front.workspace)
        log = store.log(session.id)
        if turn is not None and log.get(turn) is None:
            hint = f"it has the turns 0 to {log.next_index - 1}" if log.next_index else "it has none"
            raise NotFound(f"session {session.id[:8]} has no turn {turn}", hint=hint)
        turns = all_turns(log) if turn is None else tuple(found for found in [log.get(turn)] if found is not None)
        if explained:
            _explain(front, store, session, turns[0], as_json)
        elif wire:
            show_wire(front, session.id, turns[0], as_json=as_json)
        elif as_json:
            front.output.print_json(shown_document(session, turns, store.receipts(session.id), need_document(front, session, log)))
        else:
            _show(front, session, log, turns)


def _explain(front: Front, store: Store, session: Session, turn: Turn, as_json: bool) -> None:
    from orchestrator.cli.explaining import explain, receipt_at
    from orchestrator.documents.receipt import receipt_document

    receipt = receipt_at(store, session, turn)
    if as_json:
        front.output.print_json(receipt_document(session.id, turn, receipt))
    else:
        explain(front.output, turn, receipt)


@command.command("search")
@click.argument("text", nargs=-1, required=True)
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, metavar="N", help="At most so many.")
@all_option
@json_option
@click.pass_obj
def search(front: Front, text: tuple[str, ...], limit: int, everywhere: bool, as_json: bool) -> None:
    """Turns that hold all these words, the best first."""
    found = _searchable(front).search(" ".join(text), None if everywhere else front.workspace, limit + 1)
    hits = found[:limit]
    if len(found) > limit:
        front.output.notice(f"there are more than {limit}: --limit shows more, and more words find fewer")
    if as_json:
        front.output.print_json(hits_document(hits))
        return
    for hit in hits:
        front.output.say(f"{hit.session[:8]}  turn {hit.turn}  {' '.join(hit.snippet.split())}")
    if not hits:
        front.output.say("nothing found")


@command.command("pick")
@all_option
@click.pass_obj
def pick(front: Front, everywhere: bool) -> None:
    """Choose a session by number and make it the newest, so that `ask` goes on with it."""
    store = front.store()
    summaries = store.list(None if everywhere else front.workspace)
    if not summaries:
        raise NotFound("there is no session to pick from", hint="`escalera ask` begins one")
    if not front.output.interactive:
        raise UsageError("picking needs a terminal", hint="name the session instead: --session REF")
    for number, summary in enumerate(summaries, 1):
        front.output.say(f"{number:3}  {summary_line(summary, everywhere)}")
    chosen = click.prompt("which", type=click.IntRange(1, len(summaries)))
    with held_session(front, store, summaries[chosen - 1].id) as (claim, session):
        store.save(claim, replace(session, updated_at=front.clock.now()))
    front.output.say(f"picked {session.id[:8]}")


@command.command("export")
@ref_argument
@click.option("--markdown", "style", flag_value="markdown", help="For reading, instead of JSON.")
@click.option("--html", "style", flag_value="html", help="For reading in a browser.")
@click.option("--json", "style", flag_value="json", default=True, help="The document: so it is without any of them.")
@click.option("--raw", is_flag=True, help="With texts as they are: also with what looks like a secret.")
@click.option("--output", "-o", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write it there, not to stdout.")
@click.pass_obj
def export(front: Front, ref: str | None, style: Style, raw: bool, output: Path | None) -> None:
    """The session document; secrets are masked unless --raw."""
    store = front.store(read_only=True)
    with store.snapshot():
        session = store.find(ref, front.workspace)
        text = exported(session, all_turns(store.log(session.id)), store.receipts(session.id), style, raw=raw)
    if raw:
        front.output.notice("--raw: keys, tokens and passwords that stand in the texts are not masked")
    if output is None:
        front.output.print_text(clean(text) if front.output.stdout.isatty() else text)
        return
    try:
        with open(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror}") from error


@command.command("import")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@json_option
@click.pass_obj
def import_(front: Front, file: Path, as_json: bool) -> None:
    """A session document, as a session of its own; `-` reads it from stdin."""
    session, turns, receipts = read_session(front, read_input(file), str(file), new_id=front.new_id, new_nonce=front.new_nonce)
    front.store().import_session(session, turns, receipts)
    _done(front, session, f"imported {session.id[:8]} with {len(turns)} turns, in {session.workspace}", as_json)


@command.command("rename")
@click.argument("ref", metavar="REF")
@click.argument("name", metavar="NAME")
@json_option
@click.pass_obj
def rename(front: Front, ref: str, name: str, as_json: bool) -> None:
    """Give a session a name that is not taken in its workspace."""
    store = front.store()
    session = renamed(front, store, ref, name)
    _done(front, session, f"{session.id[:8]} is now {name!r}", as_json)


@command.command("fork")
@ref_argument
@click.option("--name", metavar="NAME", help="What the copy is called.")
@json_option
@click.pass_obj
def fork(front: Front, ref: str | None, name: str | None, as_json: bool) -> None:
    """A copy that goes its own way; agents with their own conversation start afresh in it.

    It is the newest session then: `ask` and `chat` go on in it unless `--session` names another. What its turns used counts where they were taken.
    """
    store = front.store()
    with store.snapshot():
        session = store.find(ref, front.workspace)
        turns, receipts = all_turns(store.log(session.id)), store.receipts(session.id)
    copy = forked(front, store, session, turns, receipts, name=name)
    _done(front, copy, f"forked {session.id[:8]} as {copy.id[:8]}", as_json)


@command.command("drop")
@click.argument("ref", metavar="REF")
@click.option("--purge", is_flag=True, help="Keep no export of it.")
@json_option
@click.pass_obj
def drop(front: Front, ref: str, purge: bool, as_json: bool) -> None:
    """Remove a session; an export of it is kept in the data folder unless --purge."""
    session, kept = dropped(front, front.store(), ref, purge=purge)
    _done(front, session, f"dropped {session.id[:8]}" + (f"; an export is kept in {kept}" if kept else ""), as_json, export=kept)


def _searchable(front: Front) -> Store:
    """The store with its index written on; where nothing can be written, what it has is searched as it is."""
    try:
        return front.store()
    except EscaleraError:
        return front.store(read_only=True)


def _done(front: Front, session: Session, text: str, as_json: bool, *, export: Path | None = None) -> None:
    if not as_json:
        front.output.say(text)
        return
    front.output.print_json(session_ref_document(session, export=export))


def summary_line(summary: SessionSummary, everywhere: bool = False) -> str:
    """A session in a list; with its workspace where sessions come from `everywhere`."""
    when = "unknown time" if summary.updated_at is None else summary.updated_at.astimezone().strftime("%Y-%m-%d %H:%M")
    turns = "1 turn" if summary.turns == 1 else f"{summary.turns} turns"
    marks = [summary.state, *(["in use"] if summary.in_use else [])]
    line = f"{summary.id[:8]}  {when}  {turns:9}  {', '.join(marks):8}  {one_line(summary.name or '', 200)}"
    return (f"{line}  {summary.workspace}" if everywhere else line).rstrip()


def _show(front: Front, session: Session, log: TurnLog, turns: Sequence[Turn]) -> None:
    name = f" {session.name!r}" if session.name else ""
    front.output.heading(f"session {session.id}{name} in {session.workspace}, {session.state}")
    need = need_document(front, session, log)
    if need["text"] is not None:
        front.output.say(f"need ({need['status']}): {need['text']}")
    for turn in turns:
        rules = ", ".join(reason.rule for reason in turn.reasons)
        kind = f"{turn.mode} ({rules})" if turn.mode else rules
        if turn.mode and turn.routing:
            kind += f", chosen by {', '.join(reason.rule for reason in turn.routing)}"
        front.output.heading(f"\nturn {turn.index}  {turn.agent} ({turn.role})  {turn.outcome}{'  ' + kind if kind else ''}")
        prompt = turn.prompt if turn.prompt is None or len(turns) == 1 else referenced(turn.prompt)
        front.output.say(f"> {prompt}" if prompt is not None else f"> (goes on with turn {turn.continues})")
        if turn.error is not None:
            front.output.say(f"{turn.error.type}: {turn.error.message}")
        if turn.answer:
            front.output.say(turn.answer)
