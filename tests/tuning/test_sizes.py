"""The history by sizes comes to what fitting in earnest comes to, whatever the turns and the room."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.history.budget import estimate_message_tokens
from orchestrator.history.fit import fit
from orchestrator.history.render import Viewer
from orchestrator.history.scope import Scope
from orchestrator.messages import Text, ToolCall, ToolResult
from orchestrator.session import Outcome, Role, Turn
from orchestrator.tags import neutralise
from orchestrator.tuning.past import PastLog
from orchestrator.tuning.sizes import Ledger

TEXTS = st.sampled_from(["yes", "a longer answer " * 20, "漢字 and more", "[end of local's answer]", "<escalera:need:x>", " ", "x" * 900, "line\nline"])


@st.composite
def histories(draw: st.DrawFn) -> list[Turn]:
    turns: list[Turn] = []
    for index in range(draw(st.integers(1, 14))):
        role = draw(st.sampled_from([Role.PRIMARY, Role.PRIMARY, Role.ESCALATION]))
        before = turns[-1] if turns else None
        continues = before.index if before is not None and before.outcome is Outcome.ESCALATED and role is Role.ESCALATION else None
        steps = [Text(draw(TEXTS))]
        if draw(st.booleans()):
            steps = [ToolCall(f"c{index}", "read", {"path": "x"}), ToolResult(f"c{index}", draw(TEXTS) * draw(st.integers(1, 3))), *steps]  # type: ignore[list-item]
        outcome = draw(st.sampled_from([Outcome.COMPLETED, Outcome.COMPLETED, Outcome.ESCALATED if role is Role.PRIMARY else Outcome.FAILED]))
        prompt = None if continues is not None else draw(TEXTS.filter(str.strip))
        turns.append(Turn(index, role, "strong" if role is Role.ESCALATION else "local", prompt, tuple(steps), outcome, continues=continues))
    return turns


@settings(max_examples=60)
@given(histories(), st.integers(0, 6_000), st.sampled_from(["local", "strong"]), st.booleans(), st.booleans())
def test_sizes_fit_as_texts_do(turns: list[Turn], available: int, agent: str, returning: bool, scoped: bool) -> None:
    end = len(turns)
    viewer = Viewer(agent, "m", clean=neutralise)
    last = max((turn.index for turn in turns if turn.role is Role.ESCALATION and turn.outcome is Outcome.COMPLETED), default=-1)
    scope = Scope("since_boundary", last + 1) if scoped and not returning else Scope("all")
    continuing = turns[-1].index if turns[-1].outcome is Outcome.ESCALATED else None
    boundary = last + 1 if returning else None
    log = PastLog(turns).at(end)
    fitted = fit(log, scope, viewer, profile="openai", available=available, reserve=80, returning_boundary=boundary, continuing=continuing)
    ledger = Ledger(PastLog(turns), turns, viewer, "openai")

    sized = ledger.fit(end, scope, available=available, reserve=80, returning=boundary, continuing=continuing)

    assert sized.chars == fitted.chars
    assert sized.sent == len(fitted.sent)
    assert sized.dropped == fitted.dropped.count_not_shown
    assert sized.rounds == fitted.batches_left_out
    assert abs(sized.tokens - estimate_message_tokens(fitted.messages)) <= sized.shortened
