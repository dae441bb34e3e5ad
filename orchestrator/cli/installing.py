"""`escalera plugins install|remove|sync`: plugins beside the program, whichever way that was installed, and kept through its upgrades."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator.cli.front import Front
from orchestrator.errors import ConfigError, NotFound, PluginError, UsageError
from orchestrator.settings.hiding import has_written_secret, masked

if TYPE_CHECKING:
    from orchestrator.installing import Command, Installation, Missing

WANTED = "plugins.wanted"

dry_run = click.option("--dry-run", is_flag=True, help="Print the command, and change nothing.")


@click.command("install")
@click.argument("name")
@dry_run
@click.pass_obj
def install(front: Front, name: str, dry_run: bool) -> int:
    """Install the plugin NAME beside the program, and want it from now on.

    NAME is a distribution, as in `escalera-acme` or `escalera-acme>=2`, a wheel, or a project's folder. The command fits the way in which
    escalera was installed: uv tool, pipx, or an environment's own pip; it is printed before it runs.
    """
    from orchestrator.installing import adding, distribution_of, names, removing, requirement_of

    requirement = requirement_of(name, front.cwd)
    if has_written_secret(WANTED, requirement):
        raise UsageError("a password in an address is kept in the clear by every tool that installs it", hint="have pip or uv find it, as in ~/.netrc")
    distribution = distribution_of(requirement)
    if not _run(front, adding(_here(), [requirement]), dry_run=dry_run):
        return 0 if dry_run else 1
    if distribution not in _plugins_now():
        raise PluginError(f"{distribution} is installed, and is no plugin of escalera", hint=str(removing(_here(), [distribution])))
    _want(front, [*(text for text in _own_wanted(front) if not names(text, distribution)), requirement])
    return 0


@click.command("remove")
@click.argument("name")
@dry_run
@click.pass_obj
def remove(front: Front, name: str, dry_run: bool) -> int:
    """Remove the plugin NAME, and want it no longer."""
    from orchestrator.installing import distribution_of, names, removing

    distribution = distribution_of(name)
    left = [text for text in _own_wanted(front) if not names(text, distribution)]
    is_wanted, versions = left != list(_own_wanted(front)), _versions()
    if distribution == "escalera" or (distribution in versions and not is_wanted and distribution not in _plugins_now()):
        raise PluginError(f"{distribution} is no plugin of escalera")
    if distribution not in versions and not is_wanted:
        raise NotFound(f"there is no plugin {distribution}", hint="escalera plugins list")
    if distribution in versions and not _run(front, removing(_here(), [distribution]), dry_run=dry_run):
        return 0 if dry_run else 1
    if is_wanted and not dry_run:
        _want(front, left)
    return 0


@click.command("sync")
@dry_run
@click.pass_obj
def sync(front: Front, dry_run: bool) -> int:
    """Install every wanted plugin that is missing, as after an upgrade or on a new machine."""
    from orchestrator.installing import adding

    gone = missing_plugins(front)
    if not gone:
        front.output.notice("every wanted plugin is installed")
        return 0
    unusable = [one for one in gone if not one.can_be_had]
    for one in unusable:
        front.output.notice(f"{WANTED}: {one.shown!r} {one.problem}")
    had = [one.requirement for one in gone if one.can_be_had]
    if had and not _run(front, adding(_here(), had), dry_run=dry_run):
        return 0 if dry_run and not unusable else 1
    return 1 if unusable else 0


def missing_plugins(front: Front) -> list[Missing]:
    """The wanted plugins that are not there as wanted."""
    from orchestrator.installing import missing

    wanted = _wanted(front)
    return missing(wanted, _versions()) if wanted else []


def _wanted(front: Front) -> Sequence[str]:
    return front.settings.value(WANTED) or ()


def _own_wanted(front: Front) -> Sequence[str]:
    """What the user's own file wants: only that is written there again, whatever else counts here."""
    own = f"file:{front.sources.user_file}"
    wanted = next((layer.settings.get(WANTED) for layer in front.settings.layers if layer.source == own), None)
    return wanted if isinstance(wanted, tuple) else ()


def _want(front: Front, requirements: Sequence[str]) -> None:
    from orchestrator.edits import edited
    from orchestrator.settings.editing import edit, unsetting_key

    text = json.dumps(requirements, ensure_ascii=False)
    try:
        if requirements:
            edited(front, {WANTED: text}, project=False)
        else:
            edit(front.sources, unsetting_key(WANTED))
    except ConfigError as error:
        raise ConfigError(
            f"it is done, but cannot be noted: {error.message}",
            hint=f"add it to the user's file by hand: {WANTED} = {json.dumps(masked(WANTED, list(requirements)), ensure_ascii=False)}",
        ) from error


def _run(front: Front, command: Command, *, dry_run: bool) -> bool:
    """Whether it was run; else it is printed for the user to run. Raises `PluginError` when it fails."""
    import subprocess
    import sys

    if dry_run or command.why_not is not None:
        front.output.say(_shown(command))
        if command.why_not is not None:
            front.output.notice(f"not run, since {command.why_not}")
        return False
    front.output.notice(_shown(command))
    try:
        code = subprocess.run(command.argv, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False).returncode
    except OSError as error:
        raise PluginError(f"{command.argv[0]} cannot be started: {error.strerror}") from error
    if code != 0:
        raise PluginError(f"the command failed with exit code {code}: {_shown(command)}", hint="what it said stands above")
    return True


def _shown(command: Command) -> str:
    import shlex

    return shlex.join(masked("", list(command.argv)))


def _here() -> Installation:
    import shutil
    import sys
    import sysconfig
    from importlib.util import find_spec

    from orchestrator.installing import installation

    return installation(
        prefix=Path(sys.prefix),
        base_prefix=Path(sys.base_prefix),
        standard_library=Path(sysconfig.get_path("stdlib")),
        python=sys.executable,
        has_pip=find_spec("pip") is not None,
        which=shutil.which,
    )


def _versions() -> Mapping[str, str]:
    """What is installed, by the normal form of its name."""
    from importlib.metadata import distributions

    from packaging.utils import canonicalize_name

    named = ((distribution.name, distribution.version) for distribution in distributions())
    return {canonicalize_name(name): version for name, version in named if name and version}


def _plugins_now() -> set[str]:
    """The distributions that have plugins, as a process of its own finds them: this one has looked before."""
    import subprocess
    import sys

    found = subprocess.run([sys.executable, "-c", _LOOK], capture_output=True, text=True, check=False)
    if found.returncode != 0:  # what was installed may have put another version of a library in the place of ours
        last = found.stderr.strip().rpartition("\n")[2]
        raise PluginError(
            f"the program cannot start any more with what is installed now: {last}", hint="what was installed last is in its way: take it out again"
        )
    return set(json.loads(found.stdout))


_LOOK = """
import json
from packaging.utils import canonicalize_name
from orchestrator.plugins import installed_entry_points
print(json.dumps(sorted({canonicalize_name(entry.dist.name) for entry in installed_entry_points()})))
"""
