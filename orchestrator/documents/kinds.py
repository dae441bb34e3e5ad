"""Every JSON document that is printed, declared once (page 6): mypy holds the writers to it, and the JSON Schemas are generated from it.

Nothing imports this module but the type checker and `schemas`, so that a declaration costs no start anything. Keys are the contract of
page 6: they may be added, never changed or removed. Absent keys are said to be (`NotRequired`); all others always stand there, as null if need be.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from typing_extensions import TypedDict

from orchestrator.artifacts import ArtifactKind
from orchestrator.history.fit import Why
from orchestrator.history.scope import ScopeName
from orchestrator.lifetimes import Lifetime
from orchestrator.messages import CostSource
from orchestrator.modes import Mode
from orchestrator.percepts import EdgeKind
from orchestrator.permissions import Effect
from orchestrator.providers import CheckStatus
from orchestrator.questions import QuestionState
from orchestrator.session import NeedSource, NeedStatus, Outcome, Role, State
from orchestrator.spending import CostLabel
from orchestrator.store import UsageKey
from orchestrator.tasks import TaskState


class Schema:
    """JSON Schema keywords that a type has no words for."""

    def __init__(self, **keywords: object) -> None:
        self._keywords = keywords

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:  # the types are pydantic's, which is not imported here
        return {**handler(core), **self._keywords}


Moment = Annotated[str, Schema(format="date-time", pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")]
"""RFC 3339, in UTC."""
Stated = Annotated[str, Schema(minLength=1)]
Count = Annotated[int, Schema(minimum=0)]
Json = dict[str, Any]  # tool arguments, a provider's body, an answer's schema: any JSON object


QuestionMode = Literal["form", "url", "confirm"]


# -- turns ---------------------------------------------------------------------------------------


class ReasonObject(TypedDict):
    """Why a mode or an agent was chosen: a rule's name, and what it saw."""

    rule: Stated
    detail: str


class UsageObject(TypedDict):
    """Tokens and cost as the provider reported them; what it did not report is null, never 0."""

    input_tokens: Count | None
    output_tokens: Count | None
    cache_read_tokens: Count | None
    cache_write_tokens: Count | None
    reasoning_tokens: Count | None
    cost_usd: Annotated[float, Schema(minimum=0)] | None
    cost_source: CostSource | None
    cache_in_input: bool
    """Whether the cached tokens are among the input tokens."""


class ErrorObject(TypedDict):
    """What went wrong. `type` is a class of the error tree; the last six stand where that class has them."""

    type: Annotated[str, Schema(pattern="^[A-Z][A-Za-z]+$")]
    message: str
    hint: str | None
    retryable: bool
    agent: str | None
    retry_after: float | None
    which: NotRequired[Literal["first_byte", "idle", "turn"]]
    problems: NotRequired[dict[str, str]]
    """Of an answer: each field that does not fit, with what it must be."""
    limit: NotRequired[int | None]
    needed: NotRequired[int | None]
    parts: NotRequired[dict[str, int]]
    candidates: NotRequired[list[str]]


class TurnFields(TypedDict):
    """What became of one turn."""

    session: Stated
    turn: Count
    role: Role
    agent: Stated
    mode: Mode | None
    """Null for a primary turn."""
    reasons: list[ReasonObject]
    routing: list[ReasonObject]
    """Why this agent has the turn."""
    outcome: Outcome
    answer: str | None
    """Null where the turn was not completed."""
    partial: str | None
    """What had come of an answer that was not completed."""
    state: State
    usage: UsageObject | None
    model_requested: str | None
    model_served: str | None
    external_session: str | None
    """The conversation that the agent keeps on its own side."""
    notices: list[str]
    error: ErrorObject | None
    escalated_from: Count | None
    """The primary turn that handed over."""
    open_questions: list[Stated]
    """Questions of the agent that wait for a human though the turn has ended, by id."""
    artifacts: list[Stated]
    """What of the turn is kept as an artifact, by id."""


class TurnDocument(TurnFields):
    """`ask --json`."""

    format: Literal["escalera.turn/1"]


class ErrorDocument(TypedDict):
    """Any command with `--json` that could not do what it was asked; of `ask` only where no turn came to be."""

    format: Literal["escalera.error/1"]
    error: ErrorObject


class ProblemError(ErrorObject):
    """The same, with the two keys that clients of models look for."""

    code: str | None
    param: str | None


class ProblemDocument(TypedDict):
    """What the server answers instead of what was asked for: problem details (RFC 9457), and our error document."""

    format: Literal["escalera.error/1"]
    type: Stated
    title: Stated
    status: Annotated[int, Schema(minimum=400, maximum=599)]
    detail: str
    error: ProblemError


# -- the lines of `ask --stream-json` ------------------------------------------------------------


class Line(TypedDict):
    """The first line of a stream names the format."""

    format: NotRequired[Literal["escalera.stream/1"]]


class TurnStarted(Line):
    """A turn was opened: who has it, in which mode, and why."""

    type: Literal["turn_started"]
    turn: Count
    role: Role
    agent: Stated
    mode: Mode | None
    reasons: list[ReasonObject]


class TextEvent(Line):
    """A piece of the answer, of the model's thoughts, or one notice."""

    type: Literal["text", "reasoning", "notice"]
    text: Stated


class ToolCallEvent(Line):
    """The agent asks for a tool."""

    type: Literal["tool_call"]
    id: str
    name: str
    arguments: Json


class ToolResultEvent(Line):
    """What the tool gave back for the call with the same id."""

    type: Literal["tool_result"]
    id: str
    content: str
    is_error: bool


class QuestionEvent(Line):
    """The agent wants something from the human."""

    type: Literal["question"]
    message: str
    mode: QuestionMode
    requested_schema: Json
    id: str | None
    """Null where it was denied at once, since nobody could be asked."""
    expiresAt: Moment | None


class RetryEvent(Line):
    """The call failed and is made again after `wait` seconds."""

    type: Literal["retry"]
    text: str
    error: str
    wait: Annotated[float, Schema(minimum=0)]
    attempt: Count


class WithdrawnEvent(Line):
    """All text since the last step is void: the answer is asked for again."""

    type: Literal["withdrawn"]


class TurnEvent(TurnFields):
    """The last line: the turn document."""

    type: Literal["turn"]
    format: Literal["escalera.turn/1"]


class ErrorEvent(TypedDict):
    """The only line where no turn came to be, or the last one where it broke off: the error document."""

    type: Literal["error"]
    format: Literal["escalera.error/1"]
    error: ErrorObject


StreamLine = TurnStarted | TextEvent | ToolCallEvent | ToolResultEvent | QuestionEvent | RetryEvent | WithdrawnEvent | TurnEvent | ErrorEvent


# -- plans ---------------------------------------------------------------------------------------


class NeedFields(Lifetime):
    """What the user is trying to do now; a need that was cleared keeps its text."""

    text: str | None
    status: NeedStatus
    label: Literal["current", "verify"] | None
    """How a need that is set is told: as it stands, or to be verified."""
    turn_index: Count | None
    source: NeedSource | None


class BlockObject(TypedDict):
    """One of the system texts."""

    name: Stated
    chars: Count
    text: str


class TextPart(TypedDict):
    """What was said."""

    type: Literal["text"]
    text: str


class ReasoningPart(TypedDict):
    """What a model thought aloud."""

    type: Literal["reasoning"]
    text: str
    model: str | None


class ToolCallPart(TypedDict):
    """A request to run a tool."""

    type: Literal["tool_call"]
    id: str
    name: str
    arguments: Json


class ToolResultPart(TypedDict):
    """What a tool gave back."""

    type: Literal["tool_result"]
    id: str
    content: str
    is_error: bool


PartObject = TextPart | ReasoningPart | ToolCallPart | ToolResultPart


class MessageObject(TypedDict):
    """A message in the form that belongs to no provider."""

    role: Literal["system", "user", "assistant"]
    parts: list[PartObject]


class LeftOutTurn(TypedDict):
    """A turn that is not sent; with `batches`, one that is sent without so many of its oldest rounds of tool calls."""

    turn: Count
    why: Why
    batches: NotRequired[Annotated[int, Schema(minimum=1)]]


class HistoryObject(TypedDict):
    """The history as it is sent; `messages` with the prompt, without the system texts."""

    scope: ScopeName
    sent: list[Count]
    shortened: list[Count]
    """Turns with tool results that were cut down."""
    dropped: list[LeftOutTurn]
    messages: list[MessageObject]


class WithheldPercept(TypedDict):
    """A remembered fact that is not told."""

    id: Stated
    why: Stated


class PerceptsObject(TypedDict):
    """The remembered facts by id."""

    sent: list[Stated]
    withheld: list[WithheldPercept]


class BudgetParts(TypedDict):
    """The size of each part in characters."""

    system: Count
    orientation: Count
    percepts: Count
    tools: Count
    prompt: Count
    history: Count


class BudgetObject(TypedDict):
    """What the turn may take and what it takes; a limit of null is none."""

    limit_chars: Count | None
    parts: BudgetParts
    total_chars: Count
    tokens_estimate: Count
    chars_per_token: float
    """What a window of tokens is turned into characters with."""
    chars_per_token_measured: bool
    """Whether the provider's own counts of the newest turns gave it, and corrected the estimate."""
    tokens_counted_by: str | None
    """The plugin that counted the tokens; null where they are an estimate."""


Delivery = Annotated[Json, Schema(anyOf=[{"required": ["argv", "stdin"]}, {"required": ["body"]}])]
"""What the provider would send: `{"argv", "system_prompt_file", "stdin"}` or `{"body"}`; secrets as `***`."""


class PlanDocument(TypedDict):
    """`plan --json`: what the next turn would be and would send."""

    format: Literal["escalera.plan/1"]
    session: Stated
    """`<new>` where the real turn would begin one."""
    turn: Count
    role: Role
    agent: Stated
    provider: Stated
    mode: Mode | None
    """Null for a primary turn."""
    reasons: list[ReasonObject]
    routing: list[ReasonObject]
    """Why this agent has the turn."""
    state: State
    need: NeedFields
    system: list[BlockObject]
    history: HistoryObject
    percepts: PerceptsObject
    budget: BudgetObject
    tools: list[str]
    """The names of those that the agent is offered."""
    notices: list[str]
    delivery: Delivery


class PlanSide(TypedDict):
    """One of two plans that are compared: how it was decided, and what it sends."""

    what: Stated
    """Which: `now`, `with LIMIT=VALUE`, `turn 7`."""
    turn: Count
    role: Role
    agent: Stated
    mode: Mode | None
    reasons: list[ReasonObject]
    limit_chars: Count | None
    parts: BudgetParts
    total_chars: Count
    tokens_estimate: Count
    scope: ScopeName
    sent: list[Count]
    dropped: list[Count]
    """Turns that are left out for the budget."""
    shortened: list[Count]
    rounds_left_out: Count
    percepts: Count
    percepts_withheld: Count


class PlanDiffDocument(TypedDict):
    """`plan --compare` and `plan --diff` with `--json`: `before` and what is another in `after`."""

    format: Literal["escalera.plan-diff/1"]
    session: Stated
    before: PlanSide
    after: PlanSide | None
    """Null where it could not be sent."""
    error: ErrorObject | None
    """Why it could not."""
    notices: list[str]
    diff: list[str]
    """The texts, as lines of a unified diff; empty where they are the same."""


# -- receipts ------------------------------------------------------------------------------------


class BriefSize(TypedDict):
    """The brief as it was told: whose it was, and how long."""

    source: Literal["user", "primary", "prompt"]
    chars: Count
    carried: NotRequired[bool]
    """Whether an escalation turn has told it before."""


class NeedPlace(TypedDict):
    """The need as it stood, or the last one as it was when it went; its text is told in the turn that set it."""

    status: NeedStatus
    label: NotRequired[Literal["current", "verify"]]
    turn_index: NotRequired[Count]
    source: NotRequired[NeedSource]
    chars: NotRequired[Count]
    during: NotRequired[bool]
    """Whether a turn set it itself."""
    updated_at: NotRequired[Moment]


Spans = list[Annotated[list[Count], Schema(minItems=2, maxItems=2)]]
"""Runs of turns, each by its first and its last."""


class ReceiptBudget(TypedDict):
    """What the turn might take, and what it took as it was planned."""

    limit_chars: Count | None
    parts: BudgetParts
    total_chars: Count
    tokens_estimate: Count


class ReceiptHistory(TypedDict):
    """Which turns were sent, and which were not and why."""

    scope: ScopeName
    sent: Spans
    dropped: dict[Why, Spans]
    shortened: Spans
    cut: Spans
    """Turns that were sent without so many of their oldest rounds of tool calls."""


class ReceiptPercepts(TypedDict):
    """The remembered facts that were told, by the beginnings of their ids, and how many were and were not."""

    sent: list[Stated]
    count: Count
    withheld: Count
    over: NotRequired[Count]
    """How many of the withheld ones a limit kept back."""


class ReceiptReport(TypedDict):
    """What was planned to be sent: sizes and places, no texts."""

    need: NeedPlace
    brief: NotRequired[BriefSize]
    budget: ReceiptBudget
    history: ReceiptHistory
    percepts: ReceiptPercepts


class ReceiptObject(TypedDict):
    """What a turn was decided by. `facts` are those of the mode; a primary turn has none. An absent key is false, null or empty."""

    version: Count
    routing: Json
    """What was chosen, who asked, who has the roles, and the signals."""
    rules: Json
    limits: dict[str, float | bool | None]
    facts: NotRequired[Json]
    flags: dict[str, bool]
    conversation_lost: NotRequired[bool]
    report: ReceiptReport


class ReceiptDocument(TypedDict):
    """`session show --turn N --plan --json`: a past turn, explained."""

    format: Literal["escalera.receipt/1"]
    session: Stated
    turn: Count
    role: Role
    agent: Stated
    mode: Mode | None
    reasons: list[ReasonObject]
    routing: list[ReasonObject]
    outcome: Outcome
    receipt: ReceiptObject


# -- tuning --------------------------------------------------------------------------------------


class TuneMistake(TypedDict):
    """A turn that is decided otherwise than it was recorded, with the limits that it was recorded under."""

    session: Stated
    turn: Count
    recorded: str
    replayed: str


class TuneMissing(TypedDict):
    """A turn that cannot be replayed."""

    session: Stated
    turn: Count
    why: str


class SelfTest(TypedDict):
    """What replaying with the limits of then comes to: the error of every figure beside it."""

    decisions: Count
    """Turns that were replayed."""
    decisions_wrong: Count
    tokens_recorded: Count
    tokens_off_percent: Annotated[float, Schema(minimum=0)]
    """What the turns are off by, each in either direction, of all recorded tokens."""


class TuneTokens(TypedDict):
    """Tokens that the models read, estimated; each is in one class."""

    static: Count
    """Static text and tools that no cache holds."""
    orientation: Count
    percepts: Count
    prompt: Count
    history: Count
    cached: Count
    """Static text that is sent again, and what an agent's own conversation holds."""
    total: Count


class TuneLeftOut(TypedDict):
    """What would not be sent for lack of room, summed over the turns."""

    turns: Count
    tool_results_shortened: Count
    tool_rounds: Count
    percepts: Count


class TuneCost(TypedDict):
    """By the agents' `prices` as they are set now; null for unknown, never 0."""

    label: CostLabel
    usd: Annotated[float, Schema(minimum=0)] | None
    unknown_turns: Count


class TuneFigures(TypedDict):
    """What is sent, read, left out and paid for."""

    refused: Count
    """Turns that could not be sent, since what is never dropped is larger than the budget."""
    beyond_record: Count
    """Turns to which more remembered facts would have been told than are recorded; their figures are too small."""
    tokens: TuneTokens
    left_out: TuneLeftOut
    cost: TuneCost
    self_test: SelfTest


class TuneSetting(TuneFigures):
    """One value of a limit."""

    value: bool | float | str | None
    in_force: bool
    """Whether it is what is set now."""
    mode_changed: Count
    """Turns in another mode than with the limits that they were recorded under."""
    content_changed: Count
    """Turns that would have sent something else."""


class TuneSweep(TypedDict):
    """One limit at several values."""

    limit: Stated
    path: Stated
    """The setting that sets it."""
    settings: list[TuneSetting]
    cheapest: bool | float | str | None
    """The value with the least cost or, where no cost is known, the fewest tokens; of none that would refuse a turn."""
    by: Literal["cost", "tokens"]


class TuneApplied(TypedDict):
    """What was written, and how to undo it."""

    path: Stated
    value: bool | float | str | None
    file: Stated
    undo: Stated


class TuneDocument(TypedDict):
    """`tune --json`: what other limits would have done to recorded sessions."""

    format: Literal["escalera.tune/1"]
    agent: str | None
    since: Moment | None
    sessions: Count
    turns: Count
    """All that were looked at."""
    not_replayed: Count
    missing: list[TuneMissing]
    """Of those that cannot be replayed the first thousand."""
    self_test: SelfTest
    mistakes: list[TuneMistake]
    """Of the wrong decisions the first thousand."""
    then: TuneFigures
    """Replayed with the limits of then."""
    sweeps: list[TuneSweep]
    applied: TuneApplied | None


# -- sessions ------------------------------------------------------------------------------------


class SessionObject(TypedDict):
    """A session as a list shows it."""

    id: Stated
    name: str | None
    workspace: Stated
    created_at: Moment | None
    updated_at: Moment | None
    state: State
    turns: Count
    need: str | None
    in_use: bool


class SessionsDocument(TypedDict):
    """`session list --json`, newest first."""

    format: Literal["escalera.sessions/1"]
    sessions: list[SessionObject]


class HitObject(TypedDict):
    """A turn that was found; the match stands between `[` and `]` in the snippet."""

    session: Stated
    name: str | None
    workspace: Stated
    turn: Count
    snippet: str


class HitsDocument(TypedDict):
    """`session search --json`, best first."""

    format: Literal["escalera.hits/1"]
    hits: list[HitObject]


class SessionRefDocument(TypedDict):
    """`session import`, `rename`, `fork` and `drop` with `--json`: the session that was made, changed or removed."""

    format: Literal["escalera.session-ref/1"]
    id: Stated
    name: str | None
    workspace: Stated
    export: str | None
    """After `drop`: the file that keeps the session."""


class LastNeedObject(TypedDict):
    """A need that was cleared."""

    text: str
    reason: Literal["fulfilled", "expired", "cleared"]
    cleared_at: Moment


class NeedDocument(NeedFields):
    """`need show`, `set`, `clear` and `restore` with `--json`."""

    format: Literal["escalera.need/1"]
    session: Stated
    last_need: LastNeedObject | None


# -- usage ---------------------------------------------------------------------------------------


class CostObject(TypedDict):
    """What some turns cost, under one label; unknown is null, never 0."""

    label: CostLabel
    usd: Annotated[float, Schema(minimum=0)] | None
    turns: Count


class UsageFigures(TypedDict):
    """Tokens and cost of some turns; what nobody reported is null."""

    turns: Count
    input_tokens: Count | None
    """All that was sent, with what came from the cache and what went into it."""
    output_tokens: Count | None
    cache_read_tokens: Count | None
    cache_write_tokens: Count | None
    reasoning_tokens: Count | None
    cache_read_share: Annotated[float, Schema(minimum=0)] | None
    cost_usd: Annotated[float, Schema(minimum=0)] | None
    """The sum of what is known."""
    cost_label: CostLabel
    """The least sure label in that sum."""
    unknown_turns: Count
    """Turns whose cost nobody knows."""
    costs: list[CostObject]


class UsageRow(UsageFigures):
    """One agent, model, session or day: the key that `by` names."""

    agent: NotRequired[str | None]
    model: NotRequired[str | None]
    session: NotRequired[str | None]
    name: NotRequired[str | None]
    """The session's."""
    day: NotRequired[str | None]


class UsageDocument(TypedDict):
    """`usage --json`."""

    format: Literal["escalera.usage/1"]
    by: UsageKey
    usage: list[Annotated[UsageRow, Schema(anyOf=[{"required": keys} for keys in (["agent"], ["model"], ["session", "name"], ["day"])])]]
    totals: UsageFigures


# -- memory --------------------------------------------------------------------------------------


class PerceptObject(TypedDict):
    """A remembered fact; `weight` in hundredths, a `workspace` of null is everywhere."""

    id: Stated
    content: Stated
    weight: Annotated[int, Schema(minimum=0, maximum=100)]
    core: bool
    scope: Literal["session", "global"]
    workspace: str | None
    session: str | None
    producer: Literal["user", "primary", "escalation", "system"]
    consumer: Stated
    subject: str | None
    trust: Literal["user", "agent", "tool_output"]
    source: Json | None
    """Where it was heard."""
    idle_seconds: Annotated[float, Schema(minimum=0)]
    created_at: Moment | None
    updated_at: Moment | None
    last_used_at: Moment | None


class EdgeObject(TypedDict):
    """A link between two facts, by their ids: `source` extends, updates, … `target`."""

    source: Stated
    target: Stated
    kind: EdgeKind


class EngramObject(TypedDict):
    """Facts with the same subject, by their ids; `weight` is the mean of theirs."""

    subject: Stated
    weight: Annotated[int, Schema(minimum=0, maximum=100)]
    percepts: list[Stated]


class PerceptsDocument(TypedDict):
    """`memory list --json`, heaviest first."""

    format: Literal["escalera.percepts/1"]
    percepts: list[PerceptObject]
    engrams: list[EngramObject]
    edges: list[EdgeObject]


class PerceptDocument(PerceptObject):
    """`memory learn`, `forget` and `restore` with `--json`."""

    format: Literal["escalera.percept/1"]
    stored: bool | None
    """After `learn`: false where the fact was known and was reinforced. Null after `forget`, true after `restore`."""


class ChosenPercept(TypedDict):
    """A fact that is told, and how well it fits: 1 for all where nothing was asked for, 0 for a core fact that does not fit."""

    id: Stated
    content: Stated
    score: Annotated[float, Schema(minimum=0)]


class LeftOutPercept(TypedDict):
    """A fact that is not told, and why."""

    id: Stated
    content: Stated
    why: Stated


class WhyDocument(TypedDict):
    """`memory why --json`, best first."""

    format: Literal["escalera.why/1"]
    agent: Stated
    chosen: list[ChosenPercept]
    withheld: list[LeftOutPercept]


class StalePercept(PerceptObject):
    """A fact that goes to the archive unless it is used; `seconds_left` of running time are left to it, null is for ever."""

    seconds_left: Annotated[float, Schema(minimum=0)] | None


class StaleDocument(TypedDict):
    """`memory stale --json`: global facts that are not core, the next to go first. Days of null: nothing goes for its age."""

    format: Literal["escalera.stale/1"]
    archive_after_days: float | None
    percepts: list[StalePercept]


class ArchivedObject(PerceptObject):
    """A fact that left the store, with the links that touched it."""

    archived_at: Moment | None
    reason: Stated
    idle_days: Annotated[float, Schema(minimum=0)]
    edges: list[EdgeObject]


class ArchiveDocument(TypedDict):
    """`memory archive --json`, in the order of leaving."""

    format: Literal["escalera.archive/1"]
    archived: list[ArchivedObject]


class ConsolidatedDocument(TypedDict):
    """`memory consolidate --json`: what one pass did, facts by their ids."""

    format: Literal["escalera.consolidated/1"]
    pruned: list[Stated]
    promoted: list[Stated]
    merged: list[Stated]
    archived: list[Stated]
    capped: list[Stated]
    problem: Stated | None
    """Why the archive could not be written."""


class SkippedLine(TypedDict):
    """What an import left out."""

    line: Annotated[int, Schema(minimum=1)]
    why: Stated


class ImportedDocument(TypedDict):
    """`memory import --json`: how many facts are new, how many were known, and what was left out."""

    format: Literal["escalera.imported/1"]
    stored: Count
    known: Count
    skipped: list[SkippedLine]


class MemoryDocument(TypedDict):
    """`memory export`: everything that is remembered, of all sessions, and what is in the archive."""

    format: Literal["escalera.memory/1"]
    percepts: list[PerceptObject]
    edges: list[EdgeObject]
    archived: list[ArchivedObject]


# -- questions -----------------------------------------------------------------------------------


class GivenObject(TypedDict):
    """An answer; `by` is `human`, or `expiry` or `asker` where a question was cancelled without one."""

    action: Literal["accept", "decline", "cancel"]
    content: Json
    by: Stated
    at: Moment


class QuestionObject(Lifetime):
    """What an agent asks a human. A withdrawn question is answered: cancelled by its `asker`."""

    id: Stated
    session: str | None
    turn: Count | None
    agent: str
    mode: QuestionMode
    message: str
    requested_schema: Json
    url: str | None
    durable: bool
    """Whether the answer may also come when the turn has ended."""
    created: Moment
    state: QuestionState
    answer: GivenObject | None
    late: list[GivenObject]
    """Answers that came too late, and are kept."""


class QuestionsDocument(TypedDict):
    """`questions list --json`, oldest first."""

    format: Literal["escalera.questions/1"]
    questions: list[QuestionObject]


class QuestionDocument(QuestionObject):
    """`questions show` and `answer` with `--json`, and each line of `questions watch --json`."""

    format: Literal["escalera.question/1"]


class ContinuationObject(Lifetime):
    """A token, which nothing lengthens: each answer brings a new one."""

    token: Stated


class WaitingDocument(TypedDict):
    """What the server answers while a turn waits for a question: with the token, another request goes on with it."""

    format: Literal["escalera.waiting/1"]
    session: Stated
    turn: Count
    question: QuestionObject
    continuation: ContinuationObject


# -- permissions ---------------------------------------------------------------------------------


class PermissionObject(TypedDict):
    """One rule on what tools may do: of the settings, or allowed when a tool asked."""

    id: str | None
    """Null for a rule of the settings, which is changed there."""
    effect: Effect
    rule: Stated
    agent: str | None
    """Null where it counts for every agent."""
    workspace: str | None
    """Null where it counts in every workspace."""
    session: str | None
    """Null where it counts in every session."""
    source: Stated
    """`asked`, or the source of the setting: `file:PATH`, `env:NAME`, `flag`."""
    created: Moment | None


class PermissionsDocument(TypedDict):
    """`permissions list --json`, what goes before first; `permissions revoke --json` has those that were taken back."""

    format: Literal["escalera.permissions/1"]
    permissions: list[PermissionObject]


# -- background tasks ----------------------------------------------------------------------------


class TaskObject(Lifetime):
    """A turn in the background. Its deadline is its result's, which counts once it has ended."""

    id: Stated
    session: Stated
    prompt: str
    created: Moment
    state: TaskState
    updated: Moment | None
    """When its state changed last."""
    exit_code: int | None
    """What the command would have ended with."""
    cancelling: bool


class TasksDocument(TypedDict):
    """`tasks list --json`, oldest first."""

    format: Literal["escalera.tasks/1"]
    tasks: list[TaskObject]


class TaskDocument(TaskObject):
    """`ask --background`, `tasks show` and `tasks cancel` with `--json`. `tasks result --json` is the turn document."""

    format: Literal["escalera.task/1"]


# -- artifacts -----------------------------------------------------------------------------------


class ArtifactObject(Lifetime):
    """A large answer or tool result, or an attached file, that is kept until it expires."""

    id: Stated
    kind: ArtifactKind
    name: str | None
    """The tool whose result it is, or the file's name."""
    session: Stated
    turn: Count | None
    """Null for a file of a background turn."""
    size: Count
    """In bytes."""
    sha256: Annotated[str, Schema(pattern="^[0-9a-f]{64}$")]
    created: Moment


class ArtifactsDocument(TypedDict):
    """`artifacts list --json`, oldest first."""

    format: Literal["escalera.artifacts/1"]
    artifacts: list[ArtifactObject]


class ArtifactDocument(ArtifactObject):
    """`artifacts show --json`."""

    format: Literal["escalera.artifact/1"]
    text: str
    """What it holds; what is no UTF-8 of it is replaced."""


# -- agents, plugins, settings -------------------------------------------------------------------


class AgentObject(TypedDict):
    """A configured agent; `problem` says why it cannot be asked."""

    name: Stated
    roles: list[Role]
    provider: Stated
    model: str | None
    source: Stated
    problem: str | None
    mcp_servers: list[str]
    """The MCP servers whose tools it is offered."""


class AgentsDocument(TypedDict):
    """`agents list --json`."""

    format: Literal["escalera.agents/1"]
    agents: list[AgentObject]


class AgentDocument(AgentObject):
    """`agents use` and `agents add` with `--json`: the agent as it is configured now."""

    format: Literal["escalera.agent/1"]


class CheckObject(TypedDict):
    """Whether an agent answers."""

    name: Stated
    provider: Stated
    model: str | None
    ok: bool
    status: CheckStatus
    detail: str
    hint: str | None


class ServerCheckObject(TypedDict):
    """Whether an MCP server answers, and the tools that it has for agents, by the names under which they know them."""

    name: Stated
    ok: bool
    tools: list[str]
    problem: str | None


class ChecksDocument(TypedDict):
    """`agents check --json`."""

    format: Literal["escalera.checks/1"]
    agents: list[CheckObject]
    mcp_servers: list[ServerCheckObject]


FindingArea = Literal["roles", "configuration", "servers", "claude", "aws", "keys", "embedded", "plugins", "store", "processes"]
FindingStatus = Literal["works", "ready", "note", "absent", "problem"]
"""`ready`: everything is there, and it was not contacted; `absent`: not there, which harms nobody by itself."""


class FindingObject(TypedDict):
    """One thing that was looked at; `next` is what to do about it."""

    area: FindingArea
    name: str
    status: FindingStatus
    detail: str
    next: str | None


class BundledFile(TypedDict):
    """One file in a bundle."""

    name: Stated
    bytes: int


class BundleObject(TypedDict):
    """What `doctor --bundle` has written."""

    file: Stated
    contents: list[BundledFile]


class DoctorDocument(TypedDict):
    """`doctor --json`; `ok` where both roles have an agent that can work."""

    format: Literal["escalera.doctor/1"]
    ok: bool
    findings: list[FindingObject]
    user_file: Stated
    suggestion: str | None
    """A configuration to start with, in TOML."""
    written: bool
    bundle: BundleObject | None


class NotificationDocument(TypedDict):
    """What `notify.command` gets on its standard input: a question or an answer has come, or a turn has failed."""

    format: Literal["escalera.notification/1"]
    event: Literal["question", "answer", "failed"]
    session: Stated
    agent: Stated
    text: str
    """Its beginning, 200 characters at most on one line."""


class WireDocument(TypedDict):
    """`session show --turn N --wire --json`: the last request of a turn and its answer, secrets masked."""

    format: Literal["escalera.wire/1"]
    session: Stated
    turn: int
    agent: Stated
    sent: str
    received: str
    cut: bool
    """Whether something was cut out of a side's middle, since it was long."""


class PluginObject(TypedDict):
    """An installed plugin; one with a problem may still be loaded."""

    name: Stated
    distribution: str
    version: str
    loaded: bool
    kinds: list[Stated]
    problem: str | None
    blocked: bool
    hooks: list[Stated]
    """The hooks that it implements."""
    hook_problems: list[Stated]
    """What it gives wrongly where those hooks were tried."""


class MissingPlugin(TypedDict):
    """A plugin that `plugins.wanted` names and that is not there as it is named."""

    requirement: Stated
    distribution: Stated
    problem: Stated


class PluginsDocument(TypedDict):
    """`plugins list --json`."""

    format: Literal["escalera.plugins/1"]
    plugins: list[PluginObject]
    missing: list[MissingPlugin]


class CheckedObject(TypedDict):
    """One check of the provider kit. `not_claimed`: the provider does not do that; `not_shown`: its harness cannot play it."""

    check: Stated
    capability: Stated
    status: Literal["passed", "failed", "not_claimed", "not_shown"]
    shows: Stated
    """What holds where it passes."""
    detail: str | None
    """What is wrong, or why it was not made."""
    seconds: Annotated[float, Schema(minimum=0)]


class CheckCounts(TypedDict):
    """How many checks came to what."""

    passed: Count
    failed: Count
    not_claimed: Count
    not_shown: Count


class ConformanceDocument(TypedDict):
    """`plugins check KIND --json`; `ok` where nothing failed and an answer was shown."""

    format: Literal["escalera.conformance/1"]
    kind: Stated
    distribution: str
    version: str
    kit: Count
    """The version of the kit."""
    api_level: Count
    """The plugin API level."""
    ok: bool
    counts: CheckCounts
    checks: list[CheckedObject]


class PackageDocument(TypedDict):
    """`plugins new NAME --json`: the package that was written."""

    format: Literal["escalera.package/1"]
    folder: Stated
    kind: Stated
    files: list[Stated]


class ShadowedObject(TypedDict):
    """What another source says."""

    source: Stated
    value: Any


class SettingObject(TypedDict):
    """A setting: durations as text, `unlimited` as that word, secrets as `***`."""

    path: Stated
    value: Any
    default: Any
    source: Annotated[str, Schema(pattern="^(default|file:.+|env:.+|flag|runtime)$")]
    shadowed: list[ShadowedObject]
    """What would count without this one, the next first."""
    type: Stated
    unit: str | None
    help: str
    flag: str | None
    env: str | None


class SettingsDocument(TypedDict):
    """`settings list --json`."""

    format: Literal["escalera.settings/1"]
    settings: list[SettingObject]


class SettingDocument(SettingObject):
    """`settings get`, `set` and `unset` with `--json`: what counts now."""

    format: Literal["escalera.setting/1"]
    written: NotRequired[str | None]
    """The server's answer to a change: the file that was changed."""


class PathsDocument(TypedDict):
    """`paths --json`: the four folders."""

    format: Literal["escalera.paths/1"]
    config: Stated
    data: Stated
    state: Stated
    cache: Stated


class IgnoredTemplate(TypedDict):
    """A file that stands in for no template, and why."""

    origin: Literal["user", "project", "plugin"]
    path: Stated
    plugin: str | None
    problem: str | None
    """Null where it only stands behind another one."""


class TemplateObject(TypedDict):
    """A template as it is in use."""

    name: Stated
    origin: Literal["user", "project", "plugin", "built-in"]
    path: Stated
    plugin: str | None
    values: list[Stated]
    """The names that it is given."""
    ignored: list[IgnoredTemplate]


class TemplatesDocument(TypedDict):
    """`templates list --json`."""

    format: Literal["escalera.templates/1"]
    templates: list[TemplateObject]
    unknown: list[IgnoredTemplate]
    """Files with the name of no template."""


class EnabledObject(TypedDict):
    """A key that is ignored until its file is accepted; secrets in the value are masked."""

    path: Stated
    value: Any


class ProjectFileDocument(TypedDict):
    """`trust --json`: a project file or the folder of a project without one, whether it is accepted now, and what that enables.

    Among what is enabled are the project's AGENTS.md and templates, with their texts.
    """

    format: Literal["escalera.project-file/1"]
    file: Stated
    accepted: bool
    enables: list[EnabledObject]


class AcceptedFile(TypedDict):
    """A project file that was accepted, with that content."""

    file: Stated
    sha256: Stated
    standing: Literal["accepted", "changed", "gone"]
    """Whether the file still is what was accepted."""


class TrustedDocument(TypedDict):
    """`trust --list --json`."""

    format: Literal["escalera.trusted/1"]
    files: list[AcceptedFile]


Document = (
    TurnDocument
    | ErrorDocument
    | PlanDocument
    | ReceiptDocument
    | PlanDiffDocument
    | TuneDocument
    | SessionsDocument
    | HitsDocument
    | SessionRefDocument
    | NeedDocument
    | PerceptsDocument
    | PerceptDocument
    | QuestionsDocument
    | QuestionDocument
    | PermissionsDocument
    | TasksDocument
    | TaskDocument
    | ArtifactsDocument
    | ArtifactDocument
    | WhyDocument
    | StaleDocument
    | ArchiveDocument
    | ConsolidatedDocument
    | ImportedDocument
    | MemoryDocument
    | AgentsDocument
    | AgentDocument
    | ChecksDocument
    | DoctorDocument
    | WireDocument
    | NotificationDocument
    | UsageDocument
    | PluginsDocument
    | ConformanceDocument
    | PackageDocument
    | SettingsDocument
    | SettingDocument
    | TemplatesDocument
    | PathsDocument
    | ProjectFileDocument
    | TrustedDocument
)
"""All that commands print but the session document, whose declaration (`models`) is also what reads it."""

ServerDocument = ProblemDocument | WaitingDocument
"""What only the server answers."""
