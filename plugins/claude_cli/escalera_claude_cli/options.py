"""What an agent of kind `claude-cli` can be told in the configuration."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

OWN_FLAGS = frozenset(
    {
        *("--print", "-p", "--input-format", "--output-format", "--verbose", "--include-partial-messages", "--permission-prompt-tool"),
        *("--session-id", "--resume", "-r", "--continue", "-c", "--fork-session", "--no-session-persistence"),
        *("--append-system-prompt", "--append-system-prompt-file", "--"),
    }
)
"""What every call sets by itself; set twice it would break the conversation or its reading."""

Word = Annotated[str, Field(min_length=1, pattern=r"^[^-\x00][^\x00]*$")]
"""A value that the command line cannot take for a flag."""

VariableName = Annotated[str, Field(pattern=r"^[^=\x00]+$")]


class ClaudeOptions(BaseModel):
    """The options of one agent; an unknown one is an error that names it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bin: Word = "claude"
    """The program: a name on PATH, or a path; a relative one starts from the folder of the file that gives it."""
    model: Word | None = None
    allowed_tools: tuple[Word, ...] = ()
    """Tools that run without asking, in Claude Code's own notation; nothing else is approved beforehand."""
    add_dirs: tuple[Word, ...] = ()
    mcp_config: Word | None = None
    permission_mode: Word | None = None
    env: dict[VariableName, SecretStr | Literal[False]] = Field(default_factory=dict)
    """Variables to set, or to unset with `false`."""
    extra_args: tuple[str, ...] = ()
    """Handed on as they are, last."""

    @field_validator("mcp_config")
    @classmethod
    def _be_json(cls, config: str | None) -> str | None:
        """Claude Code takes what is no JSON for the name of a file, and quotes all of it when there is none."""
        if config is not None and config.lstrip().startswith("{"):
            try:
                json.loads(config)
            except ValueError as error:
                raise ValueError(f"is no valid JSON: {getattr(error, 'msg', error)} at character {getattr(error, 'pos', 0)}") from None
        return config

    @field_validator("extra_args")
    @classmethod
    def _leave_own_flags_alone(cls, args: tuple[str, ...]) -> tuple[str, ...]:
        for arg in args:
            if arg.partition("=")[0] in OWN_FLAGS:
                raise ValueError(f"{arg!r} is set by Escalera for every call and cannot be given")
            if "\x00" in arg:
                raise ValueError("an argument cannot hold a NUL character")
        return args
