"""The prompt and the choosing flags that `ask` and `plan` share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from orchestrator.cli.front import Front
from orchestrator.errors import UsageError
from orchestrator.messages import well_formed
from orchestrator.routing import Choice
from orchestrator.session import Role

Command = TypeVar("Command", bound=Callable[..., Any])


def choice_options(command: Command) -> Command:
    """`--primary`, `--escalate`, `--agent`, `--reason`, `--fresh`."""
    options = (
        click.option("--primary", is_flag=True, help="By the primary agent."),
        click.option("--escalate", is_flag=True, help="By the escalation agent, or the one whose question is open."),
        click.option("--agent", metavar="NAME", help="By this agent; the primary's name means primary, any other escalation."),
        click.option("--reason", metavar="TEXT", help="Why the turn is handed over: what the agent should know first."),
        click.option("--fresh", is_flag=True, help="Let the escalation agent start afresh."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def choice_of(flags: Mapping[str, Any]) -> Choice:
    """What the flags choose. Raises `UsageError` where they contradict each other."""
    if flags["primary"] and flags["escalate"]:
        raise UsageError("--primary and --escalate contradict each other", hint="give one of them")
    role = Role.PRIMARY if flags["primary"] else Role.ESCALATION if flags["escalate"] else None
    return Choice(role, flags["agent"])


def prompt_text(front: Front, words: Sequence[str], *, default: str | None = None) -> str:
    """The prompt from the arguments, or from what is piped in; what is no valid text is replaced and said."""
    raw = " ".join(words) if words else _piped(default)
    text = well_formed(raw)
    if text != raw:
        front.output.notice("the prompt held characters that are no valid text; they were replaced by U+FFFD")
    if not text.strip():
        raise UsageError("the prompt is empty", hint='give one: escalera ask "…", or pipe it in')
    return text


def _piped(default: str | None) -> str:
    if default is not None and (sys.stdin is None or sys.stdin.isatty()):
        return default
    if sys.stdin is None or sys.stdin.isatty():
        return ""
    return sys.stdin.buffer.read().decode("utf-8", "surrogateescape").rstrip("\r\n")
