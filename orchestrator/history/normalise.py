"""The one normaliser: message lists as a provider will accept them (page 3).

Pure and idempotent. A list that is valid already comes back as the same object.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Any

from orchestrator.history.profiles import PROFILES, Rules
from orchestrator.messages import Message, MessageRole, Part, Reasoning, Text, ToolCall, ToolResult, compact_json, well_formed
from orchestrator.providers import WireProfile

NO_TEXT = "(no text)"
"""Stands for a user message that must be there and has nothing to say."""
NO_ANSWER = "(no closing answer)"
"""Stands between tool results and the next user text where a format wants an answer there."""
NO_OUTPUT = "(no output)"
"""Stands for the content of a tool result that has none."""
INTERRUPTED = "interrupted"
"""The error result of a call that never got one."""

_PLACEHOLDER = Message("user", (Text(NO_TEXT),))
_Segment = tuple[MessageRole, list[Part]]


def normalise(messages: tuple[Message, ...], profile: WireProfile) -> tuple[Message, ...]:
    """A list to be sent as it is: `settle`, and then its last answer without trailing blanks, and never only system text."""
    rules = PROFILES[profile]
    if _is_plain(messages):
        return _trimmed_end(_alternating(messages, rules))
    repaired = _trimmed_end(_repaired(messages, rules))
    if messages and all(message.role == "system" for message in repaired):
        repaired = (*repaired, _PLACEHOLDER)
    return messages if repaired == messages else repaired


def settle(messages: tuple[Message, ...], profile: WireProfile) -> tuple[Message, ...]:
    """A stretch of a list that a user message will follow. Settled stretches can be joined: settling what was joined
    merges neighbours and tells repeated ids apart, and changes no size.
    """
    rules = PROFILES[profile]
    if _is_plain(messages):
        return _alternating(messages, rules)
    repaired = _repaired(messages, rules)
    if rules.separates_results and repaired and isinstance(repaired[-1].parts[-1], ToolResult):
        repaired = (*repaired, Message("assistant", (Text(NO_ANSWER),)))
    return messages if repaired == messages else repaired


def paired(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Every assistant message with calls, directly followed by a user message with all their results and nothing else."""
    rules = PROFILES["none"]
    return tuple(Message(role, tuple(parts)) for role, parts in _answered(_segments(messages, rules), rules))


# -- the common case ------------------------------------------------------------------------------


def _is_plain(messages: Sequence[Message]) -> bool:
    """Whether it is a sound conversation in text alone, as most are: there are at most neighbours to merge."""
    if messages and messages[0].role != "user":
        return False
    for message in messages:
        if message.role == "system" or not message.parts:
            return False
        for part in message.parts:
            if not isinstance(part, Text) or not _is_sound(part):
                return False
    return True


def _alternating(messages: tuple[Message, ...], rules: Rules) -> tuple[Message, ...]:
    """Plain messages with neighbours of one role merged, where the format wants that."""
    if not rules.alternates or all(one.role != two.role for one, two in pairwise(messages)):
        return messages
    runs = groupby(messages, key=attrgetter("role"))
    return tuple(Message(role, tuple(part for message in run for part in message.parts)) for role, run in runs)


def _is_sound(part: Text) -> bool:
    text = part.text
    if part.extra is not None or not text or text.isspace():
        return False
    return "\x00" not in text and (text.isascii() or well_formed(text) is text)  # in short what `well_formed` says at length: it is asked of every text


def _is_blank(text: str) -> bool:
    return not text or text.isspace()


# -- repair, step by step -------------------------------------------------------------------------


def _repaired(messages: Iterable[Message], rules: Rules) -> tuple[Message, ...]:
    segments = _segments(messages, rules)
    system: list[_Segment] = []
    if rules.system != "anywhere":
        system = [segment for segment in segments if segment[0] == "system"]
        segments = [segment for segment in segments if segment[0] != "system"]
    if rules.system == "merged" and system:
        system = [("system", [part for _, parts in system for part in parts])]
    joined = _joined(_answered(segments, rules), rules)
    return tuple(Message(role, tuple(parts)) for role, parts in (*system, *_user_first(joined)))


def _segments(messages: Iterable[Message], rules: Rules) -> list[_Segment]:
    """Runs of parts that one role may hold, each part clean and none blank; runs that only think are left out."""
    segments: list[_Segment] = []
    for message in messages:
        runs: list[_Segment] = []
        for part in message.parts:
            clean = _clean(part, rules)
            if clean is None:
                continue
            role = _role_of(clean, message.role)
            if runs and runs[-1][0] == role:
                runs[-1][1].append(clean)
            else:
                runs.append((role, [clean]))
        segments.extend(run for run in runs if not all(isinstance(part, Reasoning) for part in run[1]))
    return segments


def _role_of(part: Part, role: MessageRole) -> MessageRole:
    """Calls and reasoning are the assistant's, results the user's, wherever a damaged history has them."""
    if isinstance(part, Text):
        return role
    return "user" if isinstance(part, ToolResult) else "assistant"


def _clean(part: Part, rules: Rules) -> Part | None:
    """The part with text that can be sent, itself where it needs nothing; `None` when there is nothing in it."""
    extra = None if part.extra is None else _clean_value(part.extra)
    if isinstance(part, Text):
        text = well_formed(part.text)
        if _is_blank(text):
            return None
        return part if text is part.text and extra is part.extra else Text(text, extra)
    if isinstance(part, ToolCall):
        name, arguments = _tool_name(part.name, rules), _clean_value(part.arguments)
        same = name == part.name and arguments is part.arguments and extra is part.extra
        return part if same else ToolCall(part.id, name, arguments, extra)
    if isinstance(part, ToolResult):
        content = NO_OUTPUT if _is_blank(part.content) else well_formed(part.content)
        return part if content is part.content and extra is part.extra else ToolResult(part.id, content, part.is_error, extra)
    return _clean_reasoning(part, extra, rules)


def _clean_reasoning(part: Reasoning, extra: Mapping[str, Any] | None, rules: Rules) -> Reasoning | None:
    bound = bool(part.signature) or bool(extra)
    if not bound and (rules.signed_reasoning or _is_blank(part.text)):
        return None
    text, signature = well_formed(part.text), None if part.signature is None else well_formed(part.signature)
    if text is part.text and signature is part.signature and extra is part.extra:
        return part
    return Reasoning(text, part.model, signature, extra)


def _clean_value(value: Any) -> Any:  # a JSON value, and one of the same kind
    """A JSON value with every text in it well-formed; itself where all are."""
    shown = compact_json(value)
    if "\\u0000" not in shown and well_formed(shown) is shown:
        return value
    return _rebuilt(value)


def _rebuilt(value: Any) -> Any:  # a JSON value, and one of the same kind
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, Mapping):
        return {_rebuilt(key): _rebuilt(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rebuilt(item) for item in value]
    return value


def _tool_name(name: str, rules: Rules) -> str:
    name = "unknown" if _is_blank(name) else well_formed(name)
    if rules.tool_name is None or rules.tool_name.fullmatch(name):
        return name
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64]


# -- calls and their results ----------------------------------------------------------------------


@dataclass(slots=True)
class _Slot:
    """A call, the id it will have, and the result it got."""

    call: ToolCall
    id: str
    result: ToolResult | None = None


def _answered(segments: Sequence[_Segment], rules: Rules) -> Iterator[_Segment]:
    """The segments with the results of each run of calls right behind it: late ones brought there, missing ones said to
    be interrupted, orphans turned into text.
    """
    runs, matched = _matched(segments)
    _name_calls([slot for run in runs for slot in run], rules)
    for position, ((role, parts), run) in enumerate(zip(segments, runs, strict=True)):
        calls = iter(run)
        rest: list[Part] = []
        for place, part in enumerate(parts):
            if isinstance(part, ToolCall):
                rest.append(_with_id(part, next(calls).id))
            elif not isinstance(part, ToolResult):
                rest.append(part)
            elif (position, place) not in matched:
                rest.append(_orphan(part))
        if rest:
            yield role, rest
        if run:
            yield "user", [_result_of(slot) for slot in run]


def _matched(segments: Sequence[_Segment]) -> tuple[list[list[_Slot]], set[tuple[int, int]]]:
    """Per segment its calls with their results; and the places of the results that belong to a call.

    Where an id repeats, results go to the latest run of calls that waits for one, there in the order of the calls.
    """
    runs: list[list[_Slot]] = []
    matched: set[tuple[int, int]] = set()
    waiting: dict[str, list[deque[_Slot]]] = {}
    for position, (_, parts) in enumerate(segments):
        runs.append(run := [_Slot(part, part.id) for part in parts if isinstance(part, ToolCall)])
        fresh: dict[str, deque[_Slot]] = {}
        for slot in run:
            fresh.setdefault(slot.id, deque()).append(slot)
        for call_id, queue in fresh.items():
            waiting.setdefault(call_id, []).append(queue)
        for place, part in enumerate(parts):
            if isinstance(part, ToolResult) and (queues := waiting.get(part.id)):
                queues[-1].popleft().result = part
                matched.add((position, place))
                if not queues[-1]:
                    queues.pop()
    return runs, matched


def _name_calls(slots: Sequence[_Slot], rules: Rules) -> None:
    """Give every call an id of its own that the format accepts; a good one stays with the first call that has it."""
    good = {slot.id for slot in slots if _is_good_id(slot.id, rules)}
    used: set[str] = set()
    counts: dict[str, int] = {}
    for slot in slots:
        if slot.id not in good or slot.id in used:
            base = re.sub(r"[^a-zA-Z0-9_-]", "_", slot.id.strip())[:48] or "call"
            count = counts.get(base, 0) + 1
            while (name := base if count == 1 else f"{base}_{count}") in good or name in used:
                count += 1
            counts[base], slot.id = count, name
        used.add(slot.id)


def _is_good_id(call_id: str, rules: Rules) -> bool:
    if rules.call_id is not None:
        return rules.call_id.fullmatch(call_id) is not None
    return not _is_blank(call_id) and well_formed(call_id) is call_id


def _with_id(call: ToolCall, call_id: str) -> ToolCall:
    return call if call.id == call_id else ToolCall(call_id, call.name, call.arguments, call.extra)


def _result_of(slot: _Slot) -> ToolResult:
    if slot.result is None:
        return ToolResult(slot.id, INTERRUPTED, is_error=True)
    result = slot.result
    return result if result.id == slot.id else ToolResult(slot.id, result.content, result.is_error, result.extra)


def _orphan(result: ToolResult) -> Text:
    return Text(f"[{'error' if result.is_error else 'result'} of a tool call that is not shown]\n{result.content}")


# -- roles ----------------------------------------------------------------------------------------


def _joined(segments: Iterable[_Segment], rules: Rules) -> list[_Segment]:
    """Neighbours of one role merged where roles alternate, their parts in the order that the format wants."""
    joined: list[_Segment] = []
    for role, parts in segments:
        if joined and joined[-1][0] == role and rules.alternates:
            if rules.separates_results and isinstance(joined[-1][1][-1], ToolResult):
                joined.append(("assistant", [Text(NO_ANSWER)]))
                joined.append((role, parts))
            else:
                joined[-1][1].extend(parts)
        else:
            joined.append((role, parts))
    if rules.ordered:
        return [(role, sorted(parts, key=_rank)) for role, parts in joined]
    return joined


def _rank(part: Part) -> int:
    """Reasoning, text, calls; in a user message, results before text (they stand so already)."""
    if isinstance(part, Text):
        return 1
    return 2 if isinstance(part, ToolCall) else 0


def _user_first(segments: list[_Segment]) -> list[_Segment]:
    first = next((place for place, (role, _) in enumerate(segments) if role != "system"), None)
    if first is None or segments[first][0] == "user":
        return segments
    return [*segments[:first], ("user", [Text(NO_TEXT)]), *segments[first:]]


# -- the end of what is sent ----------------------------------------------------------------------


def _last_text(messages: Sequence[Message]) -> Text | None:
    """The text that the list ends with, where that is an assistant's."""
    if not messages or messages[-1].role != "assistant":
        return None
    last = messages[-1].parts[-1]
    return last if isinstance(last, Text) else None


def _trimmed_end(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Without blanks at the end of a last assistant message, which some formats refuse."""
    last = _last_text(messages)
    if last is None or not last.text[-1].isspace():
        return messages
    return (*messages[:-1], Message("assistant", (*messages[-1].parts[:-1], Text(last.text.rstrip(), last.extra))))


__all__ = ["INTERRUPTED", "NO_ANSWER", "NO_OUTPUT", "NO_TEXT", "normalise", "paired", "settle"]
