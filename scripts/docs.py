"""Writes the references that come from the code: settings, commands, hooks, schemas. `--check` fails where one is out of date."""

from __future__ import annotations

import argparse
import ast
import inspect
import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import click
from decisions import modes_page
from seam import seam_page

from orchestrator import hookspecs
from orchestrator.cli.app import root
from orchestrator.documents.config_schema import config_schema
from orchestrator.documents.schemas import schemas
from orchestrator.plugins import DISTRIBUTIONS, PluginManager, installed_entry_points
from orchestrator.settings.declarations import reference_table
from orchestrator.testing.conformance import Harness
from orchestrator.testing.conformance.checks import CHECKS

DOCS = Path(__file__).resolve().parent.parent / "docs"
NOTE = "<!-- Written by scripts/docs.py: change the code, then run it. -->\n"
HOOKS = """\
What a plugin can implement, in the order of a program's life. A hook is a function with the hook's name, marked with `@hookimpl`, in the module (or on the
object) that the entry point names. It takes those of the arguments that it needs, by name; hooks grow by new arguments only.

Each implementation is called on its own, in the order of the distributions' names, whatever `tryfirst` and `trylast` say; wrappers are refused. What one
raises, or returns wrongly, is a notice that names the plugin, its distribution and the place, not what the error said, which might hold a secret: the turn
goes on, and so do the other plugins. With `plugins.strict` it keeps the turn from being sent. `escalera plugins list` says which hooks a plugin
implements.
"""

KIT = """\
What the [provider kit](provider-kit.md) asks of a harness, and what it makes of a provider. A check is not made where one that stands under "after" was
not passed: it would only say the same again.
"""

ABOUT_SETTINGS = """\
Each can be set in the user's file (`config.toml` in the folder that `escalera paths` names), in the project's `escalera.toml`, by its variable, by its
flag before the command, and by `--set PATH=VALUE`; the later of these goes before the earlier. `escalera settings get PATH` says what counts and why.
`escalera settings set PATH VALUE` and `unset PATH` change that one key of the user's file, or with `--project` of the project's, and leave every other
byte as it is; a value that no file could hold is refused, and so is a change to a file that does not parse. In a path a name that has a dot itself stands in
quotes, as in `'agents.x.headers."X.Team"'`.

Durations have a unit (`500ms`, `120s`, `30m`, `24h`, `14d`); sizes may have one (`2KiB`, `4kB`). A secret is `{ env = "NAME" }`,
`{ cmd = ["program", "argument"] }` or `{ keyring = "service/name" }` (with the package `keyring`), or a text in a file that nobody else reads.

A project file that came with a clone sets what is harmless and no more until `escalera trust` has shown what else it says and you have accepted it;
one changed byte asks again, but for your own `settings set --project`, which keeps a file accepted that was. Accepted with it, byte for byte, are the
programs, scripts and configurations in its folder that it names (what a program keeps in a file that it is given stops nothing: [tools.md](tools.md)), the
project's `AGENTS.md` and templates, and what Claude Code would go by on its own account: `.claude/settings.json`, `.claude/settings.local.json` and
`.mcp.json`, also in folders above. Without that, Claude Code runs with your own settings alone.

Even then no secret of yours goes to an address that only the project's file gives, be it a `base_url`, an `endpoint_url`, the `url` of a server or a variable
such as `ANTHROPIC_BASE_URL` or `AWS_ENDPOINT_URL`, also in JSON behind `--settings` or in
`.claude/settings.json`: neither one of your files, nor what a provider signs in with by itself. A secret that the project's file names goes there.

Agents have tables of their own (`[agents.NAME]`), and so have MCP servers (`[mcp_servers.NAME]`, [tools.md](tools.md)).

Editors that know TOML schemas complete and check both files with [schemas/config.json](schemas/config.json), for instance by a first line
`#:schema PATH/config.json`.
"""


def main() -> int:
    """Write all references, or with `--check` say which differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = [path for path, text in _references() if not path.exists() or path.read_text("utf-8") != text]
    if check:
        for path in stale:
            sys.stderr.write(f"{path.relative_to(DOCS.parent)} is out of date: run python scripts/docs.py\n")
        return 1 if stale else 0
    for path, text in _references():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return 0


def _references() -> Iterator[tuple[Path, str]]:
    yield DOCS / "settings.md", f"# Settings\n\n{NOTE}\n{ABOUT_SETTINGS}\n{reference_table().rstrip()}\n"
    yield DOCS / "commands.md", f"# Commands\n\n{NOTE}\n" + "\n".join(_commands(root, "escalera", None))
    yield DOCS / "modes.md", f"# Modes\n\n{NOTE}\n{modes_page()}"
    yield DOCS / "hooks.md", f"# Hooks\n\n{NOTE}\n{HOOKS}\n" + "\n".join(_hooks())
    yield DOCS / "provider-checks.md", f"# Situations and checks\n\n{NOTE}\n{KIT}\n" + "\n".join((*_situations(), *_checks()))
    yield DOCS / "provider-seam.md", f"# What passes the seam\n\n{NOTE}\n{seam_page().rstrip()}\n"
    kinds = PluginManager.load(installed_entry_points()).kinds()
    for name, schema in {**schemas(), "config": config_schema(kinds[kind] for kind in DISTRIBUTIONS)}.items():
        yield DOCS / "schemas" / f"{name}.json", json.dumps(schema, indent=2, ensure_ascii=False, sort_keys=True) + "\n"


def _commands(command: click.Command, path: str, parent: click.Context | None) -> Iterator[str]:
    context = click.Context(command, info_name=path.rpartition(" ")[2], parent=parent, terminal_width=110, max_content_width=110)
    yield f"## `{path}`\n\n```\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None and not found.hidden:
                yield from _commands(found, f"{path} {name}", context)


def _situations() -> Iterator[str]:
    """What a harness tells and plays: every method and every setting of its base class."""
    yield "## What a harness says of itself\n\n| name | default | meaning |\n| --- | --- | --- |"
    body = ast.parse(inspect.getsource(Harness)).body[0].body  # type: ignore[attr-defined]  # it is a class
    for declared, about in itertools.pairwise(body):
        if isinstance(declared, ast.AnnAssign) and declared.value is not None and isinstance(about, ast.Expr):
            meaning = " ".join(ast.literal_eval(about.value).split())
            yield f"| `{ast.unparse(declared.target)}` | `{ast.unparse(declared.value)}` | {meaning} |"
    yield "\n## What it tells and plays\n"
    for name, function in vars(Harness).items():
        if inspect.isfunction(function) and not name.startswith("_"):
            signature = str(inspect.signature(function)).replace("''", '""').replace("'", "").replace("(self, ", "(").replace("(self)", "()")
            yield f"### `{name}{signature}`\n\n{inspect.getdoc(function)}\n"


def _checks() -> Iterator[str]:
    yield "## The checks\n\n| check | shows that | after |\n| --- | --- | --- |"
    yield from (f"| `{check.name}` | {check.shows} | {', '.join(f'`{name}`' for name in check.needs)} |" for check in CHECKS)


def _hooks() -> Iterator[str]:
    found = [function for _, function in inspect.getmembers(hookspecs, inspect.isfunction) if hasattr(function, f"{hookspecs.PROJECT}_spec")]
    for function in sorted(found, key=lambda one: one.__code__.co_firstlineno):
        signature = str(inspect.signature(function)).replace("'", "")
        yield f"## `{function.__name__}{signature}`\n\n{inspect.getdoc(function)}\n"


if __name__ == "__main__":
    sys.exit(main())
