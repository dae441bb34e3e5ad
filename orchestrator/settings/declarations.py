"""Every setting, declared once: its key, variable, flag, row in the reference and meaning follow from here (page 5)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

SettingType = Literal["bool", "int", "number", "text", "duration", "size", "list"]
SettingValue = bool | int | float | str | tuple[str, ...] | None
"""A value as it is written and shown: durations and sizes as text with their unit, `unlimited` as that word, `None` for unset."""

UNLIMITED = "unlimited"


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. `default` is spelled as a user would write it; `minimum` is in `unit`, or in seconds for durations."""

    path: str
    type: SettingType
    default: SettingValue
    help: str
    unit: str | None = None
    minimum: float | None = None
    unlimited: bool = False
    """Takes the word `unlimited`."""
    zero_is_unlimited: bool = False
    """`unlimited` is stored as 0, since `None` stands for unset."""
    per_agent: bool = False
    """`agents.NAME.PATH` exists too, and goes before the global value."""
    hot: bool = True
    """A change counts from the next turn on; else from the next start."""
    needs_trust: bool = False
    """A project file may set it only once the user has accepted that file."""
    is_command: bool = False
    """A program and its arguments: files of a project that they name are accepted with its file, as they are."""

    @property
    def env(self) -> str:
        """Its environment variable."""
        return "ESCALERA_" + self.path.upper().replace(".", "_")

    @property
    def flag(self) -> str:
        """Its flag on the command line."""
        return "--" + self.path.replace(".", "-").replace("_", "-")

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rpartition(".")[2]


def _limit(
    name: str,
    type_: SettingType,
    default: SettingValue,
    help_: str,
    *,
    unit: str | None = None,
    minimum: float | None = 0,
    unlimited: bool = False,
    zero_is_unlimited: bool = False,
) -> Setting:
    return Setting(
        f"limits.{name}", type_, default, help_, unit=unit, minimum=minimum, unlimited=unlimited, zero_is_unlimited=zero_is_unlimited, per_agent=True
    )


_SHORTEST = 0.001
"""Seconds: durations that must not be zero are whole milliseconds at least."""

VERBS = (
    "analyse",
    "analyze",
    "architect",
    "debug",
    "design",
    "diagnose",
    "investigate",
    "migrate",
    "optimise",
    "optimize",
    "prove",
    "redesign",
    "refactor",
    "restructure",
    "review",
    "rewrite",
)
QUESTION_WORDS = ("how", "why", "what if", "which", "should")


def _routing(name: str, type_: SettingType, default: SettingValue, help_: str, *, unit: str | None = None, minimum: float | None = 0) -> Setting:
    return Setting(f"routing.{name}", type_, default, help_, unit=unit, minimum=minimum, needs_trust=True)


SETTINGS: tuple[Setting, ...] = (
    Setting("primary", "text", None, "The agent that gets a turn unless something says otherwise; unset: `local`, if there is one."),
    Setting("escalation", "text", None, "The agent that the primary hands over to; unset: `stand-in`, if there is one."),
    Setting(
        "fallback", "bool", False, "Offer the other agent when the chosen one is unavailable before anything was sent. Has no effect yet.", needs_trust=True
    ),
    Setting("need_expiry_hours", "number", 24, "A need older than this is cleared; 0 = never.", unit="hours", minimum=0),
    Setting("waiting_expiry_hours", "number", 24, "How long an agent's closing question waits for the user's reply; 0 = for ever.", unit="hours", minimum=0),
    Setting(
        "global_archive_after_days",
        "number",
        14,
        "Running time after which unused global percepts at the weight threshold go to the archive; 0 = at once, negative = never.",
        unit="days",
    ),
    Setting(
        "percept_store_max",
        "int",
        None,
        "How many percepts are kept before the lightest go to the archive; unset = any number.",
        unit="percepts",
        minimum=1,
    ),
    Setting("session_wait", "duration", "30s", "How long a turn waits for another process to let go of the session; 0s = not at all.", minimum=0),
    _limit(
        "returning_fresh_start_local_turns",
        "int",
        8,
        "Primary turns after which a return to the escalation agent starts afresh; 0 or unlimited = never by turn count.",
        unit="turns",
        unlimited=True,
        zero_is_unlimited=True,
    ),
    _limit(
        "message_budget_chars",
        "int",
        None,
        "Characters that one call may send; unset = from the context window, else 100,000; 0 or unlimited = no limit.",
        unit="characters",
        unlimited=True,
        zero_is_unlimited=True,
    ),
    _limit("context_window_tokens", "int", None, "The model's window; unset = what the provider knows.", unit="tokens", minimum=1),
    _limit("output_reserve_tokens", "int", 4096, "Tokens of the window that are kept free for the answer, a quarter of it at most.", unit="tokens"),
    _limit("context_budget_chars", "int", 12000, "Characters of each digest; 0 = no digests.", unit="characters", unlimited=True),
    _limit("percept_inject_max", "int", 25, "Percepts that are told to an agent; 0 = none.", unit="percepts", unlimited=True),
    _limit("percept_inject_max_bytes", "size", 2048, "Size of the told percepts in UTF-8; 0 = none.", unit="bytes", unlimited=True),
    _limit("percept_relevance_gate", "bool", True, "Tell only percepts that have to do with the prompt or the need, and core ones.", minimum=None),
    _limit("max_tool_iterations", "int", 20, "Rounds of tool calls in one turn; 0 = no tools are offered.", unit="rounds", unlimited=True),
    _limit(
        "tool_result_max_chars",
        "int",
        8000,
        "Characters of one tool result; the middle of a longer one is cut out.",
        unit="characters",
        minimum=1,
        unlimited=True,
    ),
    _limit("first_byte_timeout", "duration", "60s", "How long a call waits for the first sign of life.", minimum=_SHORTEST, unlimited=True),
    _limit("idle_timeout", "duration", "120s", "How long a call waits for the next sign of life.", minimum=_SHORTEST, unlimited=True),
    _limit("turn_timeout", "duration", "10m", "How long a whole turn may take; time in open questions does not count.", minimum=_SHORTEST, unlimited=True),
    _limit("retry_attempts", "int", 3, "How often a call that failed for a passing reason is sent again; 0 = never.", unit="retries"),
    _limit("retry_max_wait", "duration", "60s", "The longest wait before a retry; a provider that asks for more fails the turn at once."),
    Setting("questions.ttl", "duration", "120s", "How long a question stays open after it was last read.", minimum=_SHORTEST),
    Setting("questions.max_age", "duration", "30m", "How long a question stays open at most, however often it is read.", minimum=_SHORTEST),
    Setting("questions.keep", "duration", "30d", "How long answered and expired questions are kept.", minimum=_SHORTEST),
    Setting("tasks.ttl", "duration", "10m", "How long a background task's result is kept after it was last read.", minimum=_SHORTEST),
    Setting("tasks.max_age", "duration", "24h", "How long a background task's result is kept at most.", minimum=_SHORTEST),
    Setting(
        "artifacts.inline_max",
        "size",
        "64KiB",
        "Answers and tool results that are larger are kept as artifacts, too.",
        minimum=0,
        unlimited=True,
    ),
    Setting("artifacts.ttl", "duration", "24h", "How long an artifact is kept.", minimum=_SHORTEST),
    Setting(
        "artifacts.idle_ttl",
        "duration",
        None,
        "How long an artifact is kept after it was last read, at most for artifacts.ttl; unset = for artifacts.ttl, read or not.",
        minimum=_SHORTEST,
    ),
    Setting("artifacts.quota", "size", "256MiB", "What all artifacts may hold together; 0 = there are none.", minimum=0, unlimited=True),
    Setting(
        "server.session_idle",
        "duration",
        "30m",
        "How long `serve` keeps what it holds of a session that nobody uses: its agents' processes, the events of its last turns, calls of a client's tools.",
        minimum=_SHORTEST,
        needs_trust=True,
    ),
    Setting(
        "server.idle_exit",
        "duration",
        "0s",
        "After how long without a request `serve` ends; 0 = never. Open streams, turns, running tasks and open questions keep it.",
        needs_trust=True,
    ),
    Setting("server.token_ttl", "duration", "30m", "How long a continuation token counts that a client was given.", minimum=_SHORTEST, needs_trust=True),
    Setting(
        "server.body_max", "size", "8MiB", "The largest body of a request to `serve`; 0 = none has one.", unit="bytes", minimum=0, hot=False, needs_trust=True
    ),
    Setting("server.hosts", "list", (), "Names besides the loopback ones under which `serve` may be addressed.", hot=False, minimum=None, needs_trust=True),
    _routing(
        "threshold",
        "number",
        1,
        "What the signals about a prompt must weigh together for the escalation agent to get the turn; 0 = never by signals.",
    ),
    _routing(
        "factors",
        "list",
        (),
        "What a signal's weight is multiplied by, as NAME=FACTOR; 0 = it does not count, none given = 1. For the signals of plugins, too.",
        minimum=None,
    ),
    _routing("long_prompt_chars", "int", 0, "From how many characters on a prompt gives the signal `long_prompt`; 0 = none does.", unit="characters"),
    _routing("long_prompt_weight", "number", 1, "What that weighs. A negative weight, here and below, speaks for the primary.", minimum=None),
    _routing("keywords", "list", (), "Words or rows of words, each as a whole, that give the signal `keywords` where one stands in the prompt.", minimum=None),
    _routing("keywords_weight", "number", 1, "What that weighs.", minimum=None),
    _routing("verbs", "list", VERBS, "Words that give the signal `verbs`, each as a whole word in just this form.", minimum=None),
    _routing("verbs_weight", "number", 0, "What that weighs; 0, here and below, = no opinion.", minimum=None),
    _routing("code_weight", "number", 0, "What the signal `code` weighs: something between backticks, or in a fence as attached files are.", minimum=None),
    _routing("paths_weight", "number", 0, "What the signal `paths` weighs: a path such as /etc/hosts, ./run or src/parser.py.", minimum=None),
    _routing("question_words", "list", QUESTION_WORDS, "Words that make a question an open one.", minimum=None),
    _routing("open_questions_weight", "number", 0, "What the signal `open_questions` weighs: a sentence that ends in `?` with such a word.", minimum=None),
    _routing(
        "repeated_prompts",
        "int",
        3,
        "Among how many of your last prompts one that says the same is looked for: the primary then hands over at once; 0 = never.",
        unit="prompts",
    ),
    _routing(
        "classifier",
        "bool",
        False,
        "Where nothing else decides, the primary's model is asked first whether a prompt is beyond it; one more call for each such turn.",
        minimum=None,
    ),
    _routing("classifier_timeout", "duration", "20s", "How long that call may take; the primary has the turn when it comes to nothing.", minimum=_SHORTEST),
    Setting(
        "notify.terminal",
        "bool",
        False,
        "`chat` rings, and notifies the desktop (OSC 9), when an answer or a question comes while its terminal has not the focus.",
        hot=False,
    ),
    Setting(
        "notify.command",
        "list",
        (),
        "A program and its arguments, run in those cases of `chat`, and when `ask` puts a question on the terminal: it gets a JSON document on its input.",
        hot=False,
        needs_trust=True,
        is_command=True,
    ),
    Setting(
        "permissions.deny",
        "list",
        (),
        "What tools that ask may never do, as in `run(git push *)`, `write(migrations/**)`, `read(.env)`; goes before the other two.",
        needs_trust=True,
    ),
    Setting("permissions.ask", "list", (), "What is asked about each time, whatever has been allowed.", needs_trust=True),
    Setting(
        "permissions.allow",
        "list",
        (),
        "What needs no question, in any workspace; `escalera permissions` has what you allowed when you were asked.",
        needs_trust=True,
    ),
    Setting("plugins.strict", "bool", False, "A plugin that does not load ends the program instead of being reported.", hot=False, needs_trust=True),
    Setting("plugins.blocked", "list", (), "Plugins that are not loaded, by name or by distribution.", hot=False, needs_trust=True),
    Setting("plugins.wanted", "list", (), "Plugins that shall be there, as requirements; `plugins sync` installs what is missing.", needs_trust=True),
)

BY_PATH = {setting.path: setting for setting in SETTINGS}
BY_ENV = {setting.env: setting for setting in SETTINGS}
LIMITS = {setting.name: setting for setting in SETTINGS if setting.per_agent}
"""The settings of `[limits]` and `[agents.NAME.limits]`, by their names there."""


def reference_table(settings: Iterable[Setting] = SETTINGS) -> str:
    """The settings as a Markdown table, for the reference in docs/."""
    head = ("| setting | type | default | variable | flag | meaning |", "| --- | --- | --- | --- | --- | --- |")
    return "\n".join((*head, *map(_row, settings))) + "\n"


def _row(setting: Setting) -> str:
    kind = f"{setting.type}, {setting.unit}" if setting.unit else setting.type
    help_ = setting.help + (" Takes `unlimited`." if setting.unlimited else "") + (" Also per agent." if setting.per_agent else "")
    return f"| `{setting.path}` | {kind} | {_shown_default(setting.default)} | `{setting.env}` | `{setting.flag}` | {help_} |"


def _shown_default(default: SettingValue) -> str:
    if default is None or default == ():
        return "unset"
    if isinstance(default, bool):
        return "`true`" if default else "`false`"
    return f"`{', '.join(default)}`" if isinstance(default, tuple) else f"`{default}`"
