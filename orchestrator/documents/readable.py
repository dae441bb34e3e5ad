"""A session for human eyes: Markdown, or one HTML page that needs nothing else (page 6).

All that users, agents and tools wrote is shown, never obeyed: it cannot leave its place, bring markup of its own, or drive a terminal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from html import escape

from orchestrator.clock import format_time
from orchestrator.messages import Part, Reasoning, Text, ToolCall
from orchestrator.session import Session, Turn
from orchestrator.terminal import clean


def markdown(session: Session, turns: Sequence[Turn]) -> str:
    """A heading for the session and for each turn; what was said stands in block quotes, tools in fences."""
    lines = [f"# {_escape_line(_title(session))}", "", *(f"- {name}: {_escape_line(value)}" for name, value in _facts(session))]
    for turn in turns:
        lines += ["", f"## {_escape_line(_heading(turn))}"]
        for label, text, code in _sections(turn):
            lines += ["", f"**{_escape_line(label)}**", "", *(_fenced(clean(text)) if code else _quoted(clean(text)))]
    return "\n".join(lines) + "\n"


def html(session: Session, turns: Sequence[Turn]) -> str:
    """One page in UTF-8 without scripts; its own policy forbids to load anything."""
    title = escape(_title(session))
    facts = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in _facts(session))
    articles = "\n".join(_article(turn) for turn in turns)
    return f"{_HEAD}<title>{title}</title>\n</head>\n<body>\n<h1>{title}</h1>\n<dl>{facts}</dl>\n{articles}\n</body>\n</html>\n"


def _title(session: Session) -> str:
    return clean(session.name or f"Session {session.id}", keep_newlines=False)


def _facts(session: Session) -> Iterator[tuple[str, str]]:
    yield "id", clean(session.id, keep_newlines=False)
    yield "workspace", clean(session.workspace, keep_newlines=False)
    if session.created_at is not None:
        yield "created", format_time(session.created_at)
    yield "state", session.state.value
    if session.need is not None:
        yield "need", clean(session.need.text, keep_newlines=False)
    if session.brief is not None:
        yield "brief", clean(session.brief.text, keep_newlines=False)


def _heading(turn: Turn) -> str:
    said = [f"Turn {turn.index}", turn.role.value, turn.agent, turn.mode, None if turn.outcome == "completed" else turn.outcome.value]
    when = None if turn.started_at is None else format_time(turn.started_at)
    return clean(" · ".join(word for word in [*said, when] if word), keep_newlines=False)


def _sections(turn: Turn) -> Iterator[tuple[str, str, bool]]:
    """Label, text, and whether it is machine text, in the order of the turn."""
    if turn.prompt is not None:
        yield "User", turn.prompt, False
    elif turn.continues is not None:
        yield "Continues", f"turn {turn.continues}", False
    for step in turn.steps:
        yield _section(turn, step)
    if turn.error is not None:
        yield f"Error {clean(turn.error.type, keep_newlines=False)}", turn.error.message, True


def _section(turn: Turn, step: Part) -> tuple[str, str, bool]:
    if isinstance(step, Text):
        return clean(turn.agent, keep_newlines=False), step.text, False
    if isinstance(step, Reasoning):
        return "Reasoning", step.text, False
    if isinstance(step, ToolCall):
        return f"Call {clean(step.name, keep_newlines=False)}", json.dumps(dict(step.arguments), ensure_ascii=False, indent=2), True
    return "Failed" if step.is_error else "Result", step.content, True


def _escape_line(text: str) -> str:
    """One line of our own with foreign words in it: no character of them is markup."""
    return re.sub(r"([\\`*_{}\[\]<>#|~!&])", r"\\\1", text)


def _quoted(text: str) -> Iterator[str]:
    """Every line in a block quote, which holds whatever the text leaves open. HTML and images are shown as they were written, but in fenced code,
    which gets fences of ours: where code begins and ends is then no matter of interpretation.
    """
    fence, code = "", list[str]()
    for line in text.split("\n"):
        if fence:
            if _closes(line, fence):
                yield from (f"> {inner}" for inner in (*_fenced("\n".join(code)), ""))
                fence, code = "", []
            else:
                code.append(line)
        elif opening := _FENCE.match(line):
            fence = opening["run"]
            yield ">"
        else:
            yield f"> {_WILD.sub(_tamed, line)}"
    if fence:
        yield from (f"> {inner}" for inner in _fenced("\n".join(code)))


_FENCE = re.compile(r" {0,3}(?P<run>`{3,}(?=[^`]*$)|~{3,})")
"""What opens fenced code in CommonMark: behind backticks no other may stand in the line."""
_WILD = re.compile(r"<|!\[")


def _tamed(match: re.Match[str]) -> str:
    return "&lt;" if match[0] == "<" else "!\\["


def _closes(line: str, fence: str) -> bool:
    run = line.strip(" ")
    return len(line) - len(line.lstrip(" ")) < 4 and len(run) >= len(fence) and not run.strip(fence[0])


def _fenced(text: str) -> Iterator[str]:
    """In a fence that is longer than any run of backticks in it."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield fence
    yield from text.split("\n")
    yield fence


def _article(turn: Turn) -> str:
    sections = "".join(
        f'<h3>{escape(label)}</h3><pre class="{"code" if code else "prose"}" dir="auto">{escape(clean(text))}</pre>' for label, text, code in _sections(turn)
    )
    return f'<article class="{turn.role.value}" id="turn-{turn.index}"><h2>{escape(_heading(turn))}</h2>{sections}</article>'


_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
article { border-inline-start: .25rem solid #8888; margin: 2rem 0; padding-inline-start: 1rem; }
article.escalation { border-color: #d80; }
h2 { font-size: 1rem; } h3 { font-size: .85rem; margin-bottom: 0; opacity: .7; }
dl { display: grid; gap: 0 1rem; grid-template-columns: max-content 1fr; } dd { margin: 0; }
pre { margin: 0; overflow-wrap: anywhere; unicode-bidi: isolate; white-space: pre-wrap; }
pre.prose { font-family: inherit; } pre.code { background: #8882; padding: .5rem; }
</style>
"""
