"""`escalera artifacts`: large answers and tool results, and attached files, until they expire (page 5)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator.artifacts import Artifact
from orchestrator.cli.front import Front
from orchestrator.documents.artifact import artifact_document, artifact_object
from orchestrator.errors import StoreError, StoreReadOnly, UsageError
from orchestrator.quoting import one_line
from orchestrator.store import Store

if TYPE_CHECKING:
    from orchestrator.documents.kinds.artifacts import ArtifactsDocument

json_option = click.option("--json", "as_json", is_flag=True, help="Print the document.")


@click.group("artifacts")
def command() -> None:
    """Large answers and tool results, and attached files: all of each, until it expires."""


@command.command("list")
@click.option("--session", "ref", metavar="REF", help="Those of this session: an id, the beginning of one, or a name.")
@json_option
@click.pass_obj
def list_(front: Front, ref: str | None, as_json: bool) -> None:
    """All that have not expired, oldest first. Listing keeps none of them for longer."""
    store = front.store(read_only=True)
    found = store.artifacts(session=None if ref is None else store.find(ref, front.workspace).id)
    if as_json:
        document: ArtifactsDocument = {"format": "escalera.artifacts/1", "artifacts": [artifact_object(artifact, store.now()) for artifact in found]}
        front.output.print_json(document)
        return
    for artifact in found:
        front.output.say(_line(artifact))
    if not found:
        front.output.say("there is no artifact")


@command.command("show")
@click.argument("ref", metavar="ID")
@click.option("--output", "-o", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write its bytes there.")
@json_option
@click.pass_obj
def show(front: Front, ref: str, output: Path | None, as_json: bool) -> None:
    """What an artifact holds. Looking at it keeps it for longer only where artifacts.idle_ttl says so."""
    store = _store(front)
    artifact = _read(store, ref)
    body = store.artifact_body(artifact.id)
    if output is not None:
        _write(output, body)
    if as_json:
        front.output.print_json(artifact_document(artifact, body.decode("utf-8", "replace"), store.now()))
    elif output is not None:
        front.output.notice(f"{_line(artifact)}: written to {output}")
    else:
        front.output.say(body.decode("utf-8", "replace").rstrip("\n"))


def _store(front: Front) -> Store:
    """One that may be written, so that a read can be noted; or one that cannot."""
    try:
        return front.store()
    except StoreReadOnly:
        return front.store(read_only=True)


def _read(store: Store, ref: str) -> Artifact:
    """An item read. Where that cannot be noted, it stands as it is stored."""
    try:
        return store.read_artifact(ref)
    except StoreError:
        return store.peek_artifact(ref)


def _write(path: Path, body: bytes) -> None:
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(body)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error


def _line(artifact: Artifact) -> str:
    where = f"session {artifact.session[:8]}" + ("" if artifact.turn is None else f", turn {artifact.turn}")
    what = artifact.kind.replace("_", " ") + ("" if artifact.name is None else f" {one_line(artifact.name, 100)}")
    return f"{artifact.id[:8]}  {artifact.size:>11,} bytes  {where}: {what}"
