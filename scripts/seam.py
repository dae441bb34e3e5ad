"""The page of what passes the seam between the core and a provider: requests, parts, events, capabilities, errors, and the tools of the kit."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import re
import textwrap
from collections.abc import Iterator, Sequence
from types import ModuleType

from orchestrator import errors, exchange, messages, providers, retry_after
from orchestrator.errors import ProviderError
from orchestrator.testing import scripted, scripted_program

ABOUT = """\
What a provider is given, what it gives back, and what it may raise: each class with its fields and their defaults, as they stand in the code.
[plugins.md](plugins.md) says how they go together, [provider-checks.md](provider-checks.md) what is looked at.

The events of a plain answer are `TextDelta` …, `MessageDone((Text(…),))`, `UsageReport`, `Finished("stop")`. Reasoning is shown with `ReasoningDelta` and kept
as a `Reasoning` in the `MessageDone`, before the text that came after it. A call of tools is a `ToolCall` in the `MessageDone`, and `Finished("tool_calls")`.
"""
ABOUT_ERRORS = """\
All of them are called with the message first and keywords behind it: `hint` (what to do, one line), `partial` (the text that had come), and what the table
names. The core sends a request again, at most `limits.retry_attempts` times, where the error is *sent again* and nothing of the answer has come: no event of it
was given, and neither `emitted` nor `final` is set. It waits `retry_after` seconds where that is named, and does not send again where that is longer than
`limits.retry_max_wait`. Any other error ends the attempt at once, but for what stands under the second table; a lost conversation is begun anew.

What is printed is the message and the hint, bare: neither the class nor the agent's name is added, so a message should say who failed, as in
`sage cannot be started: …`. `--json` has the class as `type` of its `error`, and `retryable`. A program that ends badly is `Incomplete` where something of its
answer had come, and `Unavailable` where nothing had.
"""

_PARTS = (messages.Text, messages.Reasoning, messages.ToolCall, messages.ToolResult, messages.Message, messages.Usage)
_ASKED = (providers.Request, providers.SystemBlock, providers.ToolSchema, providers.Conversation, providers.Timeouts, providers.AgentContext)
_EVENTS = (
    providers.TextDelta,
    providers.ReasoningDelta,
    providers.MessageDone,
    providers.ToolResultSeen,
    providers.UsageReport,
    providers.ExternalSessionStarted,
    providers.Notice,
    providers.Withdrawn,
    providers.Finished,
)
_REST = (providers.ProviderKind, providers.CheckResult, providers.Question, providers.Answer)
_TOOLS = (
    (providers, (providers.Provider, providers.Cancel, providers.Stop, providers.Wire)),
    (exchange, (exchange.Exchange, exchange.Reading, exchange.Watch, exchange.Timers)),
    (scripted, (scripted.Reply, scripted.Request, scripted.ScriptedServer, scripted.LoopbackServer)),
    (scripted_program, (scripted_program.ScriptedProgram,)),
)


def seam_page() -> str:
    """The whole page below its title."""
    return "\n".join((ABOUT, *_sections()))


def _sections() -> Iterator[str]:
    for title, classes in (
        ("What a provider can do", (providers.Capabilities,)),
        ("What it is asked", _ASKED),
        ("Messages and their parts", _PARTS),
        ("Events", _EVENTS),
        ("Kinds, checks and questions", _REST),
    ):
        yield f"## {title}\n"
        yield from itertools.chain.from_iterable(map(_fields, classes))
    yield from _errors()
    yield "## Tools\n"
    for module, classes in _TOOLS:
        yield from itertools.chain.from_iterable(_methods(module, one) for one in classes)
    yield from _functions(retry_after, ("named_wait", "wait_in_words"))
    yield from _steps()


def _fields(described: type) -> Iterator[str]:
    """A class with its fields: type, default, meaning."""
    yield f"### `{described.__name__}`\n\n{_doc(described)}\n"
    rows = list(_rows(described))
    if rows:
        yield "| field | type | default | meaning |\n| --- | --- | --- | --- |\n" + "\n".join(rows) + "\n"


def _rows(described: type) -> Iterator[str]:
    body = ast.parse(textwrap.dedent(inspect.getsource(described))).body[0].body  # type: ignore[attr-defined]  # it is a class
    for declared, about in itertools.zip_longest(body, body[1:]):
        if not isinstance(declared, ast.AnnAssign) or ast.unparse(declared.target).startswith("_"):
            continue
        default = f"`{_default(declared.value)}`" if declared.value is not None else ""
        kind = _cell(" | ".join(map(_written_out, ast.unparse(declared.annotation).split(" | ")))).replace("'", '"')
        said = about.value.value if isinstance(about, ast.Expr) and isinstance(about.value, ast.Constant) else ""
        yield f"| `{ast.unparse(declared.target)}` | `{kind}` | {default} | {_line(str(said))} |"


def _written_out(kind: str) -> str:
    """A name for a choice of words as the choice itself."""
    named = next((vars(module)[kind] for module in (providers, messages) if kind in vars(module)), None)
    return str(named).removeprefix("typing.") if str(named).startswith("typing.Literal[") else kind


def _default(value: ast.expr) -> str:
    """A default as one writes it: what a `field(…)` makes, instead of how."""
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "field":
        named = {word.arg: word.value for word in value.keywords}
        made = named.get("default_factory")
        return ast.unparse(named["default"]) if made is None else f"{ast.unparse(made).rpartition('.')[2]}()".replace("dict()", "{}")
    return ast.unparse(value).replace("'", '"')


def _errors() -> Iterator[str]:
    yield f"## Errors\n\n{ABOUT_ERRORS}"
    yield "| class | is a | sent again | exit code | keywords | meaning |\n| --- | --- | --- | --- | --- | --- |"
    for error in (one for one in vars(errors).values() if inspect.isclass(one) and issubclass(one, ProviderError)):
        again = "yes" if error.retryable else ""
        yield f"| `{error.__name__}` | `{error.__bases__[0].__name__}` | {again} | {error.exit_code} | {_keywords(error)} | {_line(_doc(error))} |"
    yield "\nWhat a provider may set on an error that it has made:\n\n| attribute | default | meaning |\n| --- | --- | --- |"
    body = ast.parse(textwrap.dedent(inspect.getsource(ProviderError.__init__))).body[0].body  # type: ignore[attr-defined]  # it is a function
    for declared, about in itertools.pairwise(body):
        if isinstance(declared, ast.Assign | ast.AnnAssign) and isinstance(about, ast.Expr) and declared.value is not None:
            target = declared.target if isinstance(declared, ast.AnnAssign) else declared.targets[0]
            yield f"| `{ast.unparse(target).removeprefix('self.')}` | `{ast.unparse(declared.value)}` | {_line(ast.literal_eval(about.value))} |"
    yield ""


def _keywords(error: type[ProviderError]) -> str:
    common = set(inspect.signature(ProviderError).parameters)
    return ", ".join(f"`{name}`" for name in inspect.signature(error).parameters if name not in common)


def _methods(module: ModuleType, described: type) -> Iterator[str]:
    """A class with its public methods and attributes."""
    yield f"### `{module.__name__}.{described.__name__}`\n\n{_doc(described)}\n"
    if dataclasses.is_dataclass(described):
        yield "| field | type | default | meaning |\n| --- | --- | --- | --- |\n" + "\n".join(_rows(described)) + "\n"
    made = vars(described).get("__init__")
    if inspect.isfunction(made) and not dataclasses.is_dataclass(described) and made.__module__ == module.__name__:
        yield f"- `{described.__name__}{_signature(made)}`"
    for name, member in vars(described).items():
        function = member.fget if isinstance(member, property) else member
        if inspect.isfunction(function) and not name.startswith("_"):
            shown = name if isinstance(member, property) else f"{name}{_signature(function)}"
            yield f"- `{shown}`" + (f": {' '.join(_doc(function).split())}" if function.__doc__ else "")
    yield ""


def _functions(module: ModuleType, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        function = getattr(module, name)
        yield f"### `{module.__name__}.{name}{_signature(function)}`\n\n{_doc(function)}\n"


def _steps() -> Iterator[str]:
    """What a scripted program is told to do, beside bytes and exit codes."""
    yield "The steps of a `ScriptedProgram`:\n\n| step | meaning |\n| --- | --- |"
    yield "| `bytes` | they are written and flushed |\n| a number | the exit code, at once; else it is 0 |"
    body = ast.parse(inspect.getsource(scripted_program)).body
    for declared, about in itertools.pairwise(body):
        if isinstance(declared, ast.AnnAssign) and ast.unparse(declared.annotation) == "Final" and isinstance(about, ast.Expr):
            yield f"| `{ast.unparse(declared.target)}` | {_line(ast.literal_eval(about.value))} |"
    yield ""


def _signature(function: object) -> str:
    shown = str(inspect.signature(function)).replace("(self, ", "(").replace("(self)", "()")  # type: ignore[arg-type]  # it is a function
    return re.sub(r"(= )?'([^']*)'", lambda found: f'= "{found[2]}"' if found[1] else found[2], shown).removesuffix(" -> None")


def _doc(described: object) -> str:
    """Its description, without the places in a specification that readers of the page do not have."""
    return re.sub(r" \(page \d[^)]*\)", "", inspect.getdoc(described) or "")


def _line(text: str) -> str:
    return _cell(re.sub(r" \(page \d[^)]*\)", "", " ".join(text.split())))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
