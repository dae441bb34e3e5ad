"""`/memory`: what this session tells, what fades, what has left, and what the user changes of it; as text, or for the panel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from orchestrator.cli.facts import idle_text, left_text, marks_of, row, say_archived, say_percepts, say_stale, say_told
from orchestrator.cli.memory import say_learned
from orchestrator.cli.talk.conversation import Conversation
from orchestrator.errors import ConfigError, UsageError
from orchestrator.facts import Told as Telling
from orchestrator.facts import learned
from orchestrator.percepts import Percept, Stale
from orchestrator.settings.problems import did_you_mean, nearest

VERBS = {
    "list": "all that there are",
    "why": "who would be told what with that prompt",
    "learn": "keep a fact",
    "keep": "keep one of an agent's as if you had stated it",
    "everywhere": "tell one in all workspaces",
    "forget": "take one out, into the archive",
    "stale": "what fades",
    "archive": "what has left",
    "restore": "bring one back",
}
"""What may stand behind `/memory`, and what it means."""
_HINT = "/memory alone, or with list, why [MSG], learn TEXT, keep ID, everywhere ID, forget ID, stale, archive, restore ID"


class View(StrEnum):
    """What the facts are looked at for."""

    TOLD = "told"
    LEFT_OUT = "left out"
    FADING = "fading"
    ARCHIVE = "archive"


@dataclass(frozen=True, slots=True)
class Row:
    """A fact in a view, with what that says of it."""

    percept: Percept
    mark: str


class Remembered:
    """The facts of one conversation. Looking at them is no use of them."""

    def __init__(self, talk: Conversation) -> None:
        self._talk = talk

    @property
    def agent(self) -> str:
        """Who gets the next turn. Raises `ConfigError` where nobody can."""
        agent = self._talk.standing().agent
        if agent not in self._talk.front.settings.agents:
            raise ConfigError("nobody could be told anything: no primary agent is configured", hint="/agent lists who there is")
        return agent

    def rows(self, view: View) -> Sequence[Row]:
        """What the view shows, as it is now. Raises `EscaleraError`."""
        match view:
            case View.TOLD:
                return [Row(percept, marks_of(percept, place=False)) for percept, _ in self._talk.telling(self.agent, "", explain=False).sent]
            case View.LEFT_OUT:
                return [Row(percept, why) for percept, why in self._telling("").withheld]
            case View.FADING:
                found, never = self._stale()
                return [Row(one.percept, idle_text(one, never=never)) for one in found]
            case View.ARCHIVE:
                return [Row(one.percept, left_text(one)) for one in reversed(self._talk.store.archived())]

    def change(self, verb: str, ref: str) -> str:
        """Do that with one fact, by its id or the beginning of one: what was done. Raises `EscaleraError`."""
        changes: dict[str, tuple[str, Callable[[str], Percept]]] = {
            "keep": ("kept", self._keep),
            "everywhere": ("told everywhere from now on", self._talk.store.widen),
            "forget": ("forgotten", self._talk.store.forget),
            "restore": ("restored", self._talk.store.restore),
        }
        done, change = changes[verb]
        percept = change(ref)
        return row(f"{done}: {percept.id[:8]}  {percept.content}")

    def say(self, rest: str) -> None:
        """What stands behind `/memory`, as text. Raises `EscaleraError`."""
        verb, _, text = rest.partition(" ")
        text, front, store = text.strip(), self._talk.front, self._talk.store
        match verb:
            case "":
                self._say_all()
            case "list" if not text:
                say_percepts(front, store.percepts(session=self._talk.session.id))
            case "why":
                say_told(front, self._telling(text), rest=f"`escalera memory why --agent {self.agent} --json` names all")
            case "learn":
                percept, new = learned(front, store, text)
                say_learned(front, percept, stored=new)
            case "keep" | "everywhere" | "forget" | "restore" if text:
                front.output.say(self.change(verb, text))
            case "stale" if not text:
                found, never = self._stale()
                say_stale(front, found, never=never)
            case "archive" if not text:
                say_archived(front, store.archived())
            case _:
                wrong = f"/memory {verb} {'takes nothing more' if text else 'needs an ID'}" if verb in VERBS else f"/memory knows no {verb[:60]!r}"
                raise UsageError(wrong + ("" if verb in VERBS else did_you_mean(nearest(verb, VERBS))), hint=_HINT)

    def _say_all(self) -> None:
        front = self._talk.front
        say_told(front, self._telling(""), rest="/memory list has all")
        fading, gone = len(self._stale()[0]), len(self._talk.store.archived())
        front.output.say(f"{fading:,} fade (/memory stale), {gone:,} in the archive (/memory archive); /memory why MSG goes by that message")

    def _telling(self, prompt: str) -> Telling:
        return self._talk.telling(self.agent, prompt)

    def _stale(self) -> tuple[Sequence[Stale], bool]:
        """Those that fade, and whether age takes none of them away."""
        after = self._talk.front.upkeep.archive_after
        return self._talk.store.stale(after or 0.0), after is None

    def _keep(self, ref: str) -> Percept:
        percept = self._talk.store.percept(ref)
        return learned(self._talk.front, self._talk.store, percept.content, percept.consumer, subject=percept.subject)[0]
