"""The table of the modes: situations, each decided by the code itself, so that the page says what the program does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from orchestrator.modes import Decision, Facts, Flags, Mode, decide
from orchestrator.session import ExternalSession, State
from orchestrator.settings.declarations import LIMITS

_GAP = LIMITS["returning_fresh_start_local_turns"].default
_HERE, _ELSEWHERE = "/work/here", "/work/elsewhere"
_NEVER = Facts(
    state=State.ROUTING,
    last_escalation=None,
    last_escalation_agent=None,
    primary_turns=0,
    need_changed=False,
    need_turn=None,
    agent="strong",
    keeps_conversation=False,
    external_sessions=(),
    workspace=_HERE,
    config_dir=None,
)
_BEFORE = replace(_NEVER, last_escalation=3, last_escalation_agent="strong")
_AWAY = ExternalSession(agent="strong", id="a", workspace=_ELSEWHERE, config_dir=None, turn_index=3)
_OWN = ExternalSession(agent="strong", id="a", workspace=_HERE, config_dir=None, turn_index=3)

_EXPLAINED = {
    Mode.FIRST: "it never met the task: it is told everything",
    Mode.CONTINUATION: "nothing happened since its last turn: it just goes on",
    Mode.RETURNING: "the primary worked meanwhile: it is told what happened",
    Mode.RESUME: "this is the reply to its question: it goes on where it asked",
    Mode.FRESH_START: "what it remembers is stale or gone: it is told everything anew",
}


def modes_page() -> str:
    """The page's text, without its title."""
    modes = "\n".join(f"| `{mode}` | {_EXPLAINED[mode]} |" for mode in Mode)
    return f"""\
How an escalation turn is handed over depends on what the agent can be taken to know already. Five modes say so:

| mode | the agent |
| --- | --- |
{modes}

The first of these questions that is answered with yes decides; `escalera plan` shows the mode and its reasons before a turn, `escalera session show` after it.

```
{_TREE}
```

## Decided by the code

Each row is a situation that the program itself was asked about when this page was written. "Gap" is `returning_fresh_start_local_turns`, {_GAP} unless
you set it (0 = never), counted in completed turns of the primary since the last completed escalation turn.

| session | agent | mode | reasons |
| --- | --- | --- | --- |
{chr(10).join(_rows())}
"""


_TREE = """\
 --fresh? ─────────────── yes ─> fresh_start  (first, where nobody escalated before)
    │ no
 an open question? ────── yes ─> resume       (fresh_start, where another agent than the one that asked is chosen)
    │ no
 never escalated? ─────── yes ─> first
    │ no
 need set since? ──────── yes ─> fresh_start
    │ no
 gap reached? ─────────── yes ─> fresh_start
    │ no
 primary turns since? ─── no ──> continuation
    │ yes
    └──────────────────────────> returning

 resume, continuation and returning of an agent with a conversation of its own need one that is its own, of this workspace, and still there:
 else fresh_start, with one more reason"""


def _rows() -> Iterator[str]:
    for session, agent, facts, flags in _situations():
        decision: Decision = decide(facts, _Limits(), flags)
        rules = ", ".join(f"`{reason.rule}`" for reason in decision.reasons)
        yield f"| {session} | {agent} | `{decision.mode}` | {rules} |"


def _situations() -> Iterator[tuple[str, str, Facts, Flags]]:
    plain, usual = "any", Flags()
    yield "nobody escalated before", plain, _NEVER, usual
    yield "nobody escalated before, with `--fresh`", plain, _NEVER, Flags(fresh=True)
    yield "escalated before, with `--fresh`", plain, _BEFORE, Flags(fresh=True)
    yield "the last turn was its own", plain, _BEFORE, usual
    yield "one primary turn since", plain, replace(_BEFORE, primary_turns=1), usual
    yield f"{_GAP - 1} primary turns since", plain, replace(_BEFORE, primary_turns=_GAP - 1), usual
    yield f"{_GAP} primary turns since", plain, replace(_BEFORE, primary_turns=_GAP), usual
    yield "the need was set since", plain, replace(_BEFORE, primary_turns=1, need_changed=True, need_turn=4), usual
    yield f"the need was set since, {_GAP} primary turns", plain, replace(_BEFORE, primary_turns=_GAP, need_changed=True, need_turn=4), usual
    asked = replace(_BEFORE, state=State.WAITING)
    yield "it asked, this is the reply", plain, asked, usual
    yield "it asked, and the need was set since", plain, replace(asked, need_changed=True, need_turn=4), usual
    yield "another agent asked", plain, replace(asked, last_escalation_agent="other"), usual
    yield "the last escalation was another agent's", "keeps none of its own", replace(_BEFORE, last_escalation_agent="other"), usual
    own = replace(_BEFORE, keeps_conversation=True, external_sessions=(_OWN,), primary_turns=1)
    yield "one primary turn since", "keeps its own conversation", own, usual
    yield "it asked, this is the reply", "keeps its own conversation", replace(own, state=State.WAITING, primary_turns=0), usual
    yield "one primary turn since", "its conversation is not known", replace(own, external_sessions=()), usual
    yield "one primary turn since", "said that its conversation is gone", replace(own, conversation_lost=True), usual
    yield "one primary turn since", "its conversation belongs to another workspace", replace(own, external_sessions=(_AWAY,)), usual
    yield "the last escalation was another agent's", "keeps its own conversation", replace(own, last_escalation_agent="other"), usual


class _Limits:
    returning_fresh_start_local_turns = _GAP
