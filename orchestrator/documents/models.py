"""What a session document may hold: the shapes of page 6 as pydantic models, which also give its JSON Schema.

Strict about the type of every value; keys that are not known are passed over, since fields may be added under the same format number.
"""

from __future__ import annotations

import difflib
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from orchestrator.clock import parse_time


def _moment(value: object) -> object:
    """An ISO 8601 text or a number of seconds since 1970 as a time; whatever else is left for the type to refuse."""
    try:
        if isinstance(value, str):
            return parse_time(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise ValueError("expected a time in ISO 8601 or in seconds since 1970") from error
    return value


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("expected a text that is not empty")
    return text


_TIME_SCHEMA = {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "number", "description": "seconds since 1970"}]}

Time = Annotated[datetime, BeforeValidator(_moment), WithJsonSchema(_TIME_SCHEMA)]
Stated = Annotated[str, AfterValidator(_not_blank), Field(min_length=1)]
Index = Annotated[int, Field(ge=0, le=10_000_000)]
"""More turns than any session has: what is left out of a plan is listed turn by turn."""
Count = Annotated[int, Field(ge=0, le=2**63 - 1)]
Json = dict[str, Any]  # tool arguments and what providers want back: any JSON object


class _Shape(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _no_slips(cls, value: object) -> object:
        """A key that is all but one of ours is a slip, and what stands under it would be lost."""
        if not isinstance(value, dict):
            return value
        for key in set(value) - set(cls.model_fields):
            absent = [name for name in cls.model_fields if name not in value]
            if meant := difflib.get_close_matches(key, absent, n=1, cutoff=0.8):
                raise ValueError(f"{key!r} is no key here; did you mean {meant[0]!r}?")
        return value


class TextStep(_Shape):
    """What was said."""

    type: Literal["text"]
    text: str
    extra: Json | None = None


class ReasoningStep(_Shape):
    """What a model thought aloud."""

    type: Literal["reasoning"]
    text: str
    model: str | None = None
    signature: str | None = None
    extra: Json | None = None


class ToolCallStep(_Shape):
    """A request to run a tool."""

    type: Literal["tool_call"]
    id: str
    name: str
    arguments: Json = {}
    extra: Json | None = None


class ToolResultStep(_Shape):
    """What a tool gave back for the call with the same id."""

    type: Literal["tool_result"]
    id: str
    content: str
    is_error: bool = False
    extra: Json | None = None


Step = Annotated[TextStep | ReasoningStep | ToolCallStep | ToolResultStep, Field(discriminator="type")]
STEP_TYPES = ("text", "reasoning", "tool_call", "tool_result")


class UsageShape(_Shape):
    """Tokens and cost as reported; what is not known is null. `cache_in_input`: the cached tokens are among the input tokens."""

    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cache_read_tokens: Count | None = None
    cache_write_tokens: Count | None = None
    reasoning_tokens: Count | None = None
    cost_usd: Annotated[float, Field(ge=0)] | None = None
    cost_source: Literal["billed", "reported", "estimated"] | None = None
    cache_in_input: bool = False
    sent_chars: Count | None = Field(default=None, description="what the input tokens were reported for, in characters")
    sent_tokens_estimate: Count | None = Field(default=None, description="the same in tokens, as they were estimated")
    aside_tokens: Count | None = Field(default=None, description="tokens read in calls beside the turn, such as the classifier's, which are not among those")


class ReasonShape(_Shape):
    """Why a mode or an agent was chosen."""

    rule: Stated
    detail: str = ""


class ErrorShape(_Shape):
    """What ended a turn early."""

    type: Stated
    message: str


class TurnShape(_Shape):
    """One turn: `prompt` and either `steps` or, shorter, `answer`."""

    index: Index | None = Field(default=None, description="the turn's place in the list where it is absent")
    role: Literal["primary", "escalation"]
    agent: Stated | None = Field(default=None, description="the agent configured for the role where it is absent")
    prompt: str | None = Field(default=None, description="null only where `continues` names the turn whose prompt is answered")
    outcome: Literal["open", "completed", "escalated", "failed", "cancelled", "interrupted"] = "completed"
    steps: list[Step] | None = None
    answer: str | None = Field(default=None, description="stands for one text step")
    started_at: Time | None = None
    ended_at: Time | None = None
    usage: UsageShape | None = None
    mode: Literal["first", "fresh_start", "returning", "resume", "continuation"] | None = None
    reasons: list[ReasonShape] = []
    continues: Index | None = None
    error: ErrorShape | None = None
    model_requested: str | None = None
    model_served: str | None = None
    routing: list[ReasonShape] = Field(default=[], description="why this agent got the turn")
    receipt: Any = Field(default=None, description="what the turn was decided by, as `session show --plan` prints it; one that cannot be read is left out")
    copied_from: Stated | None = Field(default=None, description="the session in which the turn was taken, where this one is a fork: its usage counts there")


class NeedShape(_Shape):
    """What the user is trying to do now."""

    text: Stated
    turn_index: Index
    during: bool | None = Field(default=None, description="true where a turn with that index exists, unless it is said")
    updated_at: Time | None = None
    source: Literal["tag", "tool", "user", "self-escalation"] = "user"


class LastNeedShape(NeedShape):
    """A need that was cleared, and can be restored."""

    reason: Literal["fulfilled", "expired", "cleared"]
    cleared_at: Time


class BriefShape(_Shape):
    """Why the turn was handed over; a bare text is the user's."""

    text: Stated
    source: Literal["user", "primary", "prompt"] = "user"
    carried: bool = Field(default=False, description="whether a completed escalation turn, which asked a question, was told it")

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: object) -> object:
        return {"text": value} if isinstance(value, str) else value


class ExternalSessionShape(_Shape):
    """The conversation that an agent keeps on its own side."""

    agent: Stated
    id: Stated
    workspace: Stated | None = Field(default=None, description="the document's where it is absent")
    config_dir: str | None = None
    turn_index: Index | None = Field(default=None, description="the last completed turn that ran in it; where it is absent, the agent's last completed turn")
    model: str | None = None
    system_text: str = ""
    delivered: Json = {}


class SessionShape(_Shape):
    """One session with all its turns."""

    format: Literal["escalera.session/1"] = "escalera.session/1"
    id: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$"), AfterValidator(_not_blank)] | None = None
    name: Stated | None = None
    workspace: Stated | None = None
    created_at: Time | None = None
    updated_at: Time | None = None
    state: Literal["routing", "primary", "escalation", "waiting"] = "routing"
    need: NeedShape | None = None
    last_need: LastNeedShape | None = None
    brief: BriefShape | None = None
    external_sessions: list[ExternalSessionShape] = []
    nonce: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")] | None = Field(default=None, description="one that is too short to be safe is replaced")
    turns: list[TurnShape]
    need_now: Any = Field(default=None, description="the need document at the time of `session show`; passed over when the document is read")
