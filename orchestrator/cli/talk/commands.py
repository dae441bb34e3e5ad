"""The commands of a chat: what begins with `/` (page 6)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.cli.briefing import Edit, edited_brief
from orchestrator.cli.front import Front
from orchestrator.cli.need import say_need
from orchestrator.cli.plan import show_plan
from orchestrator.cli.prompt import Attached, with_files
from orchestrator.cli.questions import say_questions
from orchestrator.cli.session import summary_line
from orchestrator.cli.talk.attachments import named_files
from orchestrator.cli.talk.conversation import Conversation
from orchestrator.cli.talk.remembered import Remembered
from orchestrator.cli.usage import say_usage
from orchestrator.continuing import due_questions, with_answers
from orchestrator.errors import ConfigError, NotFound, UsageError
from orchestrator.messages import well_formed
from orchestrator.needs import cleared, restored, stated, usable_need
from orchestrator.planning.case import Wish
from orchestrator.planning.plan import revised
from orchestrator.providers import Cancel
from orchestrator.quoting import one_line
from orchestrator.routing import Choice, Pin
from orchestrator.session import TOLD, Role, State, Turn
from orchestrator.sessions import named_session
from orchestrator.settings.problems import did_you_mean, nearest
from orchestrator.spending import spent, total


@dataclass(frozen=True, slots=True)
class Command:
    """One command as `/help` shows it."""

    name: str
    arguments: str
    help: str

    @property
    def usage(self) -> str:
        return f"/{self.name} {self.arguments}".rstrip()


COMMANDS = (
    Command("escalate", "[-e] [MSG]", "MSG goes to the escalation agent, this once, with -e once you have edited the brief; without MSG all turns do"),
    Command("primary", "[MSG]", "MSG goes to the primary, this once; without MSG all turns do, and an open question is left"),
    Command("agent", "[NAME]", "all turns go to that agent; without NAME: who there is"),
    Command("fresh", "", "the next escalation turn starts afresh, with the full context"),
    Command("need", "[TEXT|clear|restore]", "what you are trying to do: show, state, forget, bring back"),
    Command("memory", "[WHAT …]", "remembered facts: who is told what, what fades, what has left; list, why, learn, keep, forget, restore …"),
    Command("plan", "[MSG]", "what the next turn would be and would send"),
    Command("why", "", "why the last turn went to whom it went, and how"),
    Command("usage", "", "tokens and cost of this session"),
    Command("questions", "[send]", "what agents asked; send: tell the agent what was answered when its turn had ended"),
    Command("undo", "", "take the last turn out of the session; a fork keeps it"),
    Command("retry", "[AGENT]", "undo the last turn and send its prompt again, to the same agent or another"),
    Command("new", "[NAME]", "begin another session"),
    Command("session", "[REF]", "go on with another session; without REF: which there are"),
    Command("help", "", "this"),
    Command("quit", "", "leave; Ctrl-D does too"),
)
BY_NAME = {command.name: command for command in COMMANDS}
_LONG_FOR = {"exit": "quit"}

_LOOKED_AT = 20_000
"""Characters of a prompt that are looked through for files that were not attached: a pasted book may have an `@` in every line."""


def is_command(line: str) -> bool:
    """Whether it is one, and no prompt: a prompt may begin with a path, which no command looks like or which is there."""
    if not line.startswith("/") or line.startswith("//"):
        return False
    word = line.split(maxsplit=1)[0]
    return word == "/" or word[1:] in BY_NAME or not ("/" in word[1:] or os.path.exists(word))


Attach = Callable[[str], tuple[str, Attached]]
"""Gives a prompt with the files that it names, and these."""


class Leave(Exception):
    """The user wants to go."""


class Commands:
    """What a line means: a wish for a turn, or something that is done at once and said through the front's output."""

    def __init__(self, front: Front, talk: Conversation, edit: Edit | None = None, panel: Callable[[Remembered, Cancel], None] | None = None) -> None:
        """`edit` is there where there is a terminal for an editor, `panel` where there is a screen to show the facts on."""
        self._front, self._talk, self._edit, self._panel = front, talk, edit, panel

    def understand(self, line: str, *, cancel: Cancel, own: str | None = None) -> Wish | None:
        """The turn that is wanted, if one is. Files to attach are named by what of the line is the user's `own`; `None`: an `@` is only a word.

        Raises `Leave`, and `EscaleraError` for what cannot be done.
        """
        text = well_formed(line)
        if text != line:
            self._front.output.notice("the prompt held characters that are no valid text; they were replaced by U+FFFD")
        attach = _unchanged if own is None else self._attach(well_formed(own))
        if is_command(text):
            return self._command(text, cancel, attach)
        return _wish(attach(text[1:] if text.startswith("//") else text))

    def _attach(self, own: str) -> Attach:
        """Who wrote a text that was pasted must not choose what is read: only `own` names files."""

        def attach(text: str) -> tuple[str, Attached]:
            files, named = (named_files(words, cwd=Path(self._front.workspace), environ=self._front.environ) for words in (own, text[:_LOOKED_AT]))
            for path in files:
                self._front.output.notice(f"· attached {one_line(str(path), 300)}")
            others = [path for path in named if path not in files]
            if others:
                self._front.output.notice(_not_attached(others, plain=self._front.output.plain))
            return with_files(text, files)

        return attach

    def _command(self, text: str, cancel: Cancel, attach: Attach) -> Wish | None:
        name, _, rest = text[1:].partition(" ") if " " in text.partition("\n")[0] else text[1:].partition("\n")
        name, rest = _LONG_FOR.get(name.strip(), name.strip()), rest.strip()
        if rest and name in BY_NAME and not BY_NAME[name].arguments:
            raise UsageError(f"/{name} takes nothing more, so not {one_line(rest, 60)!r}", hint="/help lists what each command takes")
        match name:
            case "escalate" if rest.partition("\n")[0].split(" ", 1)[0] == "-e":
                return self._with_brief(rest[2:].strip(), cancel, attach)
            case "escalate":
                return self._role(Role.ESCALATION, rest, cancel, attach)
            case "primary":
                return self._role(Role.PRIMARY, rest, cancel, attach)
            case "retry":
                return self._retry(rest, cancel)
            case "plan":
                self._plan(attach(rest))
                return None
            case "questions" if rest:
                return self._send_answers(rest)
            case "quit":
                raise Leave
        done: dict[str, Callable[[str, Cancel], None]] = {
            "agent": self._agent,
            "fresh": self._fresh,
            "need": self._need,
            "memory": self._memory,
            "why": self._why,
            "usage": self._usage,
            "questions": self._questions,
            "undo": self._undo,
            "new": self._new,
            "session": self._session,
            "help": self._help,
        }
        if name not in done:
            known = nearest(name, BY_NAME, cutoff=0.5)
            meant = did_you_mean(None if known is None else f"/{known}")
            raise UsageError(f"there is no command /{one_line(name, 60)}{meant}", hint="/help lists them; a prompt that begins with / is typed with //")
        done[name](rest, cancel)
        return None

    # -- who gets a turn ---------------------------------------------------------------------------

    def _role(self, role: Role, rest: str, cancel: Cancel, attach: Attach) -> Wish | None:
        if rest:
            return _wish(attach(rest), Choice(role=role))
        self._pin(Pin(role), cancel)
        return None

    def _with_brief(self, rest: str, cancel: Cancel, attach: Attach) -> Wish:
        """The brief is edited here; what is left empty, or a cancel meanwhile, sends nothing."""
        if not rest:
            raise UsageError("/escalate -e is for one message", hint="/escalate -e MSG")
        if self._edit is None:
            raise UsageError("/escalate -e needs a terminal for the editor", hint="/escalate MSG goes without")
        wish = _wish(attach(rest), Choice(role=Role.ESCALATION))
        brief = edited_brief(self._talk.plan(wish.prompt, wish.choice), self._edit)
        cancel.raise_if_set()
        return revised(wish, brief)

    def _pin(self, pin: Pin, cancel: Cancel) -> None:
        agent = pin.agent or self._talk.front.settings.explain(pin.role.value).value
        if agent is None:
            raise ConfigError(f"no {pin.role} agent is configured", hint="/agent lists who there is")
        left = pin.role is Role.PRIMARY and self._talk.back_to_primary(cancel)
        self._talk.pin = pin
        if left:
            self._say("the open question is left unanswered")
        asks = self._talk.standing().state is State.WAITING
        self._say(f"{'after the reply to the open question ' if asks else ''}all turns go to {agent!r} ({pin.role}) until you say otherwise")

    def _agent(self, name: str, cancel: Cancel) -> None:
        settings = self._talk.front.settings
        roles = {role: settings.explain(role.value).value for role in Role}
        if not name:
            for agent in settings.agents.values():
                parts = ", ".join(role.value for role in Role if roles[role] == agent.name)
                self._say(f"{agent.name}  {agent.provider}{f'  ({parts})' if parts else ''}")
            return
        if name not in settings.agents:
            raise NotFound(f"there is no agent {name!r}{did_you_mean(nearest(name, settings.agents))}", hint="/agent lists who there is")
        self._pin(Pin(Role.PRIMARY if name == roles[Role.PRIMARY] else Role.ESCALATION, name), cancel)

    def _fresh(self, _rest: str, _cancel: Cancel) -> None:
        self._talk.fresh = True
        self._say("the next escalation turn starts afresh")

    # -- what is known and remembered --------------------------------------------------------------

    def _need(self, rest: str, cancel: Cancel) -> None:
        if rest:
            change = {"clear": cleared, "restore": restored}.get(rest) or stated(usable_need(rest))
            self._talk.change_need(change, cancel)
        say_need(self._front, self._talk.need())

    def _memory(self, rest: str, cancel: Cancel) -> None:
        remembered = Remembered(self._talk)
        if rest or self._panel is None:
            remembered.say(rest)
        else:
            self._panel(remembered, cancel)

    def _plan(self, attached: tuple[str, Attached]) -> None:
        show_plan(self._front.output, self._talk.plan(attached[0]))

    def _why(self, _rest: str, _cancel: Cancel) -> None:
        turns = self._talk.last_turns()
        if not turns:
            raise NotFound("there was no turn yet")
        for turn in turns:
            mode = f", mode {turn.mode}" if turn.mode else ""
            self._front.output.heading(f"turn {turn.index}: {turn.agent} ({turn.role}{mode}), {turn.outcome}")
            for reason in turn.routing if turn.mode else ():
                self._say(f"  went there by {reason.rule}: {reason.detail}")
            for reason in turn.reasons:
                self._say(f"  because {reason.rule}: {reason.detail}")
            if turn.error is not None:
                self._say(f"  {turn.error.type}: {turn.error.message}")
        report = self._talk.last
        if report is not None and report.turn.index == turns[-1].index:
            self._say("as it was planned:")
            show_plan(self._front.output, report.plan, texts=False)

    def _usage(self, _rest: str, _cancel: Cancel) -> None:
        prices = {agent.name: agent.prices for agent in self._talk.front.settings.agents.values()}
        sums = self._talk.store.usage("agent", session=self._talk.session.id)
        say_usage(self._front, "agent", spent(sums, prices), total(sums, prices))

    def _questions(self, _rest: str, _cancel: Cancel) -> None:
        broker, standing = self._talk.front.broker(self._talk.store), self._talk.standing()
        shown = broker.untold(self._talk.session.id) if self._talk.is_stored else ()
        say_questions(self._front, shown)
        if standing.elsewhere:
            self._say(f"{standing.elsewhere} more in other sessions: `escalera questions list`")
        if not all(stored.is_pending for stored in shown):
            self._say("/questions send tells the agent what was answered")
        self._say("what an agent asks while it works appears here, and is answered here or with `escalera questions`")
        if standing.state is State.WAITING:
            self._say("its last answer ended with a question: the next message is the reply; /primary leaves it")

    def _send_answers(self, rest: str) -> Wish:
        if rest != "send":
            raise _usage("questions")
        if not self._talk.is_stored:
            raise NotFound("nothing was asked yet")
        front, session = self._talk.front, self._talk.session
        broker = front.broker(self._talk.store)
        due = due_questions(broker, session.id)
        broker.told(*due)  # before the turn: what became of it, /retry can send again
        return with_answers(Wish(""), due, front.templates(front.project(session.workspace)))

    def _help(self, _rest: str, _cancel: Cancel) -> None:
        width = max(len(command.usage) for command in COMMANDS)
        for command in COMMANDS:
            self._say(f"{command.usage:{width}}  {command.help}")
        self._say("anything else is a prompt; // sends one that begins with /, and @path attaches a file")

    # -- back and away -----------------------------------------------------------------------------

    def _undo(self, _rest: str, cancel: Cancel) -> None:
        self._undone(cancel)

    def _undone(self, cancel: Cancel) -> None:
        turns, fork = self._talk.undo(cancel)
        which = f"turn {turns[0].index}" if len(turns) == 1 else f"turns {turns[0].index} and {turns[-1].index}"
        self._say(f"undone: {which}; session {fork.id[:8]} keeps what was")

    def _retry(self, name: str, cancel: Cancel) -> Wish:
        turns = self._talk.last_turns()
        prompt = turns[0].prompt if turns else None
        if prompt is None:
            raise NotFound("there is no turn to try again")
        if name and name not in self._talk.front.settings.agents:
            raise NotFound(f"there is no agent {name!r}{did_you_mean(nearest(name, self._talk.front.settings.agents))}", hint="/agent lists who there is")
        if any(turn.outcome in TOLD for turn in turns):  # what failed counts for nothing, and stays where it is
            self._undone(cancel)
        return Wish(prompt, Choice(agent=name) if name else _same(turns))

    def _new(self, name: str, _cancel: Cancel) -> None:
        if name and named_session(self._talk.store, self._front.workspace, name) is not None:
            raise UsageError(f"{name!r} is the name of a session already", hint=f"/session {name} goes on with it")
        self._talk.move(None, name=name or None)
        self._say("the next turn begins a new session")

    def _session(self, ref: str, _cancel: Cancel) -> None:
        if not ref:
            for summary in self._talk.store.list(self._front.workspace):
                self._say(f"{'*' if summary.id == self._talk.session.id else ' '} {summary_line(summary)}")
            return
        self._talk.move(self._talk.store.find(ref, self._front.workspace))
        self._say(f"on with session {self._talk.session.id[:8]}, {self._talk.session.workspace}")

    def _say(self, text: str) -> None:
        self._front.output.say(text)


def _unchanged(text: str) -> tuple[str, Attached]:
    return text, ()


def _not_attached(files: Sequence[Path], *, plain: bool) -> str:
    names = ", ".join(one_line(str(path), 100) for path in files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")
    why = "without a screen a name that is typed cannot be told from one that is pasted" if plain else "what is pasted or recalled names no file"
    return f"· not attached: {names}; {why}: {'' if plain else 'type it behind an @, or '}use `escalera ask --file`"


def _wish(attached: tuple[str, Attached], choice: Choice | None = None) -> Wish:
    return Wish(attached[0], choice or Choice(), files=attached[1])


def _same(turns: tuple[Turn, ...]) -> Choice:
    """To whom the message went first: whoever hands over may do so again."""
    return Choice(role=turns[0].role, agent=turns[0].agent)


def _usage(name: str) -> UsageError:
    return UsageError(f"/{name} is used as {BY_NAME[name].usage}", hint="/help lists all commands")
