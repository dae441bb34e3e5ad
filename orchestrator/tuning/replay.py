"""One recorded session, replayed under any number of variants side by side: each turn decided again, and what it would have sent weighed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from orchestrator.attachments import without_attachments
from orchestrator.clock import parse_time
from orchestrator.context.digest import digest_limits
from orchestrator.context.orientation import brief_of
from orchestrator.history.budget import PART_OVERHEAD, estimate_tokens, limit_chars
from orchestrator.history.ratio import ASSUMED, ratio_of, text_since
from orchestrator.history.render import Viewer
from orchestrator.messages import Reasoning, ToolCall, ToolResult, part_text
from orchestrator.modes import Decision, Mode, decide
from orchestrator.modes import Facts as ModeFacts
from orchestrator.percepts import Percept
from orchestrator.planning.case import BRIEF_LENGTH
from orchestrator.receipts import NeedReport, Receipt
from orchestrator.routing import route
from orchestrator.session import COMPLETED, TOLD, Role, State, Turn
from orchestrator.settings.limits import Limits
from orchestrator.tags import neutralise
from orchestrator.tuning.cases import UNKNOWN_READER, Case, Conversation, Reader, Sent, ToldNeed
from orchestrator.tuning.facts import Facts
from orchestrator.tuning.knobs import NEED, Variant, basis
from orchestrator.tuning.past import Past, PastLog, PastTurn
from orchestrator.tuning.sizes import Ledger
from orchestrator.tuning.telling import Digests, Script
from orchestrator.tuning.weighing import Desk, PrimaryWeighing, Weighing

Budget = tuple[int | None, int | None]
"""The limit in characters, by the measured ratio and by the assumed one; `None` is no limit."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """One turn: as it was recorded, as it is with the limits of then, and as it would be under each variant that makes it another."""

    past: PastTurn
    problem: str = ""
    base: Sent | None = None
    others: Mapping[int, Sent] = field(default_factory=dict)
    """By the variant's place."""


class Replay:
    """Replays one session. Everything that needs no variant is made once for each turn."""

    def __init__(self, past: Past, variants: Sequence[Variant], readers: Mapping[str, Reader], script: Script, percepts: Mapping[str, Percept]) -> None:
        self._past, self._variants, self._readers = past, variants, readers
        self._turns = [item.turn for item in past.turns]
        self._log = PastLog(self._turns)
        self._digests, self._script = Digests(self._log, past.session.nonce), script
        self._facts = Facts(percepts, script)
        self._ledgers: dict[tuple[str, str | None], Ledger] = {}
        self._base: dict[str, Conversation | None] = {}
        self._states: list[dict[str, Conversation | None]] = [{} for _ in variants]
        """What each agent's own conversation holds, as it was and under each variant."""
        self._statics: dict[tuple[str, Role], int] = {}
        self._told: dict[str, tuple[str, ...]] = {}
        self._seen: set[tuple[str, Role]] = set()
        self._counted: set[str] = set()
        self._need: NeedReport | None = None
        self._boundary = 0
        """After the last escalation turn."""
        self._budgets: dict[tuple[int, int | None, int | None], Budget] = {}
        self._need_texts: dict[tuple[int, int], str] = {}
        self._limits: dict[tuple[str, int], list[Limits]] = {}
        self._weighings: dict[tuple[object, ...], PrimaryWeighing] = {}
        self._grouped: dict[tuple[object, ...], list[tuple[Limits, list[int]]]] = {}
        self._projections: dict[tuple[str, int, bool], tuple[list[object], object]] = {}
        self._kept_limits: list[Limits] = []
        self._expiries = [(place, variant) for place, variant in enumerate(variants) if variant.limit == NEED]

    def turns(self) -> Iterator[Replayed]:
        """Oldest first."""
        for item in self._past.turns:
            self._log.at(item.turn.index)
            self._digests.forget()
            self._script.forget()
            self._weighings.clear()
            done = self._turn(item)
            self._note(item)
            yield done
        self._weighings.clear()  # they lead back here: without them all this is gone as soon as nobody uses it

    def _turn(self, item: PastTurn) -> Replayed:
        turn, receipt = item.turn, item.receipt
        if receipt is None:
            self._forget(turn.agent)
            return Replayed(item, item.problem)
        case = self._case(turn, receipt)
        state = self._base.get(turn.agent)
        if case.keeps and state is None and not self._starts(case, self._decided(case, receipt.limits, receipt.facts), state):
            return Replayed(item, f"the conversation that {turn.agent!r} goes on in began before what was recorded")
        limits = self._interned(receipt.limits)
        base, after = self._evaluate(case, limits, receipt.facts, case.need, state)
        others = self._others(case, base, after, limits)
        if case.keeps:
            self._base[turn.agent] = after
            self._told[turn.agent] = case.chosen if turn.outcome in TOLD else self._told.get(turn.agent, ())
        return Replayed(item, "", base, others)

    def _forget(self, agent: str) -> None:
        """A turn of which nothing is known: what the agent's own conversation holds after it is not, either."""
        for states in (self._base, *self._states):
            states.pop(agent, None)

    def _others(self, case: Case, base: Sent, after: Conversation | None, limits: Limits) -> dict[int, Sent]:
        others = self._by_state(case, base, after, limits) if case.keeps else self._by_limits(case, base, limits)
        for place, variant in self._expiries:
            need = self._need_under(case, variant)
            if need is case.need and not case.keeps:
                continue
            facts = case.receipt.facts
            seen = facts if facts is None or need is case.need else _facts_under(facts, need)
            self._keep(case, base, others, place, self._evaluate(case, limits, seen, need, self._states[place].get(case.turn.agent)))
        return others

    def _by_limits(self, case: Case, base: Sent, limits: Limits) -> dict[int, Sent]:
        """Limits that come to the same for this kind of turn are looked at once."""
        others: dict[int, Sent] = {}
        facts, need = case.receipt.facts, case.need
        remembers = bool(case.chosen or case.receipt.report.percepts.over)
        groups = self._groups(case, limits)
        weighing = self._weighing(case, limits, need) if groups and facts is None and not remembers else None
        for other, places in groups:
            if weighing is not None:
                sent = weighing.sent(self._budget(case, other))
            else:
                sent, _ = self._evaluate(case, other, facts, need, None)
            if sent is not base and sent != base:
                others.update(dict.fromkeys(places, sent))
        return others

    def _by_state(self, case: Case, base: Sent, after: Conversation | None, limits: Limits) -> dict[int, Sent]:
        """What was told before may differ, too; limits and conversations that come to the same are looked at once."""
        others: dict[int, Sent] = {}
        agent, facts = case.turn.agent, case.receipt.facts
        applied, kinds, kind = self._applied(limits, agent), *self._kinds(case, limits)
        done: dict[tuple[object, ...], tuple[Sent, Conversation | None]] = {(kind, self._base.get(agent)): (base, after)}
        for place, variant in enumerate(self._variants):
            if variant.limit == NEED:
                continue
            state = self._states[place].get(agent)
            key = (kinds[place], state)
            if key not in done:
                sent, own = self._evaluate(case, applied[place], facts, case.need, state)
                alike = own is not None and after is not None and own.is_like(after)
                done[key] = sent, after if alike else own
            self._keep(case, base, others, place, done[key])
        return others

    def _kinds(self, case: Case, limits: Limits) -> tuple[list[object], object]:
        """What of each variant's limits can matter to a turn of an agent with a conversation of its own, and what of those of then."""
        remembers = bool(case.chosen or case.receipt.report.percepts.over)
        key = (case.turn.agent, id(limits), remembers)
        if key not in self._projections:
            projected = [_projected(other, case.reader, True, remembers) for other in self._applied(limits, case.turn.agent)]
            self._projections[key] = list[object](projected), _projected(limits, case.reader, True, remembers)
        return self._projections[key]

    def _keep(self, case: Case, base: Sent, others: dict[int, Sent], place: int, done: tuple[Sent, Conversation | None]) -> None:
        sent, after = done
        if case.keeps:
            self._states[place][case.turn.agent] = after
        if sent is not base and sent != base:
            others[place] = sent

    def _groups(self, case: Case, limits: Limits) -> list[tuple[Limits, list[int]]]:
        """The limits that can matter, each with the places of its variants."""
        escalates, remembers = case.receipt.facts is not None, bool(case.chosen or case.receipt.report.percepts.over)
        key = (case.turn.agent, id(limits), escalates, remembers)
        if key not in self._grouped:
            groups: dict[tuple[object, ...], tuple[Limits, list[int]]] = {}
            for place, other in enumerate(self._applied(limits, case.turn.agent)):
                if other is not limits:
                    kind = _projected(other, case.reader, escalates, remembers)
                    groups.setdefault(kind, (other, []))[1].append(place)
            groups.pop(_projected(limits, case.reader, escalates, remembers), None)
            self._grouped[key] = list(groups.values())
        return self._grouped[key]

    def _interned(self, limits: Limits) -> Limits:
        """The same object for limits that are alike."""
        for known in self._kept_limits:
            if known == limits:
                return known
        self._kept_limits.append(limits)
        return limits

    def _applied(self, limits: Limits, agent: str) -> list[Limits]:
        """The limits of a turn under each variant; the same object where a variant leaves them as they were."""
        key = (agent, id(limits))
        if key not in self._limits:
            applied = [variant.applied(limits, agent) for variant in self._variants]
            self._limits[key] = [limits if one == limits else one for one in applied]
        return self._limits[key]

    # -- what no variant changes -----------------------------------------------------------------

    def _case(self, turn: Turn, receipt: Receipt) -> Case:
        way = route(receipt.routing, receipt.rules)
        facts, report = receipt.facts, receipt.report
        keeps = facts.keeps_conversation if facts is not None else report.history.scope == "none"
        pending = None if turn.continues is None else self._log.get(turn.continues)
        said = (turn if pending is None else pending).prompt or ""
        prompt = neutralise(said)
        last = None if facts is None else facts.last_escalation
        waiting = facts is not None and facts.state is State.WAITING and last is not None
        brief = report.brief
        case = Case(
            turn=turn,
            receipt=receipt,
            way=way,
            reader=self._readers.get(turn.agent, UNKNOWN_READER),
            keeps=keeps,
            need=ToldNeed(report.need.status, self._need_text(report.need, turn, said), report.need.label, report.need.turn_index),
            last_need=self._need,
            prompt=without_attachments(said),
            prompt_tokens=estimate_tokens(prompt + " " * PART_OVERHEAD),
            output=_output(turn),
            ratio=ASSUMED if keeps or turn.agent not in self._counted else ratio_of(self._log, role=way.role, agent=turn.agent, model=turn.model_requested),
            boundary=self._boundary if facts is None else 0 if last is None else last + 1,
            brief=None if brief is None else brief_of(without_attachments(said)) if brief.source == "prompt" else "x" * brief.chars,
            brief_given=brief is not None and brief.source != "prompt" and not brief.carried,
            asking=self._log.get(last) if waiting and last is not None else None,
            repeats_static=(turn.agent, turn.role) in self._seen,
            chosen=report.percepts.sent,
            static_chars=self._statics.get((turn.agent, turn.role), 0),
        )
        return self._with_conversation(case) if keeps else case

    def _with_conversation(self, case: Case) -> Case:
        """With what was chosen for the agent besides what it was told before, and with the static text of its conversation."""
        turn, parts = case.turn, case.receipt.report.budget.parts
        held = sum(estimate_tokens(part_text(step)) for step in turn.steps if not isinstance(step, Reasoning))
        decision = self._decided(case, case.receipt.limits, case.receipt.facts)
        if not self._starts(case, decision, self._base.get(turn.agent)):
            before = () if decision is not None and decision.mode is Mode.RETURNING else self._told.get(turn.agent, ())
            return replace(case, chosen=tuple(dict.fromkeys((*before, *case.chosen))), steps_tokens=held)
        told = self._facts.choose(case, case.receipt.limits, None)
        frames = self._script.system_frame(orientation=parts["orientation"] > 0, percepts=told.block > 0)
        frames += self._script.context_frame(tool_percepts=told.tool > 0)
        self._statics[turn.agent, turn.role] = parts["system"] - frames
        return replace(case, static_chars=parts["system"] - frames, steps_tokens=held)

    def _note(self, item: PastTurn) -> None:
        """What later turns go by."""
        turn, receipt = item.turn, item.receipt
        if turn.usage is not None and turn.usage.sent_chars:
            self._counted.add(turn.agent)
        if turn.role is Role.ESCALATION and turn.outcome in COMPLETED:
            self._boundary = turn.index + 1
        if turn.outcome in TOLD:
            self._seen.add((turn.agent, turn.role))
        if receipt is not None and receipt.report.need.turn_index is not None:
            self._need = receipt.report.need

    def _starts(self, case: Case, decision: Decision | None, state: Conversation | None) -> bool:
        """Whether the turn begins a conversation of the agent's own; a primary's is never stale."""
        if decision is not None:
            return decision.mode in (Mode.FIRST, Mode.FRESH_START)
        return case.receipt.conversation_lost or state is None or state.role is not case.turn.role

    def _need_text(self, need: NeedReport, turn: Turn, said: str) -> str:
        """The need's words where they are known: they stand in the session, in the call that set it or in the prompt; else as many letters."""
        chars = need.chars or 0
        if need.turn_index is None or not chars:
            return "x" * chars
        key = (need.turn_index, chars)
        if key not in self._need_texts:
            setter = turn if need.turn_index == turn.index else self._log.get(need.turn_index)
            found = (text for text in self._stated(need, setter, said if setter is turn else None) if len(text) == chars)
            self._need_texts[key] = next(found, "x" * chars)
        return self._need_texts[key]

    def _stated(self, need: NeedReport, setter: Turn | None, said: str | None) -> Iterator[str]:
        session = self._past.session
        for known in (session.need, None if session.last_need is None else session.last_need.need):
            if known is not None and known.turn_index == need.turn_index:
                yield known.text
        if setter is None:
            return
        yield from (str(step.arguments.get("text", "")).strip() for step in setter.steps if isinstance(step, ToolCall))
        before = None if setter.continues is None else self._log.get(setter.continues)
        prompt = said or (setter if before is None else before).prompt or ""
        yield without_attachments(prompt).strip()[:BRIEF_LENGTH]

    # -- the need --------------------------------------------------------------------------------

    def _need_under(self, case: Case, variant: Variant) -> ToldNeed:
        """What another expiry would have left of the need: one that was set is gone sooner, one that was gone is there still."""
        report = case.receipt.report.need
        if report.status not in ("set", "expired") or not isinstance(variant.value, int | float):
            return case.need
        known = report if report.turn_index is not None else case.last_need
        if known is None or known.turn_index is None:
            return case.need
        outlived = self._outlived(case.turn, known, float(variant.value))
        if report.status == "set":
            return ToldNeed("expired", case.need.text) if outlived else case.need
        if outlived or self._fulfilled(case, known):
            return case.need
        label = "verify" if case.turn.index - known.turn_index >= 2 else "current"
        return ToldNeed("set", self._need_text(known, case.turn, case.prompt), label, known.turn_index)

    def _outlived(self, turn: Turn, need: NeedReport, hours: float) -> bool:
        began = need.updated_at
        setter = None if need.turn_index is None else self._log.get(need.turn_index)
        since = parse_time(began) if began is not None else None if setter is None else setter.ended_at
        if since is None or turn.started_at is None or hours <= 0:
            return False
        return turn.started_at - since > timedelta(hours=hours)

    def _fulfilled(self, case: Case, need: NeedReport) -> bool:
        last = case.boundary - 1
        if case.asking is not None or last < 0 or need.turn_index is None:
            return False
        return last > need.turn_index if need.during else last >= need.turn_index

    # -- one turn under one set of limits ---------------------------------------------------------

    def _decided(self, case: Case, limits: Limits, facts: ModeFacts | None) -> Decision | None:
        if facts is None or case.way.role is Role.PRIMARY:
            return None
        key = (limits.returning_fresh_start_local_turns, facts.need_changed, facts.need_turn)
        if key not in case.decisions:
            case.decisions[key] = decide(facts, limits, case.receipt.flags)
        return case.decisions[key]

    def _evaluate(self, case: Case, limits: Limits, facts: ModeFacts | None, need: ToldNeed, state: Conversation | None) -> tuple[Sent, Conversation | None]:
        """What is sent, and the agent's own conversation afterwards."""
        decision = self._decided(case, limits, facts)
        budget = self._budget(case, limits)
        if decision is None and not case.keeps:
            return self._weighing(case, limits, need).sent(budget), None
        remembers = _remembering(case, limits)
        decided = None if decision is None else (decision.mode, len(decision.reasons), decision.reasons[0].rule)
        digests = limits.context_budget_chars if case.keeps or decision is not None else None
        key = (decided, budget, digests, remembers, need, state)
        if key in case.memo:
            return case.memo[key]
        alike = (decided, remembers, need, state)
        known = case.whole.get(alike)
        if known is not None and _suffices(known[0], budget[0], digest_limits(limits.context_budget_chars, budget[0])):
            case.memo[key] = known[1]
        else:
            desk = Desk(self._digests, self._script, self._facts, lambda: self._ledger(case), lambda: self._new(case, budget[1]))
            goes_on = None if state is None or state.role is not case.turn.role or self._starts(case, decision, state) else state
            weighing = Weighing(desk, case, limits, decision, need, goes_on, budget)
            sent = weighing.sent()
            case.memo[key] = sent, weighing.after(sent, state) if case.keeps else None
            if weighing.enough is not None:
                case.whole[alike] = weighing.enough, case.memo[key]
        return case.memo[key]

    def _weighing(self, case: Case, limits: Limits, need: ToldNeed) -> PrimaryWeighing:
        """A primary without a conversation of its own: everything but its budget is looked at once."""
        key = (need, _remembering(case, limits))
        if key not in self._weighings:
            assumed = case.receipt.report.budget.limit_chars
            desk = Desk(self._digests, self._script, self._facts, lambda: self._ledger(case), lambda: self._new(case, assumed))
            self._weighings[key] = PrimaryWeighing(desk, case, limits, need)
        return self._weighings[key]

    def _budget(self, case: Case, limits: Limits) -> Budget:
        """The limit in characters, measured and assumed; the one of then where nothing that it follows from is another."""
        recorded, then, window = case.receipt.report.budget.limit_chars, case.receipt.limits, case.reader.window
        key = (id(limits), recorded, window)
        if key in self._budgets:
            return self._budgets[key]
        now = basis(limits, window)
        if now == basis(then, window) or (now[0] == "global" and window is None and recorded != limit_chars(then, None)):
            budget = recorded, recorded  # in the second case its window decided, which is not known any more
        elif now[0] != "window":
            budget = now[1] or None, now[1] or None
        else:
            assumed = limit_chars(limits, window)
            return limit_chars(limits, window, case.ratio, new=self._new(case, assumed)), assumed
        if limits is not then:
            self._budgets[key] = budget
        return budget

    def _new(self, case: Case, assumed: int | None) -> str:
        """What the measured ratio says nothing about."""
        if not case.ratio.measured:
            return ""
        return "".join(
            [case.prompt, case.need.text if case.need.status == "set" else "", case.brief or "", text_since(self._log, case.ratio, most=assumed or 0)]
        )

    def _ledger(self, case: Case) -> Ledger:
        key = (case.turn.agent, case.turn.model_requested)
        if key not in self._ledgers:
            self._ledgers[key] = Ledger(self._log, self._turns, Viewer(*key, clean=neutralise), case.reader.profile)
        return self._ledgers[key]


def _facts_under(facts: ModeFacts, need: ToldNeed) -> ModeFacts:
    """What the decision looks at, with another need."""
    if need.status != "set" or need.turn_index is None:
        return replace(facts, need_changed=False, need_turn=None)
    return replace(facts, need_changed=facts.last_escalation is not None and need.turn_index > facts.last_escalation, need_turn=need.turn_index)


def _output(turn: Turn) -> int:
    """Tokens of the answer: as they were counted, else as its texts are estimated."""
    counted = None if turn.usage is None else turn.usage.output_tokens
    return sum(estimate_tokens(part_text(step)) for step in turn.steps if not isinstance(step, ToolResult)) if counted is None else counted


def _suffices(enough: tuple[int, int], budget: int | None, digests: int | None) -> bool:
    return (budget is None or budget >= enough[0]) and (digests is None or digests >= enough[1])


def _remembering(case: Case, limits: Limits) -> object:
    """The limits of the facts, where there are any."""
    return (limits.percept_inject_max, limits.percept_inject_max_bytes) if case.chosen or case.receipt.report.percepts.over else None


def _projected(limits: Limits, reader: Reader, escalates: bool, remembers: bool) -> tuple[object, ...]:
    """What of the limits can matter to a turn; digests are told to escalation agents, and to whoever has a conversation of its own."""
    told = (limits.percept_inject_max, limits.percept_inject_max_bytes) if remembers else None
    decided = (limits.returning_fresh_start_local_turns, limits.context_budget_chars) if escalates else None
    return decided, told, basis(limits, reader.window)
