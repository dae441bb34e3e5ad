"""What `claude` is called with: its argument list, and the one line on its standard input."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from escalera_claude_cli.options import ClaudeOptions
from orchestrator.errors import InvalidRequest
from orchestrator.messages import Message, Text, well_formed
from orchestrator.providers import Conversation, Request

FILE_PLACEHOLDER = "<system-prompt-file>"

_MENTION = re.compile(r"(?<![A-Za-z0-9._%+\\@-])@")
"""An `@` that no word stands in front of. Claude Code takes fewer of them for a mention; which ones has changed before."""


def command_line(options: ClaudeOptions, request: Request, *, program: str, system_prompt_file: str) -> list[str]:
    """The argument list. Texts never stand in it: one argument may hold 128 KiB at most, and everyone can read it.

    `--print` asks nobody whether the workspace is trusted: its hooks and servers would start at once. With the user's settings alone none of
    the project's do, neither from `.claude` nor from a `.mcp.json` (seen with 2.1.197); given twice, the last one counts.
    """
    conversation = conversation_of(request)
    model = options.model or conversation.model
    return [
        *(program, "--print", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"),
        *("--include-partial-messages", "--permission-prompt-tool", "stdio"),
        *("--session-id" if conversation.action == "start" else "--resume", conversation.id),
        *("--append-system-prompt-file", system_prompt_file),
        *(["--model", model] if model else []),
        *(["--allowedTools", ",".join(options.allowed_tools)] if options.allowed_tools else []),
        *(word for folder in options.add_dirs for word in ("--add-dir", folder)),
        *(["--mcp-config", options.mcp_config] if options.mcp_config else []),
        *(["--permission-mode", options.permission_mode] if options.permission_mode else []),
        *options.extra_args,
        *(["--setting-sources", "user"] if request.unaccepted else []),
    ]


def user_line(request: Request) -> str:
    """The user message as one line of JSON: the context block, then the prompt.

    The context block comes first, always: a message that begins with `/word` would be taken as a command of the CLI. What it tells
    is not the user's own words, so nothing in it may make the CLI read a file; the prompt does what it does in Claude Code.
    """
    text = f"{without_mentions(conversation_of(request).context_block)}\n\n{_prompt(request.messages)}"
    return json_line({"type": "user", "message": {"role": "user", "content": well_formed(text)}})


def without_mentions(text: str) -> str:
    """A text in whose place the CLI reads no file, asks no server and calls no agent: `@path` becomes `\\@path`.

    Nothing invisible is put in, since the agent may copy it. It grows by one character for each `@`: some code in a digest, far less
    than the budget's measure is off by.
    """
    return _MENTION.sub(r"\\@", text)


def preview(options: ClaudeOptions, request: Request) -> dict[str, Any]:  # the document of page 6
    """The call as a plan shows it: nothing is started, looked for or written."""
    conversation = conversation_of(request)
    return {
        "argv": command_line(options, request, program=options.bin, system_prompt_file=FILE_PLACEHOLDER),
        "system_prompt_file": well_formed(conversation.system_text),
        "stdin": user_line(request),
    }


def program_path(program: str, platform: str = sys.platform) -> str:
    """The configured program with `~` filled in; a bare name is looked up on PATH when it is started. `platform` as in `sys.platform`.

    On Windows the `.exe` itself: the batch file that npm puts on PATH would hand everything to the command interpreter, which reads it its own way.
    """
    path = os.path.expanduser(program)
    if platform != "win32" or path.lower().endswith(".exe"):
        return path
    if path.lower().endswith((".cmd", ".bat", ".ps1")):
        raise InvalidRequest(f"claude was not started: {program!r} is a script", hint="name the claude.exe behind it in the agent's `bin`")
    return f"{path}.exe"


def conversation_of(request: Request) -> Conversation:
    """The conversation of a request; the core gives one to every provider that keeps its own."""
    if request.conversation is None:
        raise InvalidRequest("claude-cli keeps its own conversation, and the request names none", agent=request.agent)
    return request.conversation


def json_line(message: Mapping[str, Any]) -> str:
    """One line for the CLI, in ASCII: its reader would cut a line at a raw U+2028."""
    return json.dumps(message, ensure_ascii=True, separators=(",", ":")) + "\n"


def _prompt(messages: Sequence[Message]) -> str:
    last = next((message for message in reversed(messages) if message.role == "user"), None)
    return "\n\n".join(part.text for part in last.parts if isinstance(part, Text)) if last else ""
