"""`escalera permissions`: what tools may do without asking, and taking that back (docs/tools.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from orchestrator.cli.front import Front
from orchestrator.errors import UsageError
from orchestrator.settings.grants import Grant

if TYPE_CHECKING:
    from orchestrator.documents.kinds.permissions import PermissionObject, PermissionsDocument
    from orchestrator.permissions import Effect, Rule

json_option = click.option("--json", "as_json", is_flag=True, help="Print the document.")


@click.group("permissions")
def command() -> None:
    """What tools may do without asking: rules of the settings, and what you allowed when you were asked."""


@command.command("list")
@json_option
@click.pass_obj
def list_(front: Front, as_json: bool) -> None:
    """All of them, those that go before others first: deny, ask, allow. What you allowed has an id."""
    found = [*_of_settings(front), *map(_object, front.grants.list())]
    _print(front, found, as_json, none="no permission is kept, and no rule is set: tools ask before they write or run anything")


@command.command("revoke")
@click.argument("refs", nargs=-1, metavar="[ID …]")
@click.option("--all", "everything", is_flag=True, help="Everything that you allowed when you were asked.")
@json_option
@click.pass_obj
def revoke(front: Front, refs: Sequence[str], everything: bool, as_json: bool) -> None:
    """Take back what you allowed: from the next call on it is asked about again."""
    if bool(refs) == everything:
        raise UsageError("name the permissions to take back, or use --all", hint="`escalera permissions list` has their ids")
    gone = front.grants.revoke([grant.id for grant in front.grants.list()] if everything else refs)
    _print(front, list(map(_object, gone)), as_json, none="nothing was allowed")


def _of_settings(front: Front) -> Iterator[PermissionObject]:
    """The rules, as they are written where they stand; one that is none is an error here as everywhere."""
    rules = front.permissions
    effects: Sequence[tuple[Effect, Sequence[Rule]]] = (("deny", rules.deny), ("ask", rules.ask), ("allow", rules.allow))
    for effect, found in effects:
        source = front.settings.explain(f"permissions.{effect}").source
        for rule in found:
            yield {
                "id": None,
                "effect": effect,
                "rule": str(rule),
                "agent": None,
                "workspace": None,
                "session": None,
                "source": source,
                "created": None,
            }


def _object(grant: Grant) -> PermissionObject:
    return {
        "id": grant.id,
        "effect": "allow",
        "rule": grant.rule,
        "agent": grant.agent,
        "workspace": grant.workspace,
        "session": grant.session,
        "source": "asked",
        "created": grant.created,
    }


def _print(front: Front, found: list[PermissionObject], as_json: bool, *, none: str) -> None:
    if as_json:
        document: PermissionsDocument = {"format": "escalera.permissions/1", "permissions": found}
        front.output.print_json(document)
        return
    for item in found:
        front.output.say(_line(item))
    if not found:
        front.output.say(none)


def _line(item: PermissionObject) -> str:
    if item["id"] is None:
        return f"{'–':8}  {item['effect']:5}  {item['rule']}  ({item['source']})"
    session = "" if item["session"] is None else f", session {item['session'][:8]}"
    return f"{item['id'][:8]}  {item['effect']:5}  {item['rule']}  ({item['agent']} in {item['workspace']}{session})"
