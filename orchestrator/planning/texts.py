"""The texts of one turn, for any size of the digests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.context.delivery import context_block, delivered_marks, is_new_contribution, new_percepts, system_blocks, system_text
from orchestrator.context.digest import escalation_since, primary_activity, prior_escalation
from orchestrator.context.orientation import NOT_SHOWN_CHARS, Contribution, OpenQuestion, Situation, orientation
from orchestrator.context.static import MAX_PROJECT_INSTRUCTIONS, static_blocks
from orchestrator.history.budget import PART_OVERHEAD, PartName, limit_chars, measure_text
from orchestrator.history.scope import Scope
from orchestrator.memory.inject import format_percepts, format_tool_percepts
from orchestrator.modes import Mode
from orchestrator.percepts import Percept
from orchestrator.planning.case import Case
from orchestrator.providers import Conversation, SystemBlock
from orchestrator.quoting import clipped
from orchestrator.session import Role, need_label
from orchestrator.tags import neutralise
from orchestrator.templates import Templates

NEW = "<new>"
"""Stands in a plan for an id that the real turn makes (page 6)."""
QUESTION_CHARS = (300, 4000)
"""How much is told of an answer that ends with an open question, at least and at most."""
CONTRIBUTION_CHARS = 4000
"""How much is told of one plugin's text at most."""


@dataclass(frozen=True, slots=True)
class Texts:
    """Every text of a turn but the history."""

    static: tuple[SystemBlock, ...]
    orientation: str
    percepts: str
    tool_percepts: str
    prompt: str
    """What stands in the user message: the prompt, for agents without their own conversation after the facts from tool output."""
    conversation: Conversation | None
    delivered: Mapping[str, Any]
    """What an own conversation has been told once this turn is done."""
    told: tuple[Percept, ...]
    """The percepts that stand in these texts: of those chosen, what an own conversation was not told before."""

    @property
    def blocks(self) -> tuple[SystemBlock, ...]:
        """The system texts by name, whatever the delivery."""
        return system_blocks(self.static, orientation=self.orientation, percepts=self.percepts)

    def parts(self, tools: int) -> dict[PartName, int]:
        """The sizes of everything that is never dropped; each text counts once, wherever it is sent."""
        facts = len(self.tool_percepts)
        if self.conversation is None:
            static = measure_text("\n\n".join(block.text for block in self.static))
            percepts, prompt = measure_text(self.percepts) + facts, measure_text(self.prompt) - facts
            return {"system": static, "orientation": measure_text(self.orientation), "percepts": percepts, "tools": tools, "prompt": prompt}
        orientation, percepts = len(self.orientation), len(self.percepts) + facts
        system = len(self.conversation.system_text) + len(self.conversation.context_block) - orientation - percepts
        return {"system": system, "orientation": orientation, "percepts": percepts, "tools": tools, "prompt": measure_text(self.prompt)}


class Writer:
    """Writes the texts of one case, for any size of the digests."""

    def __init__(self, case: Case, templates: Templates, scope: Scope, boundary: int) -> None:
        self._case, self._templates, self._boundary = case, templates, boundary
        self._in_scope: Callable[[int], bool] = lambda index: scope.name != "none" and index >= scope.start
        self._static = static_blocks(
            templates,
            role=case.way.role,
            hands_over=case.hands_over,
            agent=case.agent.name,
            other_agents=[case.counterpart] if case.counterpart and case.counterpart != case.agent.name else [],
            takes_tools=case.takes_tools,
            takes_tags=case.agent.provider.capabilities.takes_tags,
            nonce=case.stand.session.nonce,
            agent_prompt=case.agent.prompt,
            project_instructions=case.supplies.project_instructions,
            project_chars=_project_chars(case),
            client_prompt=case.supplies.client_prompt,
        )
        self._contributed = {
            f"{plugin.distribution}:{plugin.name}": Contribution(plugin.name, text)
            for plugin, text in case.supplies.contributed
            if is_new_contribution(f"{plugin.distribution}:{plugin.name}", text, self._delivered)
        }

    def texts(self, digests: int | None, *, not_shown: int = 0, batches: int = 0) -> Texts:
        case = self._case
        nonce = case.stand.session.nonce
        activity = primary_activity(case.log, boundary=self._away_since, nonce=nonce, limit=digests, sent=self._in_scope)
        prior = self._prior(digests)
        told = orientation(self._templates, self._situation(activity, prior, digests), not_shown=not_shown, batches=batches)
        percepts = self._percepts()
        block, tool_block = format_percepts(percepts, self._templates), format_tool_percepts(percepts, self._templates)
        prompt = neutralise(case.wish.prompt)
        if not case.keeps_conversation:
            return Texts(self._static, told, block, tool_block, "\n\n".join(text for text in (tool_block, prompt) if text), None, {}, percepts)
        delivered = delivered_marks(
            self._delivered,
            primary_activity=activity,
            prior_escalation=prior,
            percepts=[percept.id for percept in percepts],
            contributed={} if digests == 0 else {plugin: contribution.text for plugin, contribution in self._contributed.items()},
        )
        return Texts(self._static, told, block, tool_block, prompt, self._conversation(told, block, tool_block), delivered, percepts)

    def _prior(self, limit: int | None) -> str:
        """What the escalation agent did: to a primary that has no history of ours, everything since its own last turn (page 2)."""
        case = self._case
        nonce = case.stand.session.nonce
        if case.way.role is Role.PRIMARY and case.keeps_conversation:
            return escalation_since(case.log, start=self._away_since, nonce=nonce, limit=limit, sent=self._in_scope)
        return prior_escalation(case.log, nonce=nonce, limit=limit, sent=self._in_scope)

    def line_chars(self, texts: Texts) -> int:
        """What the line about turns that are not shown adds to these texts at most; one of the user's own may be longer than ours."""
        count = max(1, self._case.log.next_index)
        line = 2 + len(self._templates.render("not_shown", count=count, batches=count))
        return max(NOT_SHOWN_CHARS, line) + (0 if texts.orientation.strip() else PART_OVERHEAD)

    @property
    def _away_since(self) -> int:
        """From where on others' work is told: the last escalation turn; to a primary with its own conversation all that is not in there."""
        if self._case.way.role is not Role.PRIMARY or not self._case.keeps_conversation:
            return self._boundary
        external = self._case.external
        return 0 if external is None or external.turn_index is None else external.turn_index + 1

    @property
    def _delivered(self) -> Mapping[str, Any]:
        return self._case.delivered

    def _percepts(self) -> tuple[Percept, ...]:
        """All of them, but for an agent that goes on in its own conversation: those it was not told yet (page 2)."""
        goes_on = self._case.external is not None and self._case.mode is not Mode.RETURNING
        return new_percepts(self._case.chosen.sent, self._delivered) if goes_on else self._case.chosen.sent

    def _conversation(self, told: str, percepts: str, tool_percepts: str) -> Conversation:
        external = self._case.external
        if external is None:
            system = system_text(self._templates, self._static, orientation=told, percepts=percepts)
            return Conversation("start", NEW, system, context_block(self._templates, tool_percepts=tool_percepts))
        system = external.system_text or system_text(self._templates, self._static, orientation="", percepts="")
        block = context_block(self._templates, orientation=told, percepts=percepts, tool_percepts=tool_percepts)
        return Conversation("resume", external.id, system, block, external.model)

    def _situation(self, activity: str, prior: str, digests: int | None) -> Situation:
        case = self._case
        stand, need = case.stand, case.need
        previous = stand.previous_goal
        return Situation(
            mode=case.mode,
            agent=case.agent.name,
            keeps_conversation=case.keeps_conversation,
            prompt=case.wish.said,
            need=None if need is None else need.text,
            need_status="none" if need is None else "set",
            need_label="current" if need is None else need_label(need, case.log.next_index),
            previous_need=None if previous is None else previous.text,
            brief=None if case.brief is None else case.brief.text,
            brief_given=case.brief is not None and case.brief.source != "prompt" and not case.brief.carried,
            brief_by="prompt" if case.brief is None else case.brief.source,
            open_question=self._open_question(digests),
            lost_session=case.lost_memory,
            primary_activity=activity,
            prior_escalation=prior,
            contributions=self._contributions(digests),
            delivered=self._delivered,
        )

    def _contributions(self, digests: int | None) -> tuple[Contribution, ...]:
        """The plugins' texts shrink with the digests, and are left out with them."""
        room = CONTRIBUTION_CHARS if digests is None else min(digests, CONTRIBUTION_CHARS)
        return tuple(Contribution(one.plugin, clipped(one.text, room)) for one in self._contributed.values()) if room else ()

    def _open_question(self, digests: int | None) -> OpenQuestion | None:
        """The end of the answer that asks: it shrinks with the digests, the question itself comes last in it."""
        asking = self._case.stand.asking
        if asking is None or self._case.way.role is Role.PRIMARY or asking.agent == self._case.agent.name:
            return None
        room = QUESTION_CHARS[1] if digests is None else min(max(digests, QUESTION_CHARS[0]), QUESTION_CHARS[1])
        return OpenQuestion(asking.agent, asking.answer if len(asking.answer) <= room else f"[…] {asking.answer[-room:]}")


def _project_chars(case: Case) -> int:
    """How much of the workspace's instructions is told: within a quarter of the budget, by what does not change from turn to turn."""
    limit = limit_chars(case.agent.limits, case.agent.provider.capabilities.context_window_tokens)
    return MAX_PROJECT_INSTRUCTIONS if limit is None else min(MAX_PROJECT_INSTRUCTIONS, limit // 4)
