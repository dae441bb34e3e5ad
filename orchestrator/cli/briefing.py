"""Letting the user see and change the brief of an escalation turn, in an editor, before anything is sent (page 6)."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from orchestrator.context.orientation import brief_of
from orchestrator.errors import Cancelled, ConfigError, UsageError
from orchestrator.messages import well_formed
from orchestrator.planning.plan import Plan
from orchestrator.quoting import one_line, plain
from orchestrator.tags import MAX_BODY

Edit = Callable[[str], str]
"""Lets the user edit a text. Raises `Cancelled` where the editor fails, `ConfigError` where there is none."""

_LINE = "# >8 ----------------------------------------------------------------"


def edited_brief(plan: Plan, edit: Edit) -> str:
    """The brief of the planned escalation turn as the user leaves it. Raises `Cancelled` for an empty one, `UsageError` for one that is too long."""
    given = plan.brief.text if plan.brief is not None else brief_of(plan.wish.prompt)
    line = _LINE
    while line in given:
        line = f"#{line}"
    above, _, _ = edit(_page(plan, plain(given).strip(), line)).partition(line)
    brief = well_formed(above).strip()
    if not brief:
        raise Cancelled("the brief was left empty, so nothing was sent")
    if len(brief) > MAX_BODY:
        raise UsageError(
            f"a brief has at most {MAX_BODY:,} characters, this one has {len(brief):,}; nothing was sent", hint="say it shorter, or send it along with --file"
        )
    return brief


def _page(plan: Plan, brief: str, line: str) -> str:
    """The brief, and under a line that ends it everything that is told beside it."""
    whom = f"{one_line(plan.agent.name, 60)!r} (turn {plan.index}, {plan.mode})"
    told = "\n".join(f"# {each}".rstrip() for each in plain(plan.texts.orientation).splitlines())
    return (
        f"{brief}\n\n{line}\n"
        f"# What stands above this line is told to {whom} as the reason why it has this turn.\n"
        "# Save and leave the editor to send it; leave nothing above the line to send nothing.\n"
        f"# As it is planned now, the agent is told, beside what always stays the same and the history:\n#\n{told}\n"
    )


def editor_of(environ: Mapping[str, str], cwd: Path, stdout: TextIO) -> Edit:
    """The user's editor, for one text after the other; it draws on the terminal that `stdout` leads to."""

    def edit(text: str) -> str:
        program = (environ.get("VISUAL") or "").strip() or (environ.get("EDITOR") or "").strip()
        if not program:
            raise ConfigError("neither VISUAL nor EDITOR names an editor, so the brief cannot be edited", hint="as in: export EDITOR=nano")
        with tempfile.TemporaryDirectory(prefix="escalera-") as folder:  # only its owner can look into it
            file = Path(folder) / "BRIEF.md"
            file.write_text(text, "utf-8", "replace")
            _run(program, file, environ, cwd, stdout)
            try:
                return file.read_text("utf-8-sig", "replace")
            except FileNotFoundError:
                raise Cancelled("the editor left no brief, so nothing was sent") from None

    return edit


def _run(program: str, file: Path, environ: Mapping[str, str], cwd: Path, stdout: TextIO) -> None:
    try:
        command = [*shlex.split(program, posix=os.name == "posix"), str(file)]
        with _interrupts_left_to_it():
            code = subprocess.run(command, env=dict(environ), cwd=cwd, stdout=stdout, check=False).returncode  # the user's own choice
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"the editor {program!r:.200} cannot be started: {getattr(error, 'strerror', None) or error}", hint="see VISUAL and EDITOR"
        ) from error
    if code:
        raise Cancelled(f"the editor {program!r:.200} ended with {code}, so nothing was sent")


@contextmanager
def _interrupts_left_to_it() -> Iterator[None]:
    """Ctrl-C means the editor while it has the terminal. A handler, and not `SIG_IGN`, which the editor would inherit."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
