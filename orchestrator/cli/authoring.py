"""`escalera plugins check` and `new`: for authors of providers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from orchestrator import __version__
from orchestrator.cli.front import Front

if TYPE_CHECKING:
    from orchestrator.documents.kinds.plugins import ConformanceDocument


@click.command("check")
@click.argument("kind")
@click.option("--json", "as_json", is_flag=True, help="Print the document.")
@click.pass_obj
def check(front: Front, kind: str, as_json: bool) -> int:
    """Run the provider kit's conformance suite against one installed provider kind.

    Its backend is a scripted stand-in on this machine: no key, no vendor's program and no network are needed. What the provider does not
    claim to do is `not claimed`, what its harness cannot play is `not shown`. Exit code 0 where nothing failed, 1 otherwise.
    """
    from orchestrator.testing.conformance.engine import Conformance
    from orchestrator.testing.conformance.subject import harness_named, installed_subject

    subject = installed_subject(kind, front.found_plugins())
    suite = Conformance(harness_named(kind), subject)
    if as_json:
        report = suite.report()
        front.output.print_json(cast("ConformanceDocument", report.document()))
    else:
        report = suite.report(lambda result: front.output.say(result.row(suite.width)))
        front.output.say(report.summary)
    return 0 if report.ok else 1


@click.command("new")
@click.argument("name")
@click.option("--http", "style", flag_value="http", default=True, help="Its backend is a server that is asked over HTTP; the default.")
@click.option("--subprocess", "style", flag_value="subprocess", help="Its backend is a program that is started for each turn.")
@click.option("--json", "as_json", is_flag=True, help="Print the document.")
@click.pass_obj
def new(front: Front, name: str, style: str, as_json: bool) -> None:
    """Write a whole package for a new provider kind NAME into the folder escalera-NAME, here.

    It has a provider, its tests with the provider kit, a README and a workflow for CI, and passes as it is written. Nothing is written
    where that folder holds anything.
    """
    from orchestrator.errors import UsageError
    from orchestrator.hookspecs import API_LEVEL
    from orchestrator.plugins import DISTRIBUTIONS
    from orchestrator.scaffold import Style, write_package

    if name in DISTRIBUTIONS or f"escalera-{name}" in DISTRIBUTIONS.values():
        raise UsageError(f"{name} is a kind of Escalera's own", hint="choose another name")
    folder, files = write_package(name, cast("Style", style), Path(front.cwd), version=__version__, api_level=API_LEVEL)
    if as_json:
        front.output.print_json({"format": "escalera.package/1", "folder": str(folder), "kind": name, "files": list(files)})
        return
    front.output.say(f"{folder} has a provider kind {name}, whose tests pass. Begin with {folder.name}/{files[3].partition('/')[0]}/protocol.py.")
    front.output.say(f"to try it: cd {folder.name} && uv sync && uv run pytest && uv run escalera plugins check {name}")
