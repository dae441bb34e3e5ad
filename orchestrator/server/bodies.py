"""What clients send: one model for each body, which refuses keys that it does not know."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from orchestrator.errors import UsageError
from orchestrator.messages import well_formed
from orchestrator.planning.case import Wish
from orchestrator.routing import Choice
from orchestrator.session import Role
from orchestrator.settings.values import seconds
from orchestrator.tags import MAX_BODY


class Body(BaseModel):
    """Any of them."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Asked(Body):
    """What a turn is asked for: as the flags of `ask` and `plan` say it."""

    prompt: str | None = None
    role: Role | None = None
    """Who shall have the turn; an agent alone says it as well."""
    agent: str | None = None
    reason: str | None = Field(None, max_length=MAX_BODY)
    """Why it is handed over: what an escalation agent should know first."""
    fresh: bool = False
    """Let the escalation agent start afresh."""

    def wish(self, default: str | None = None) -> Wish:
        """Raises `UsageError` for an empty prompt where there is no default."""
        prompt = well_formed(self.prompt or "") or default
        if prompt is None or (not prompt.strip() and default is None):
            raise UsageError("the prompt is empty")
        return Wish(prompt, Choice(self.role, self.agent), reason=self.reason, fresh=self.fresh)


class TurnBody(Asked):
    """One turn."""

    stream: bool = False
    """Answer with server-sent events, as a request does that accepts nothing else."""
    wait_questions: bool = False
    """Let the turn wait for the answers to its questions; else what only a human could allow is denied at once."""
    timeout: str | None = None
    """End the turn after that long, as in 90s or 5m."""
    go_on: bool = Field(False, alias="continue")
    """Go on after a question: send its answer to the agent that asked, with the prompt, if there is one, behind it."""

    @property
    def seconds(self) -> float | None:
        """The timeout. Raises `UsageError`."""
        if self.timeout is None:
            return None
        try:
            given = seconds(self.timeout)
        except ValueError as error:
            raise UsageError(f"timeout: {self.timeout[:40]!r} is no time", hint="as in 90s or 5m") from error
        if not given:
            raise UsageError("timeout: that is no time at all", hint="as in 90s or 5m")
        return given


class TaskBody(TurnBody):
    """One turn in the background."""

    session: str | None = None
    """An id, the beginning of one, or a name; else the newest session of the workspace."""


class SessionBody(Body):
    """A new session."""

    name: str | None = Field(None, min_length=1, max_length=200)
    workspace: str | None = None
    """The directory that it is about, as an absolute path; else the server's own."""


class NameBody(Body):
    """What a session is called."""

    name: str | None = Field(None, min_length=1, max_length=200)


class RenameBody(Body):
    """What a session is called from now on."""

    name: str = Field(min_length=1, max_length=200)


class NeedBody(Body):
    """What the user is trying to do."""

    text: str


class FactBody(Body):
    """A fact to be remembered."""

    content: str
    consumer: str = "all"
    """`primary`, `escalation` or an agent's name; else for all."""
    subject: str | None = None
    extends: list[str] = []
    updates: list[str] = []
    derives: list[str] = []
    contradicts: list[str] = []


class WhyBody(Body):
    """A prompt, and the agent that would be asked it."""

    prompt: str = ""
    agent: str | None = None
    session: str | None = None


class AnswerBody(Body):
    """An answer to a question."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None
    """The fields of a form."""


class ContinueBody(Body):
    """Going on with a turn that waits for a question, with the answer or without."""

    continuation: str = Field(max_length=2000)
    action: Literal["accept", "decline", "cancel"] | None = None
    content: dict[str, Any] | None = None


class SettingBody(Body):
    """A value: for this server as long as it runs, or in a file."""

    value: Any
    persist: Literal["user", "project"] | None = None
