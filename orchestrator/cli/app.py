"""The root command: global options, commands that are loaded when they are called, errors in one line."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, Literal, TextIO

import click

from orchestrator import __version__
from orchestrator.cli.output import Output, ReaderGone, discard, write
from orchestrator.cli.streams import OwnOutput
from orchestrator.cli.tree import Suggested
from orchestrator.errors import ConfigError, EscaleraError, InternalError, OutputFailed, UsageError
from orchestrator.settings.declarations import SETTINGS, UNLIMITED, Setting

if TYPE_CHECKING:
    from orchestrator.cli.front import Front

COMMANDS = {
    "ask": "one turn, by the agent that fits",
    "chat": "many turns, typed or piped in",
    "plan": "what the next turn would be and would send",
    "demo": "a guided tour with real inference",
    "session": "list, show, search, export, import, rename, fork, drop",
    "need": "what the user is trying to do: show, set, clear, restore",
    "memory": "remembered facts: list, learn, forget, why, stale, archive, restore, consolidate, import, export",
    "questions": "what agents ask while they work: list, show, answer, watch",
    "permissions": "what tools may do without asking: list, revoke",
    "tasks": "turns in the background: list, show, result, cancel",
    "artifacts": "large answers and tool results, and attached files: list, show",
    "serve": "sessions over HTTP, and the orchestrator as if it were a model",
    "mcp": "the orchestrator as a server for MCP hosts: Claude Code, Cursor and others",
    "tune": "what other limits would have done to your own sessions",
    "usage": "tokens, cache shares and cost",
    "agents": "configured agents: list, check, use, add",
    "plugins": "what is installed, and what failed to load",
    "templates": "the texts that agents are told: list, show, diff",
    "settings": "every setting, its value and where that comes from: list, get, set, unset",
    "trust": "accept a project file as it is now",
    "paths": "the folders that are used",
    "completion": "a completion script for your shell",
    "doctor": "what works on this machine, what does not, and what to do about it",
}


LEAVES_NOTHING = frozenset({"plan", "tune", "paths", "completion", "doctor"})
"""Commands that write nothing of their own accord, not even to the log."""


@dataclass(slots=True)
class _Run:
    """One run of the program, as far as it has come."""

    arguments: Sequence[str]
    own_stdout: OwnOutput | None = None
    front: Front | None = None


class RootGroup(click.Group):
    """Finds each command in a module of its own name, imported only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"orchestrator.cli.{cmd_name}").command
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS:
            raise click.UsageError(f"no such command {args[0]!r}{_nearest(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _setting_option(setting: Setting) -> click.Option:
    words = ("true", "false") if setting.type == "bool" else (UNLIMITED,) if setting.unlimited else ()
    return click.Option([setting.flag], type=Suggested(*words), hidden=True, metavar="VALUE", help=setting.help)


@click.command(
    cls=RootGroup,
    context_settings={"help_option_names": ["--help", "-h"]},
    epilog="Every setting is also a flag here, before the command: `escalera settings list` names them.",
)
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="Use this configuration instead of the user's and the project's file.")
@click.option("--set", "sets", multiple=True, metavar="PATH=VALUE", help="Set any setting, also per agent: agents.NAME.model=…")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Colours on the terminal.")
@click.option("--no-input", is_flag=True, help="Never ask, as without a terminal.")
@click.option("--plain", is_flag=True, help="For screen readers: no cursor movement, no spinner.")
@click.option("--verbose", is_flag=True, help="Show on stderr what goes into the log.")
@click.option("--given-on-stdin", is_flag=True, hidden=True, help="Read the settings of a command line from standard input: how a task is started.")
@click.version_option(__version__, "--version", message="escalera %(version)s")
@click.pass_context
def root(
    ctx: click.Context,
    /,
    config: Path | None,
    sets: tuple[str, ...],
    color: str,
    no_input: bool,
    plain: bool,
    verbose: bool,
    given_on_stdin: bool,
    **flags: str | None,
) -> None:
    """One shared session between a cheap primary agent and a strong escalation agent."""
    from orchestrator.cli.front import Front

    named = {setting.path: value for setting in SETTINGS if setting.flag and (value := flags.get(_parameter(setting))) is not None}
    if given_on_stdin:
        sets, named = _given(sys.stdin)
    output = Output.of(os.environ, ctx.obj.own_stdout if isinstance(ctx.obj, _Run) else None, color=color, no_input=no_input, plain=plain)
    name = ctx.invoked_subcommand or ""
    front = Front(
        environ=os.environ,
        cwd=_working_directory(),
        config_file=config,
        sets=sets,
        flags=named,
        output=output,
        verbose=verbose,
        writes_log=name not in LEAVES_NOTHING,
    )
    if isinstance(ctx.obj, _Run):
        ctx.obj.front = front
        front.log("started", version=__version__, **_called(ctx, name, ctx.obj.arguments))
    ctx.obj = front
    ctx.call_on_close(front.close)


def _given(stream: TextIO) -> tuple[tuple[str, ...], dict[str, str]]:
    """What `Premises.child_input` hands over: the values of `--set`, and settings by their paths."""
    import json

    try:
        given = json.load(stream)
        return tuple(map(str, given["sets"])), {path: str(value) for path, value in given["flags"].items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UsageError("--given-on-stdin is for tasks that Escalera starts by itself", hint="use --set PATH=VALUE") from error


def _called(ctx: click.Context, name: str, arguments: Sequence[str]) -> dict[str, object]:
    """The command and its flags, by their names alone: what was typed beside them may be anything."""
    rest = arguments[arguments.index(name) + 1 :] if name in arguments else ()
    command = root.get_command(ctx, name)
    if isinstance(command, click.Group):
        below = next((word for word in rest if word in command.commands), None)
        name, command = (f"{name} {below}", command.commands[below]) if below is not None else (name, command)
    known = {option for parameter in command.params for option in parameter.opts} if command is not None else set()
    flags = [flag for word in _before_prompt(rest) if (flag := word.partition("=")[0]) in known and flag.startswith("-")]
    return {"command": name, "flags": flags or None}


def _working_directory() -> Path:
    try:
        return Path.cwd()
    except OSError as error:
        raise ConfigError(f"the working directory cannot be used: {error.strerror}", hint="change to a directory that is there") from error


def _parameter(setting: Setting) -> str:
    return setting.flag.removeprefix("--").replace("-", "_")


root.params.extend(_setting_option(setting) for setting in SETTINGS if setting.flag)


def run(arguments: Sequence[str], *, alone: bool = False) -> int:
    """The whole program: the exit code of page 6; every failure is one clear message, never a traceback.

    `alone` says that the process is ours: then what plugins print goes to stderr, however they do it.
    """
    _open_standard_streams()
    this, began = _Run(arguments, OwnOutput.of_process() if alone else None), time.monotonic()
    code = _done(this)
    if this.front is not None:
        this.front.log("ended", exit=code, seconds=round(time.monotonic() - began, 3))
    return code


def _done(this: _Run) -> int:
    wanted = _wanted_json(_before_prompt(this.arguments))
    try:
        result = root.main(args=list(this.arguments), prog_name="escalera", standalone_mode=False, obj=this)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.exceptions.Abort:
        return 130
    except click.ClickException as error:
        return _usage(error, this, wanted)
    except EscaleraError as error:
        if this.front is not None:
            this.front.failed(error)
        return _failed(error, this, wanted)
    except KeyboardInterrupt:
        return 130
    except ReaderGone:
        return 0
    except SystemExit as leaving:
        # So click itself leaves where nobody reads the help page; anything else is code of strangers that wanted to end the program.
        return 0 if _raised_in(leaving) == "click.core" else _crashed(leaving, this, wanted)
    except OSError as error:  # a help page that cannot be written; everything else is printed by us
        discard(sys.stdout)
        return _failed(OutputFailed(f"the output cannot be written: {error.strerror or error}"), this, None)
    except Exception as fault:  # whatever it is: the user gets one line, and the log the rest
        return _crashed(fault, this, wanted)
    return result if isinstance(result, int) else 0


def _raised_in(error: BaseException) -> object:
    """The name of the module whose own line raised it."""
    innermost = None
    for frame, _ in walk_tb(error.__traceback__):
        innermost = frame
    return None if innermost is None else innermost.f_globals.get("__name__")


def _crashed(fault: BaseException, this: _Run, wanted: Literal["document", "lines"] | None) -> int:
    from orchestrator.cli.front import Front

    output = Output.of(os.environ, this.own_stdout, color="never", no_input=True, plain=True)
    front = this.front or Front(environ=os.environ, cwd=Path(), config_file=None, sets=(), flags={}, output=output)
    file = front.crashed(fault)
    if file is None:
        import traceback

        Output.notice(front.masked("".join(traceback.format_exception(fault))))
    where = "its traceback stands above, since the log cannot be written" if file is None else f"its traceback is in {file}"
    error = InternalError(f"a fault in Escalera itself ({type(fault).__name__}); {where}", hint="`escalera doctor --bundle FILE` collects what a report needs")
    return _failed(error, this, wanted)


def _open_standard_streams() -> None:
    """A stream that our parent closed is a null device: nothing is None, and no file of ours gets its descriptor."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  # open for as long as the program runs


def _wanted_json(arguments: Sequence[str]) -> Literal["document", "lines"] | None:
    return "lines" if "--stream-json" in arguments else "document" if "--json" in arguments else None


def _before_prompt(arguments: Sequence[str]) -> Sequence[str]:
    return arguments[: arguments.index("--")] if "--" in arguments else arguments


def _usage(error: click.ClickException, this: _Run, wanted: Literal["document", "lines"] | None) -> int:
    text = error.format_message()
    if isinstance(error, click.NoSuchOption):
        known = error.possibilities or _options_of(error.ctx)
        text = f"no such option {error.option_name!r}{_nearest(error.option_name, known)}"
    return _failed(UsageError(text[:1].lower() + text[1:].rstrip(".")), this, wanted)


def _options_of(ctx: click.Context | None) -> list[str]:
    return [option for parameter in ctx.command.params for option in parameter.opts] if ctx else []


def _nearest(word: str, known: Any) -> str:
    matches = difflib.get_close_matches(word, list(known), n=5, cutoff=0.5)
    matches.sort(key=lambda match: sorted(match) != sorted(word))  # two letters that changed places are the likeliest slip
    return f"; did you mean {matches[0]!r}?" if matches else ""


def _failed(error: EscaleraError, this: _Run, wanted: Literal["document", "lines"] | None) -> int:
    if wanted is not None:
        _print_error(error, this.own_stdout or sys.stdout, as_line=wanted == "lines")
    Output.notice(f"escalera: {error.message}" + (f" ({error.hint})" if error.hint else ""))
    return error.exit_code


def _print_error(error: EscaleraError, stdout: TextIO, *, as_line: bool) -> None:
    from orchestrator.documents.error import error_document
    from orchestrator.documents.json_text import json_text

    if not as_line:
        write(stdout, json_text(error_document(error)))
        return
    from orchestrator.documents.stream import error_line

    write(stdout, json_text(error_line(error_document(error)), indent=None))
