"""What one turn would have sent under one set of limits, part by part: planning's loop over sizes, with the same texts around the history."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from orchestrator.context.delivery import mark_of
from orchestrator.context.digest import digest_limits
from orchestrator.context.orientation import OpenQuestion, Situation
from orchestrator.dispatch.heard import Heard, session_tools
from orchestrator.dispatch.own_tools import OWN_SCHEMAS
from orchestrator.history.budget import PART_OVERHEAD, estimate_tokens, measure_text, measure_tools
from orchestrator.history.ratio import CHARS_PER_TOKEN
from orchestrator.history.scope import Scope, scope_of
from orchestrator.modes import Decision, Mode
from orchestrator.planning.case import LOST
from orchestrator.planning.texts import QUESTION_CHARS
from orchestrator.session import TOLD
from orchestrator.settings.limits import Limits
from orchestrator.tuning.cases import Case, Chosen, Conversation, Sent, ToldNeed
from orchestrator.tuning.facts import Facts, Told
from orchestrator.tuning.sizes import Fit, Ledger
from orchestrator.tuning.telling import NO_DIGEST, NOTHING, Digests, Excerpt, Script

_OVERHEAD = " " * PART_OVERHEAD
_ALL = Scope("all")
_FULL = (Mode.FIRST, Mode.FRESH_START)


class _Refused(Exception):
    """What is never dropped is larger than the budget."""


@dataclass(frozen=True, slots=True)
class Desk:
    """What one session's turns are weighed with."""

    digests: Digests
    script: Script
    facts: Facts
    ledger: Callable[[], Ledger]
    new: Callable[[], str]
    """What the measured ratio says nothing about."""


class Weighing:
    """One turn, one set of limits."""

    def __init__(
        self,
        desk: Desk,
        case: Case,
        limits: Limits,
        decision: Decision | None,
        need: ToldNeed,
        goes_on: Conversation | None,
        budget: tuple[int | None, int | None],
    ) -> None:
        self._desk, self._case, self._limits, self._decision, self._need = desk, case, limits, decision, need
        self._goes_on, self._budget = goes_on, budget
        self._mode = None if decision is None else decision.mode
        self._reasons = case.way.reasons if decision is None else decision.reasons
        self._scope = scope_of(self._mode, keeps_conversation=case.keeps, boundary=case.boundary)
        self._start = None if self._scope.name == "none" else self._scope.start
        self._lost = case.receipt.conversation_lost or any(reason.rule in LOST for reason in self._reasons)
        self._facts = desk.facts.choose(case, limits, goes_on if self._mode is not Mode.RETURNING else None)
        self._activity = self._prior = NOTHING
        self.enough: tuple[int, int] | None = None
        """The least budget and the least limit of digests that send the same, where nothing is cut short or left out."""

    def sent(self) -> Sent:
        rules = tuple([reason.rule for reason in self._reasons])
        if self._mode is None and self._case.receipt.conversation_lost:
            rules = (*rules, "external_session_lost")
        chosen = Chosen(self._case.way.role, self._case.way.agent, self._mode, rules)
        if self._case.way.brief is not None:
            return Sent(chosen, nothing=True)
        for limit in dict.fromkeys(self._budget):
            try:
                return self._weighed(chosen, *self._fitted(limit))
            except _Refused:
                continue
        return Sent(chosen, refused=1, key=("refused",))

    def after(self, sent: Sent, before: Conversation | None) -> Conversation | None:
        """The agent's own conversation once the turn is done; one that failed leaves it as it was."""
        case = self._case
        if sent.nothing or sent.refused or case.turn.outcome not in TOLD:
            return before
        goes_on = self._goes_on
        told = self._facts.ids if goes_on is None else tuple(dict.fromkeys((*goes_on.told, *self._facts.ids)))
        system, tokens, held = (self._system, self._system_tokens, 0) if goes_on is None else (goes_on.system_chars, goes_on.system_tokens, goes_on.held)
        began = case.turn.index if goes_on is None else goes_on.began
        return Conversation(
            case.turn.role,
            began,
            case.turn.index,
            system,
            tokens,
            self._activity.text,
            self._prior.text,
            told,
            held + self._context_tokens + case.prompt_tokens + case.steps_tokens,
        )

    # -- fitting: `planning.plan` over sizes -------------------------------------------------------

    def _fitted(self, limit: int | None) -> tuple[str, Fit]:
        digests = digest_limits(self._limits.context_budget_chars, limit)
        line = 0
        while True:
            digests, told = self._shrunk(digests, None if limit is None else limit - line)
            reserve = self._desk.script.line_chars(self._case.turn.index, told)
            fit = self._history(None if limit is None else limit - self._fixed(told), reserve)
            if fit.dropped or fit.rounds:
                told = self._orientation(digests, fit.dropped, fit.rounds)
            total = self._fixed(told) + fit.chars
            if line or limit is None or total <= limit:
                break
            line = reserve
        if limit is not None and total > limit:
            raise _Refused
        self._note_enough(total, fit)
        return told, fit

    def _note_enough(self, total: int, fit: Fit) -> None:
        case, activity, prior = self._case, self._activity.enough, self._prior.enough
        if activity is not None and prior is not None and case.asking is None and not case.ratio.measured and not (fit.dropped or fit.shortened or fit.rounds):
            self.enough = total, max(activity, prior)

    def _shrunk(self, digests: int | None, room: int | None) -> tuple[int | None, str]:
        told = self._orientation(digests)
        while room is not None and self._fixed(told) > room and digests != 0:
            digests = min(len(told), digests or len(told)) // 2
            told = self._orientation(digests)
        return digests, told

    def _history(self, available: int | None, reserve: int) -> Fit:
        if available is not None and available < 0:
            raise _Refused
        if self._start is None:
            return Fit()
        case = self._case
        return self._desk.ledger().fit(
            case.turn.index,
            self._scope,
            available=available,
            reserve=reserve,
            returning=case.boundary if self._mode is Mode.RETURNING else None,
            continuing=case.turn.continues,
        )

    def _fixed(self, told: str) -> int:
        """Characters of what is never dropped."""
        parts = self._case.receipt.report.budget.parts
        rest = parts["tools"] + parts["prompt"]
        if not self._case.keeps:
            return rest + parts["system"] + measure_text(told) + self._facts.chars
        system, context = self._own_texts(told)
        return rest + system + context

    def _own_texts(self, told: str) -> tuple[int, int]:
        """Characters of the system text and of the context block of the agent's own conversation."""
        script, facts = self._desk.script, self._facts
        block, tool = facts.block, facts.tool
        if self._goes_on is None:
            system = self._case.static_chars + script.system_frame(orientation=bool(told), percepts=bool(block)) + len(told) + block
            return system, script.context_frame(tool_percepts=bool(tool)) + tool
        context = script.context_frame(orientation=bool(told), percepts=bool(block), tool_percepts=bool(tool)) + len(told) + block + tool
        return self._goes_on.system_chars, context

    # -- the orientation -------------------------------------------------------------------------

    def _orientation(self, digests: int | None, not_shown: int = 0, rounds: int = 0) -> str:
        case = self._case
        self._activity = self._desk.digests.activity(self._away_since, self._start, digests)
        self._prior = self._told_prior(digests)
        activity, prior = self._activity.text, self._prior.text
        key = (self._mode, self._need, activity, prior, None if case.asking is None else digests, self._goes_on, self._lost)
        if key not in case.texts:
            case.texts[key] = self._desk.script.orientation(self._situation(activity, prior, digests))
        told = case.texts[key]
        return self._desk.script.with_line(told, not_shown, rounds) if not_shown or rounds else told

    def _told_prior(self, digests: int | None) -> Excerpt:
        if self._mode is None:
            return self._desk.digests.since(self._away_since, digests)
        return self._desk.digests.prior(self._start, digests) if self._mode in _FULL else NO_DIGEST

    @property
    def _away_since(self) -> int:
        if self._mode is not None:
            return self._case.boundary
        return 0 if self._goes_on is None else self._goes_on.last + 1

    def _situation(self, activity: str, prior: str, digests: int | None) -> Situation:
        case, need, state = self._case, self._need, self._goes_on
        source = "prompt" if case.receipt.report.brief is None else case.receipt.report.brief.source
        return Situation(
            mode=self._mode,
            agent=case.turn.agent,
            keeps_conversation=case.keeps,
            prompt=case.prompt,
            need=need.text if need.status == "set" else None,
            need_status="set" if need.status == "set" else "none",
            need_label="verify" if need.label == "verify" else "current",
            previous_need=need.text if need.status == "fulfilled" else None,
            brief=case.brief,
            brief_given=case.brief_given,
            brief_by=source,
            open_question=self._question(digests),
            lost_session=self._lost,
            primary_activity=activity,
            prior_escalation=prior,
            delivered={} if state is None or self._mode is Mode.RETURNING else _delivered(state),
        )

    def _question(self, digests: int | None) -> OpenQuestion | None:
        asking = self._case.asking
        if asking is None or self._mode is None or asking.agent == self._case.turn.agent:
            return None
        room = QUESTION_CHARS[1] if digests is None else min(max(digests, QUESTION_CHARS[0]), QUESTION_CHARS[1])
        return OpenQuestion(asking.agent, asking.answer if len(asking.answer) <= room else f"[…] {asking.answer[-room:]}")

    # -- tokens ----------------------------------------------------------------------------------

    def _weighed(self, chosen: Chosen, told: str, fit: Fit) -> Sent:
        case, facts, goes_on = self._case, self._facts, self._goes_on
        began = None if not case.keeps else -1 if goes_on is None else goes_on.began
        if not case.keeps:
            return _sent(self._desk, case, chosen, told, facts, fit)
        static, cached, orientation, percepts = self._own_tokens(told)
        static += _tool_tokens(case.receipt.report.budget.parts["tools"])
        return _figures(
            self._desk,
            case,
            chosen,
            (static, orientation, percepts, case.prompt_tokens, 0, cached),
            facts,
            fit,
            held=0 if goes_on is None else goes_on.held,
            key=(began, told, facts.ids),
        )

    def _own_tokens(self, told: str) -> tuple[int, int, int, int]:
        """Static text that is new, the system text where it is sent again, the orientation, the facts."""
        system, context = self._own_texts(told)
        plain, wide = _letters(told)
        orientation, percepts = math.ceil(plain / CHARS_PER_TOKEN + wide), self._facts.tokens
        if self._goes_on is None:
            self._system = system
            self._system_tokens = math.ceil((system - len(told) + plain) / CHARS_PER_TOKEN + wide) + self._case.reader.wide_tokens
            self._context_tokens = math.ceil(context / CHARS_PER_TOKEN)
            return max(0, self._system_tokens + self._context_tokens - orientation - percepts), 0, orientation, percepts
        self._context_tokens = math.ceil((context - len(told) + plain) / CHARS_PER_TOKEN + wide)
        return max(0, self._context_tokens - orientation - percepts), self._goes_on.system_tokens, orientation, percepts


def _delivered(state: Conversation) -> dict[str, str]:
    return {"primary_activity": mark_of(state.activity), "prior_escalation": mark_of(state.prior)}


def _letters(text: str) -> tuple[int, int]:
    """How many ASCII characters it has, and the UTF-8 bytes of the others: what its tokens are estimated by."""
    if text.isascii():
        return len(text), 0
    data = text.encode("utf-8", "surrogatepass")
    plain = len(data.decode("ascii", "ignore"))
    return plain, len(data) - plain


class PrimaryWeighing:
    """One turn of a primary without a conversation of its own: it is told of its need and no more, so there is nothing but the history to fit."""

    def __init__(self, desk: Desk, case: Case, limits: Limits, need: ToldNeed) -> None:
        self._desk, self._case, self._ledger = desk, case, desk.ledger()
        self._chosen = _primary_chosen(case)
        self._facts = desk.facts.choose(case, limits, None)
        self._told = desk.script.primary((need.status, need.text, need.label, case.receipt.conversation_lost), lambda: _primary_situation(case, need))
        parts = case.receipt.report.budget.parts
        self._rest = parts["system"] + parts["tools"] + parts["prompt"] + self._facts.chars
        self._fixed = self._rest + measure_text(self._told)
        everything = self._ledger.fit(case.turn.index, _ALL, available=None, reserve=0, returning=None, continuing=case.turn.continues)
        self._everything = _sent(desk, case, self._chosen, self._told, self._facts, everything)
        self._most = self._fixed + everything.chars
        self._reserve = desk.script.line_chars(case.turn.index, self._told)

    def sent(self, budget: tuple[int | None, int | None]) -> Sent:
        if self._case.way.brief is not None:
            return Sent(self._chosen, nothing=True)
        sent = self._within(budget[0])
        return self._within(budget[1]) if sent.refused and budget[1] != budget[0] else sent

    def _within(self, limit: int | None) -> Sent:
        if limit is None or self._most <= limit:
            return self._everything
        case, script, told = self._case, self._desk.script, self._told
        if self._fixed > limit:
            return Sent(self._chosen, refused=1, key=("refused",))
        index, continues = case.turn.index, case.turn.continues
        fit = self._ledger.fit(index, _ALL, available=limit - self._fixed, reserve=self._reserve, returning=None, continuing=continues)
        if fit.dropped or fit.rounds:
            told = script.with_line(told, fit.dropped, fit.rounds)
        if self._rest + measure_text(told) + fit.chars > limit:
            return Sent(self._chosen, refused=1, key=("refused",))
        return _sent(self._desk, case, self._chosen, told, self._facts, fit)


def _primary_chosen(case: Case) -> Chosen:
    return Chosen(case.way.role, case.way.agent, None, tuple([reason.rule for reason in case.way.reasons]))


def _primary_situation(case: Case, need: ToldNeed) -> Situation:
    return Situation(
        mode=None,
        agent=case.turn.agent,
        keeps_conversation=False,
        need=need.text if need.status == "set" else None,
        need_status="set" if need.status == "set" else "none",
        need_label="verify" if need.label == "verify" else "current",
        lost_session=case.receipt.conversation_lost,
    )


def _sent(desk: Desk, case: Case, chosen: Chosen, told: str, facts: Told, fit: Fit) -> Sent:
    """The figures of an agent without a conversation of its own."""
    static = case.static_tokens
    if static is None:
        parts = case.receipt.report.budget.parts
        static = case.static_tokens = math.ceil(parts["system"] / CHARS_PER_TOKEN) + case.reader.wide_tokens + _tool_tokens(parts["tools"])
    orientation = estimate_tokens(told + _OVERHEAD) if told.strip() else 0
    first, again = (0, static) if case.repeats_static else (static, 0)
    return _figures(desk, case, chosen, (first, orientation, facts.tokens, case.prompt_tokens, fit.tokens, again), facts, fit, key=(told, facts.ids, fit.key))


def _figures(
    desk: Desk, case: Case, chosen: Chosen, tokens: tuple[int, int, int, int, int, int], facts: Told, fit: Fit, *, held: int = 0, key: tuple[object, ...]
) -> Sent:
    """`tokens` by class, as they are estimated; what is counted is them corrected, and what the agent's own conversation holds."""
    total = estimate = sum(tokens)
    factor = case.ratio.factor
    if factor != 1 and estimate:
        new = estimate_tokens(desk.new())
        total = new + math.ceil(factor * max(0, estimate - new))
        scale = total / estimate
        static, orientation, percepts, prompt, history, cached = [round(scale * figure) for figure in tokens]
    else:
        static, orientation, percepts, prompt, history, cached = tokens
    cached += held
    return Sent(
        chosen,
        False,
        total,
        static,
        orientation,
        percepts,
        prompt,
        history,
        cached,
        case.output,
        fit.dropped,
        fit.shortened,
        fit.rounds,
        facts.left_out,
        0,
        int(facts.beyond),
        key,
    )


@cache
def _tool_tokens(chars: int) -> int:
    """Tokens of the tools that take so many characters: of ours, where they are just those."""
    for hands_over in (True, False):
        schemas = (*(tool.schema for tool in session_tools(Heard(), hands_over=hands_over)), *OWN_SCHEMAS)
        if measure_tools(schemas) == chars:
            return sum(estimate_tokens(schema.text + " " * PART_OVERHEAD) for schema in schemas)
    return math.ceil(chars / CHARS_PER_TOKEN)
