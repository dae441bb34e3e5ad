"""The prompt and the choosing flags that `ask` and `plan` share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from orchestrator.cli.front import Front
from orchestrator.errors import UsageError
from orchestrator.messages import well_formed
from orchestrator.routing import Choice
from orchestrator.session import Role
from orchestrator.tags import MAX_BODY

MAX_FILE = 1024 * 1024
"""Bytes of one attached file: the budget of any agent is far below, and what has no end is not read to it."""

_PIPED = Path("-")

Command = TypeVar("Command", bound=Callable[..., Any])


def choice_options(command: Command) -> Command:
    """`--primary`, `--escalate`, `--agent`, `--reason`, `--fresh`, `--file`."""
    options = (
        click.option("--primary", is_flag=True, help="By the primary agent."),
        click.option("--escalate", is_flag=True, help="By the escalation agent, or the one whose question is open."),
        click.option("--agent", metavar="NAME", help="By this agent; the primary's name means primary, any other escalation."),
        click.option("--reason", metavar="TEXT", help="Why the turn is handed over: what the agent should know first."),
        click.option("--fresh", is_flag=True, help="Let the escalation agent start afresh."),
        click.option(
            "--file",
            "files",
            type=click.Path(path_type=Path, allow_dash=True),
            multiple=True,
            metavar="PATH",
            help="A text file to go with the prompt; `-` for what is piped in.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def choice_of(flags: Mapping[str, Any]) -> Choice:
    """What the flags choose. Raises `UsageError` where they contradict each other."""
    if flags["primary"] and flags["escalate"]:
        raise UsageError("--primary and --escalate contradict each other", hint="give one of them")
    reason = flags["reason"] or ""
    if len(reason) > MAX_BODY:
        raise UsageError(f"--reason has at most {MAX_BODY:,} characters, this one has {len(reason):,}", hint="say it shorter, or send it along with --file")
    role = Role.PRIMARY if flags["primary"] else Role.ESCALATION if flags["escalate"] else None
    return Choice(role, flags["agent"])


Attached = tuple[tuple[str, bytes], ...]
"""Files that go with a prompt: name and content."""


def prompt_text(front: Front, words: Sequence[str], files: Sequence[Path] = (), *, default: str = "") -> tuple[str, Attached]:
    """The prompt from the arguments, or from what is piped in, with the files that go with it, and these; what is no valid text is replaced and said."""
    if _PIPED in files and not words and not default:
        raise UsageError(
            "--file - attaches what is piped in, so the prompt has to be given", hint='as in: make 2>&1 | escalera ask --file - "why does it fail?"'
        )
    raw = (" ".join(words) if words or _PIPED in files else _piped()) or default
    text = well_formed(raw)
    if text != raw:
        front.output.notice("the prompt held characters that are no valid text; they were replaced by U+FFFD")
    if not text.strip():
        raise UsageError("the prompt is empty", hint='give one: escalera ask "…", or pipe it in')
    return with_files(text, files)


def with_files(text: str, files: Sequence[Path]) -> tuple[str, Attached]:
    """The prompt with the files that go with it, and these. Raises `UsageError` for one that cannot go."""
    if not files:
        return text, ()
    from orchestrator.attachments import with_attachments

    read = [_read(path) for path in files]
    return with_attachments(text, read), tuple((name, content) for name, content, _ in read)


def read_input(file: Path) -> bytes:
    """The bytes of a file that a command takes in, of stdin for `-`. Raises `UsageError` for one that cannot be read."""
    try:
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from error


def _piped() -> str:
    if sys.stdin is None or sys.stdin.isatty():
        return ""
    return sys.stdin.buffer.read().decode("utf-8", "surrogateescape").rstrip("\r\n")


def _read(path: Path) -> tuple[str, bytes, str]:
    """A file's name, content and text. Raises `UsageError` for what cannot be read as text."""
    name = "standard input" if path == _PIPED else str(path)
    try:
        with sys.stdin.buffer if path == _PIPED else path.open("rb") as file:
            content = file.read(MAX_FILE + 1)
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot attach {name}: {getattr(error, 'strerror', None) or error}") from error
    if len(content) > MAX_FILE:
        raise UsageError(f"cannot attach {name}: it has more than {MAX_FILE:,} bytes", hint="attach the part that matters")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"cannot attach {name}: it is no UTF-8 text (byte {error.start})", hint="only text goes with a prompt") from error
    if "\0" in text:
        raise UsageError(f"cannot attach {name}: it is no text but holds a NUL character", hint="only text goes with a prompt")
    return name, content, text
