"""`escalera doctor`: what works on this machine, what does not, and what to do about it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator.cli.bundle import write_bundle
from orchestrator.cli.diagnosis import Finding, diagnose, read_plugins, read_settings
from orchestrator.cli.front import Front
from orchestrator.cli.survey import survey
from orchestrator.errors import ConfigError, UsageError
from orchestrator.probes.starting import starting_configuration
from orchestrator.store.files import make_folder

if TYPE_CHECKING:
    from orchestrator.documents.kinds.agents import FindingArea
    from orchestrator.documents.kinds.diagnosis import BundleObject, DoctorDocument, FindingObject

_TITLES: dict[FindingArea, str] = {
    "roles": "Who answers",
    "configuration": "Configuration",
    "servers": "Model servers on this machine",
    "claude": "Claude Code",
    "aws": "Amazon Bedrock",
    "keys": "API keys in the environment",
    "embedded": "Embedded model",
    "plugins": "Plugins",
    "store": "Store",
    "processes": "Processes",
}


@click.command("doctor")
@click.option("--write", is_flag=True, help="Write a configuration to start with, made of what was found; a file that is there is left alone.")
@click.option("--server", "servers", multiple=True, metavar="URL", help="Ask this model server instead of the usual local ones; may be repeated.")
@click.option(
    "--bundle", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Put what a bug report needs into a zip file; secrets are masked."
)
@click.option("--with-wire", is_flag=True, help="Also what the last turns sent and received: prompts and answers are in it.")
@click.option("--json", "as_json", is_flag=True, help="Print the document.")
@click.pass_obj
def command(front: Front, write: bool, servers: tuple[str, ...], bundle: Path | None, with_wire: bool, as_json: bool) -> int:
    """What works here, what does not, and the next step for each.

    Looks for local model servers, Claude Code, AWS credentials, API keys (by name), the embedded model, plugins, configuration
    files, the store, which is checked in full, and processes left behind. Contacts nothing beyond this machine, starts no model
    and spends no tokens. Ends with 0 when both the primary and the escalation agent can work, else with 1.
    """
    if with_wire and bundle is None:
        raise UsageError("--with-wire says what goes into a bundle", hint="name the file with --bundle FILE")
    settings, problems = read_settings(front)
    plugins = read_plugins(front, settings)
    found = survey(front, settings, plugins, servers=servers)
    suggestion = starting_configuration(found.found)
    file = front.paths.user_file
    written = write and suggestion is not None and write_new(file, suggestion)
    if written:
        front = front.afresh()
        settings, problems = read_settings(front)
    try:
        findings = diagnose(front, settings, problems, plugins, found)
    finally:
        front.close()
    ok = all(finding.status in ("works", "ready") for finding in findings if finding.area == "roles")
    document = _document(findings, ok=ok, suggestion=suggestion, file=file, written=written)
    if bundle is not None:
        claude = found.kinds["claude-cli"]
        contents = write_bundle(front, bundle, document, settings, problems, plugins, claude=claude.detail if claude else "", wire=with_wire)
        document["bundle"] = {"file": str(bundle), "contents": contents}
    if as_json:
        front.output.print_json(document)
    else:
        _print(front, findings, ok=ok)
        _print_suggestion(front, suggestion, file, written=written, wanted=write)
        _print_bundle(front, document["bundle"], with_wire=with_wire)
    return 0 if ok else 1


def write_new(path: Path, text: str) -> bool:
    """Write a file that was not there, all of it or nothing, for the user alone; `False` where something is there already.

    Raises `ConfigError` where it cannot be written.
    """
    if os.path.lexists(path):
        return False
    try:
        make_folder(path.parent)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".config-")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            return _placed(name, path)
        finally:
            os.unlink(name)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}", hint="set ESCALERA_HOME to a folder that can be written") from error


def _placed(name: str, path: Path) -> bool:
    """Give a file its name, unless another process was quicker: unlike a renaming, a link never replaces anything."""
    try:
        os.link(name, path)
    except FileExistsError:
        return False
    return True


def _document(findings: Sequence[Finding], *, ok: bool, suggestion: str | None, file: Path, written: bool) -> DoctorDocument:
    return {
        "format": "escalera.doctor/1",
        "ok": ok,
        "findings": [_finding_object(finding) for finding in findings],
        "user_file": str(file),
        "suggestion": suggestion,
        "written": written,
        "bundle": None,
    }


def _finding_object(finding: Finding) -> FindingObject:
    return {"area": finding.area, "name": finding.name, "status": finding.status, "detail": finding.detail, "next": finding.next}


def _print(front: Front, findings: Sequence[Finding], *, ok: bool) -> None:
    for area, group in groupby(findings, key=lambda finding: finding.area):
        front.output.heading(_TITLES[area])
        for finding in group:
            front.output.say(f"  {finding.status.ljust(7)}  {finding.name}: {finding.detail}")
            if finding.next:
                front.output.say(f"           next: {finding.next}")
        front.output.say()
    front.output.say("The primary and the escalation agent can work." if ok else "Not both the primary and the escalation agent can work yet; see the top.")


def _print_suggestion(front: Front, suggestion: str | None, file: Path, *, written: bool, wanted: bool) -> None:
    if written:
        front.output.say(f"Written to {file}:")
    elif not wanted:
        if suggestion is not None and not os.path.lexists(file):
            front.output.say("To begin with what was found here: escalera doctor --write")
        return
    elif suggestion is None:
        front.output.notice("nothing was found that a primary agent could be made of, so nothing was written")
        return
    else:
        front.output.notice(f"{file} is there already and was left as it is; otherwise this would have been written:")
    front.output.say()
    front.output.say((suggestion or "").rstrip("\n"))


def _print_bundle(front: Front, bundle: BundleObject | None, *, with_wire: bool) -> None:
    if bundle is None:
        return
    front.output.say()
    front.output.say(f"Written to {bundle['file']}, with secrets masked:")
    for part in bundle["contents"]:
        front.output.say(f"  {part['bytes']:9,} bytes  {part['name']}")
    said = "Prompts and answers of the last turns are in it (--with-wire)" if with_wire else "No prompt and no answer is in it"
    front.output.say(f"{said}. Look through it before you send it to somebody.")
