"""`run`: a shell command in the workspace, which the user has seen and allowed, in bubblewrap where that is to be had."""

from __future__ import annotations

import os
import shlex

from escalera_workspace.arguments import Arguments, text, truth, whole
from escalera_workspace.children import FLOOD, Run, run_bounded
from escalera_workspace.places import place_of
from escalera_workspace.sandbox import SHELL, Sandbox, sandbox_of, was_begun
from orchestrator.providers import SESSION_MARK, ToolSchema
from orchestrator.tools import Act, Beyond, Tool, ToolContext, ToolFailed

SECONDS, MOST_SECONDS = 120, 600
MAX_COMMAND = 20_000
"""Characters; far below what a system takes as one argument."""

_NO_FAMILY = frozenset(
    {
        *("sh", "bash", "dash", "zsh", "fish", "env", "sudo", "doas", "xargs", "find", "ssh", "nohup", "timeout", "exec", "eval"),
        *("python", "python3", "node", "perl", "ruby", "php", "awk", "sed", "tee", "rm", "mv", "cp", "dd", "chmod", "chown", "kill", "curl", "wget", "git"),
    }
)
"""Programs with which allowing some words after them would allow nearly anything; of these just the command itself is offered."""
_TWO_WORDS = frozenset({"git", "npm", "cargo", "go", "make", "uv", "pip", "docker", "poetry", "yarn", "pnpm", "dotnet"})
"""Programs whose second word says what they do."""
_LOOKS_ONLY = frozenset({"status", "diff", "log", "show", "test", "build", "check", "lint", "fmt", "vet", "clippy"})


def _run(arguments: Arguments, context: ToolContext) -> str:
    command = _command(arguments)
    seconds = whole(arguments, "timeout", SECONDS, least=1, most=MOST_SECONDS)
    network = truth(arguments, "network")
    root = place_of(context.workspace, ".").root
    environ = {**context.environ, SESSION_MARK: context.session}
    sandbox = sandbox_of(root, context.off_limits, environ, network=network)
    context.permit(_act(command, sandbox, network=network))
    context.cancel.raise_if_set()
    try:
        run = _confined(sandbox, command, root, environ, seconds, context, network=network) if isinstance(sandbox, Sandbox) else None
        run = run or run_bounded([SHELL, "-c", command], cwd=root, environ=environ, seconds=seconds, cancel=context.cancel)
    except OSError as error:
        raise ToolFailed(f"the command could not be started: {error.strerror or error}") from error
    return _told(run, seconds, "" if isinstance(sandbox, Sandbox) else f"; not confined, since {sandbox}")


def _command(arguments: Arguments) -> str:
    command = text(arguments, "command")
    if not command.strip() or len(command) > MAX_COMMAND or "\0" in command:
        raise ToolFailed(f"argument 'command' must have 1 to {MAX_COMMAND:,} characters, and no NUL among them")
    try:
        command.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ToolFailed("that command is no proper text: it has half a character (a lone surrogate) in it") from error
    return command


def _act(command: str, sandbox: Sandbox | str, *, network: bool) -> Act:
    if not isinstance(sandbox, Sandbox):
        beyond: frozenset[Beyond] = frozenset({"network", "unconfined"})
        note = f"NOT confined, since {sandbox}: it can read, change and send whatever you can."
    elif network:
        beyond, note = (
            frozenset({"network"}),
            "Confined by bubblewrap, with the network: it can change the workspace only, and send what it can read.",
        )
    else:
        beyond, note = frozenset(), "Confined by bubblewrap: it can change the workspace only, and has no network."
    return Act("run", command, _pattern(command), beyond=beyond, notes=(note,))


def _pattern(command: str) -> str:
    """What to offer to allow along with the command: the same program with other words, where that says what it does."""
    words = command.split(" ")
    plain = all(word.isascii() and word and not set(word) & set("'\"\\$`;&|<>()*?[]{}#~!=\n\t\r") for word in words)
    if not plain:
        return f"={command}"
    if words[0] in _TWO_WORDS and len(words) > 1 and words[1] in _LOOKS_ONLY:
        return f"{words[0]} {words[1]} *"
    if words[0] in _NO_FAMILY or words[0] in _TWO_WORDS or "/" in words[0]:
        return f"={command}"
    return f"{shlex.quote(words[0])} *"


def _confined(sandbox: Sandbox, command: str, root: str, environ: dict[str, str], seconds: float, context: ToolContext, *, network: bool) -> Run:
    ours, theirs = os.pipe()
    try:
        argv = sandbox.command(command, network=network, status=theirs)
        run = run_bounded(argv, cwd=root, environ=environ, seconds=seconds, cancel=context.cancel, hands_on=[theirs])
        os.close(theirs)
        theirs = -1
        begun = was_begun(os.read(ours, 65536))
    finally:
        os.close(ours)
        if theirs >= 0:
            os.close(theirs)
    if run.ending == "itself" and not begun:
        raise ToolFailed(f"bubblewrap did not start, and the command did not run: {run.output.strip()[:300]}")
    return run


def _told(run: Run, seconds: float, where: str) -> str:
    """The result; of a command that was ended, as an error with what it had printed by then."""
    after = f"after {run.seconds:.1f} s{where}"
    output = run.output if run.output.strip() else "(it printed nothing)"
    if run.ending == "itself":
        return f"[exit code {run.code} {after}]\n{output}" if run.code >= 0 else f"[ended by signal {-run.code} {after}]\n{output}"
    why = {
        "time": f"it ran longer than {seconds:g} s, and was ended with all that it had started",
        "flood": f"it printed more than {FLOOD // 1024 // 1024} MiB, and was ended",
        "cancel": "the turn was cancelled, and the command ended",
    }[run.ending]
    raise ToolFailed(f"[{why}{where}]\n{output}")


RUN = Tool(
    ToolSchema(
        "run",
        "Run a shell command (sh) in the workspace and wait for it. The user is asked first. It has no input, and what it leaves running is ended.",
        {
            "type": "object",
            "properties": {
                "command": {"type": "string"},
                "timeout": {"type": "integer", "description": f"Seconds; {SECONDS} without it, {MOST_SECONDS} at most."},
                "network": {"type": "boolean", "description": "Whether it needs the network; without it there may be none."},
            },
            "required": ["command"],
        },
    ),
    _run,
    on_request=True,
)
