"""What an author writes for the conformance suite: how to reach a scripted backend, and how it plays each situation."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from orchestrator.errors import ProviderError
from orchestrator.messages import ToolCall, Usage
from orchestrator.providers import ProviderKind


class CannotPlay(Exception):
    """This backend cannot be brought into that situation: the checks that need it are `not shown`, and the text says why."""


class Harness:
    """One scripted backend, made anew for every check. A subclass overrides what its backend can do, and leaves the rest.

    Each method under "situations" says what the backend does at its next call; two of them in a row script two calls. All of them
    return at once. `folder` is an empty folder of this check alone, and the agent's workspace.
    """

    kind: ClassVar[ProviderKind | str] = ""
    """The kind under test: the object, the name of an installed one, or `module:kind` for one whose hooks are in that module."""
    secrets: ClassVar[Sequence[str]] = ()
    """The credentials among the options: they may show up nowhere."""
    exact: ClassVar[bool] = True
    """Whether the backend says the text that it is given, character by character, whenever it is told to. Not so for a real model, whose
    words are its own: without it `streaming.text`, `streaming.space`, `streaming.split`, `timers.idle`, `usage.unknown`, `at_once.apart` and
    `at_once.cancel` are not shown, and no other check compares texts. A protocol that cannot carry some characters stays exact: it says so by `loses`.
    """
    loses: ClassVar[str] = ""
    """Characters that the backend's protocol cannot carry, such as the line breaks where each line is a piece: no text that it is to say has them."""
    pace: ClassVar[float] = 0.3
    """Seconds within which the backend gives a sign of life when it is well: the timers under test are set to that."""
    release_limit: ClassVar[float] = 2.0
    """Seconds within which a cancelled turn has to have ended and let go of everything; 6 for a program."""
    limit: ClassVar[float] = 30.0
    """Seconds after which a turn that should end by itself is taken to hang."""
    samples: ClassVar[int] = 24
    """At how many places an answer is cut; 0 for at every byte."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def start(self) -> None:
        """Set the backend up: called once, before anything else."""

    def stop(self) -> None:
        """Take it down, whatever state it is in."""

    def options(self) -> Mapping[str, object]:
        """The options of an agent that talks to this backend, as they would stand in its table of the configuration."""
        return {}

    def environ(self) -> Mapping[str, str]:
        """The environment that the agent is given."""
        return dict(os.environ)

    # -- what the backend has seen

    def calls(self) -> int:
        """How many calls that cost tokens have reached the backend so far."""
        raise CannotPlay("the harness does not count calls")

    def received(self) -> object:
        """What the last call brought: the parsed body, for a preview with a `body`, or the text of the standard input."""
        raise CannotPlay("the harness does not tell what was received")

    def received_head(self) -> Mapping[str, Any]:
        """Of the last call over HTTP its `method`, its `url` (or the path alone) and its `headers`: what a preview shows beside the body."""
        raise CannotPlay("the harness does not tell how the call was addressed")

    # -- situations

    def is_well(self) -> None:
        """The next thing that comes is a check, and shall find that all is well; a backend that needs no script for that leaves it."""

    def answers(self, text: str, *, usage: Usage | None = None) -> None:
        """It answers properly, in several pieces where it streams; it reports exactly `usage`, or none."""
        raise CannotPlay("the harness does not play `answers`")

    def breaks(self, text: str) -> None:
        """It says `text` and is gone before its end mark: a lost connection, a killed program."""
        raise CannotPlay("the harness does not play `breaks`")

    def hangs(self, text: str = "") -> None:
        """It says `text`, if there is any, and then nothing more, until the caller goes."""
        raise CannotPlay("the harness does not play `hangs`")

    def talks_on(self) -> None:
        """It says piece after piece, without a pause worth naming and without an end, until the caller goes."""
        raise CannotPlay("the harness does not play `talks_on`")

    def calls_tools(self, calls: Sequence[ToolCall], text: str = "") -> None:
        """It says `text`, if there is any, and asks for these tools."""
        raise CannotPlay("the harness does not play `calls_tools`")

    def uses_tool(self) -> None:
        """For agents that run tools by themselves: it runs one that needs nobody's permission, and then answers. May script several calls."""
        raise CannotPlay("the harness does not play `uses_tool`")

    def asks(self) -> None:
        """For agents that ask for permissions: it wants one, and answers whatever becomes of it. May script several calls."""
        raise CannotPlay("the harness does not play `asks`")

    def fails(self, error: type[ProviderError], *, retry_after: float | None = None) -> None:
        """It fails in the way that this class stands for, and names that many seconds to wait if it is told to."""
        raise CannotPlay(f"the harness does not play {error.__name__}")

    def withdraws(self, void: str, text: str) -> None:
        """It says `void`, which turns out not to count, and then answers with `text` within the same call."""
        raise CannotPlay("the harness does not play `withdraws`")

    def reasons(self, thought: str, text: str) -> None:
        """It thinks `thought` aloud, which is no part of the answer, and then answers with `text`."""
        raise CannotPlay("the harness does not play `reasons`")

    # -- the answer in bytes, for backends that can be scripted to the byte

    def wire(self, text: str) -> bytes:
        """A whole proper answer as its bytes: an HTTP body, a program's output."""
        raise CannotPlay("the harness does not know the answer's bytes")

    def writes(self, pieces: Sequence[bytes]) -> None:
        """It sends exactly these bytes, piece by piece, and then ends its output as it does when all is well."""
        raise CannotPlay("the harness does not script bytes")
