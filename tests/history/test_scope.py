from __future__ import annotations

import pytest

from orchestrator.history.scope import Scope, scope_of
from orchestrator.modes import Mode


@pytest.mark.parametrize("mode", [None, Mode.FIRST, Mode.RESUME, Mode.CONTINUATION, Mode.RETURNING])
def test_all_turns_are_in_scope_unless_it_is_a_fresh_start(mode: Mode | None) -> None:
    assert scope_of(mode, keeps_conversation=False, boundary=7) == Scope("all", 0)


def test_fresh_start_leaves_out_what_lies_before_the_boundary() -> None:
    assert scope_of(Mode.FRESH_START, keeps_conversation=False, boundary=7) == Scope("since_boundary", 7)


@pytest.mark.parametrize("mode", [None, *Mode])
def test_an_agent_with_its_own_conversation_gets_no_history(mode: Mode | None) -> None:
    assert scope_of(mode, keeps_conversation=True, boundary=7).name == "none"
