"""Asking whether a tool may do something: the rules first, then the user, whose answer may become a rule (docs/tools.md)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from orchestrator.answers import MAX_QUESTION
from orchestrator.clock import format_time
from orchestrator.errors import ConfigError
from orchestrator.messages import well_formed
from orchestrator.permissions import Rule, RuleSet, Verdict, covers, rule_of, verdict
from orchestrator.providers import Answer, Ask, Question
from orchestrator.quoting import fenced, one_line
from orchestrator.settings.grants import Grant, GrantStore
from orchestrator.tools import Act, ToolFailed

MAX_PATTERN, MAX_REASON = 1000, 2000
"""Characters of what a human types into the form."""

_REFUSALS = {
    "expiry": "Nobody answered in time. Nobody refused either: go on without this, and say in your answer what is left to do.",
    "nobody": "There is nobody who could be asked. Go on without this, and say in your answer what is left to do.",
    "later": "Nobody is there now. Go on without this, and say in your answer what is left to do.",
    "asker": "The question was withdrawn before it was answered.",
    "refused": "The user could not be asked, since the question cannot be put as it is. Do it in smaller or simpler steps.",
}
_DOING = {"read": "read a file", "write": "write a file", "run": "run a command"}


@dataclass(frozen=True, slots=True)
class Workshop:
    """Where tools are at work, and what is known about that by the rules."""

    agent: str
    session: str
    workspace: str
    """As it is with all links followed, like the workspaces of grants."""
    rules: RuleSet
    grants: GrantStore
    off_limits: Sequence[str]
    """Folders of this program's own; none of them holds the workspace."""
    new_id: Callable[[], str]
    now: Callable[[], datetime]
    tell: Callable[[str], None]
    """Gives the user a notice."""


class Permits:
    """What the tools of one turn ask before they do anything. May be called from several threads: one question stands at a time."""

    def __init__(self, workshop: Workshop, ask: Ask) -> None:
        self._shop, self._ask, self._lock = workshop, ask, threading.Lock()

    def __call__(self, act: Act) -> None:
        """Come back where it may be done. Raises `ToolFailed` that tells the agent why not."""
        with self._lock:  # so that what one answer allows is not asked again by the next call
            found = self._verdict(act)
            if found.effect == "deny":
                why = "this is Escalera's own, which no tool touches" if found.rule is None else f"a rule of the user forbids this: {found.rule}"
                raise ToolFailed(f"{why}. Do not look for a way around it.")
            if found.effect == "ask":
                self._take(self._answer(act, found.rule), act)

    def stands(self, act: Act) -> bool:
        """Whether it may be done without asking."""
        return self._verdict(act).effect == "allow"

    def _verdict(self, act: Act) -> Verdict:
        if act.verb != "run" and self._is_ours(act.what):
            return Verdict("deny")
        return verdict(act, self._shop.rules, self._granted())

    def _is_ours(self, path: str) -> bool:
        """Whether it lies in a folder of this program's own, where no rule reaches."""
        full = os.path.normpath(os.path.join(self._shop.workspace, path))
        return any(full == folder or full.startswith(folder.rstrip(os.sep) + os.sep) for folder in self._shop.off_limits)

    def _granted(self) -> Iterator[Rule]:
        """Read anew each time, since another process may have taken one back; and only where it matters."""
        shop = self._shop
        ours = [grant for grant in shop.grants.list() if grant.counts(agent=shop.agent, workspace=shop.workspace, session=shop.session)]
        yield from (rule for grant in ours if (rule := _readable(grant.rule)) is not None)

    def _answer(self, act: Act, rule: Rule | None) -> Answer:
        message = well_formed(_message(act, rule, self._shop))
        if len(message) > MAX_QUESTION:
            raise ToolFailed("this is too large to be shown to the user, and nothing is done unseen: do it in smaller steps")
        return self._ask(Question(message, mode="form", schema=_schema(act, rule, self._shop)))

    def _take(self, answer: Answer, act: Act) -> None:
        """Raise for a no; keep what was allowed for longer than this once."""
        decision = answer.content.get("decision") if answer.action == "accept" else None
        if decision in ("session", "always"):
            self._keep(answer.content, act)
        if decision in ("once", "session", "always"):
            return
        if answer.by in ("expiry", "asker"):
            self._shop.tell(f"not done, since the question was not answered: {act.verb} {one_line(act.what, 200)}")
        raise ToolFailed(_why_not(answer))

    def _keep(self, content: Mapping[str, Any], act: Act) -> None:  # any: what a form may hold
        shop, pattern = self._shop, str(content.get("pattern") or act.pattern)
        rule, for_session = Rule(act.verb, pattern, act.beyond), content["decision"] == "session"
        grant = Grant(shop.new_id(), shop.agent, shop.workspace, str(rule), shop.session if for_session else None, format_time(shop.now()))
        try:
            shop.grants.add(grant)
        except ConfigError as error:
            shop.tell(f"allowed this once, since it cannot be kept for longer: {error.message}")
            return
        told = f"{shop.agent!r} may now do this in {shop.workspace} without asking{' in this session' if for_session else ''}: {one_line(grant.rule, 200)}"
        shop.tell(f"{told} (`escalera permissions revoke {grant.id[:8]}` takes it back)")
        if not covers(rule, act):
            shop.tell(f"the pattern {one_line(pattern, 200)} does not cover what was asked, which was allowed this once")


def _readable(text: str) -> Rule | None:
    """A rule of the record; one that an older or newer version wrote otherwise allows nothing."""
    try:
        return rule_of(text)
    except ValueError:
        return None


def _why_not(answer: Answer) -> str:
    if answer.by in _REFUSALS:
        return _REFUSALS[answer.by]
    if answer.action == "cancel":
        return "The user neither allowed nor refused this. Go on without it."
    reason = answer.content.get("because")
    return f"The user said no to this, because:\n{fenced(reason)}" if isinstance(reason, str) and reason.strip() else "The user said no to this."


# -- the question --------------------------------------------------------------------------------


def _message(act: Act, rule: Rule | None, shop: Workshop) -> str:
    """The exact thing, each line of it set in, so that none of them can pose as one of ours."""
    parts = [f"{shop.agent!r} wants to {_DOING[act.verb]} in {visible(shop.workspace)}:", _set_in(act.what)]
    parts += [_set_in(act.shown)] if act.shown else []
    parts += ["\n".join(act.notes)] if act.notes else []
    if rule is not None:
        parts.append(f"The rule {visible(str(rule))} asks about this each time.")
    else:
        offered = visible(str(Rule(act.verb, act.pattern, act.beyond)))
        parts.append(f"`session` and `always` allow the pattern {offered} for the agent {shop.agent!r} in {visible(shop.workspace)}.")
    return "\n\n".join(parts)


def _schema(act: Act, rule: Rule | None, shop: Workshop) -> dict[str, Any]:
    once, no = ("once", "yes, this once"), ("no", "no")
    where = f"for {shop.agent!r} in {shop.workspace}"
    kept = [("session", f"yes, and what fits the pattern in this session, {where}"), ("always", f"yes, and what fits the pattern always, {where}")]
    choices = [once, *(kept if rule is None else ()), no]
    fields: dict[str, Any] = {
        "decision": {"type": "string", "title": "Your decision", "oneOf": [{"const": value, "title": one_line(words, 400)} for value, words in choices]},
    }
    if rule is None and len(act.pattern) <= MAX_PATTERN:
        fields["pattern"] = {
            "type": "string",
            "title": f"Pattern [{one_line(act.pattern, 200)}]",
            "description": "what else `session` and `always` allow; Enter takes it as it is",
            "default": well_formed(act.pattern),
            "maxLength": MAX_PATTERN,
            "x-when": {"decision": ["session", "always"]},
        }
    fields["because"] = {
        "type": "string",
        "title": "Why not",
        "description": "told to the agent; may be left out",
        "maxLength": MAX_REASON,
        "x-when": {"decision": ["no"]},
    }
    return {"type": "object", "properties": fields, "required": ["decision"]}


def _set_in(text: str) -> str:
    return "\n".join(f"    {line}" for line in visible(text).split("\n"))


def visible(text: str) -> str:
    """The text with everything that does not show, or shows as something else, spelled out: what is approved is what is seen."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() or letter in "\n\t" else _spelled(letter) for letter in text)


def _spelled(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")
