from __future__ import annotations

import pytest

from orchestrator.history.ratio import ASSUMED, Ratio, ratio_of, text_since
from orchestrator.messages import Text, Usage
from orchestrator.session import Outcome, Role, Turn, TurnError, TurnList


def turn(index: int, usage: Usage | None, **fields: object) -> Turn:
    about = {"role": Role.ESCALATION, "agent": "strong", "model_requested": "m", **fields}
    return Turn(index=index, prompt="p", usage=usage, **about)  # type: ignore[arg-type]


def counted(tokens: int, *, chars: int = 1200, estimate: int = 400, **fields: object) -> Usage:
    return Usage(input_tokens=tokens, sent_chars=chars, sent_tokens_estimate=estimate, **fields)  # type: ignore[arg-type]


def of(*turns: Turn) -> Ratio:
    return ratio_of(TurnList(turns), role=Role.ESCALATION, agent="strong", model="m")


def test_three_characters_make_a_token_until_something_is_measured() -> None:
    assert of() == ASSUMED
    assert (ASSUMED.chars_per_token, ASSUMED.factor, ASSUMED.measured) == (3.0, 1.0, False)


def test_the_newest_five_turns_are_taken_together() -> None:
    measured = of(turn(0, counted(1200)), *(turn(index, counted(300)) for index in range(1, 5)), turn(5, counted(200, chars=600, estimate=200)))

    assert measured.measured
    assert measured.chars_per_token == (4 * 1200 + 600) / (4 * 300 + 200)
    assert measured.factor == (4 * 300 + 200) / (4 * 400 + 200)


def test_what_the_model_read_from_a_cache_is_counted_once() -> None:
    assert of(turn(0, counted(100, cache_read_tokens=150, cache_write_tokens=50))).chars_per_token == 4.0
    assert of(turn(0, counted(300, cache_read_tokens=150, cache_in_input=True))).chars_per_token == 4.0


def test_what_was_read_beside_the_turn_is_left_out() -> None:
    assert of(turn(0, counted(400, aside_tokens=100))).chars_per_token == 4.0
    assert of(turn(0, Usage(input_tokens=100, aside_tokens=100))) == ASSUMED


@pytest.mark.parametrize(
    "other",
    [
        turn(0, counted(400), agent="stronger"),
        turn(0, counted(400), model_requested="m-2"),
        turn(0, counted(400), role=Role.PRIMARY),
        turn(0, counted(400), outcome=Outcome.FAILED),
        turn(0, None),
        turn(0, Usage(input_tokens=400)),
        turn(0, Usage(sent_chars=1200, sent_tokens_estimate=400)),
    ],
    ids=["agent", "model", "role", "failed", "no usage", "imported", "unreported"],
)
def test_only_completed_turns_of_the_same_agent_and_model_that_tell_it_count(other: Turn) -> None:
    assert of(other) == ASSUMED


@pytest.mark.parametrize("tokens", [0, 1, 199, 6001, 10**12])
def test_a_count_that_cannot_be_of_what_was_sent_is_not_believed(tokens: int) -> None:
    assert of(turn(0, counted(tokens))) == ASSUMED


def failed(index: int, error: str) -> Turn:
    return turn(index, None, outcome=Outcome.FAILED, error=TurnError(error, ""))


def test_nothing_is_measured_where_the_newest_turn_did_not_fit() -> None:
    assert of(turn(0, counted(300)), failed(1, "ContextOverflow")) == ASSUMED
    assert of(turn(0, counted(300)), failed(1, "Unavailable")).measured
    assert of(turn(0, counted(300)), failed(1, "ContextOverflow"), turn(2, counted(300))).measured


def test_what_came_after_the_measured_turn_is_new_to_the_ratio() -> None:
    turns = [
        turn(0, None, steps=(Text("old answer"),)),
        turn(1, counted(300), steps=(Text("its answer"),)),
        Turn(2, Role.PRIMARY, "local", "more", (Text("digits"),)),
        Turn(3, Role.PRIMARY, "local", "lost", (Text("lost"),), outcome=Outcome.FAILED),
    ]
    measured = of(*turns)

    assert text_since(TurnList(turns), measured, most=100) == "moredigitsits answer"
    assert text_since(TurnList(turns), measured, most=8) == "moredigi"
    assert text_since(TurnList(turns), ASSUMED, most=100) == ""


def test_an_estimate_of_foreign_script_is_never_lowered() -> None:
    assert of(turn(0, counted(300, estimate=3000))).factor == 1.0
    assert of(turn(0, counted(900, estimate=300, chars=300))).factor == 3.0


def test_an_estimate_is_raised_fourfold_at_most() -> None:
    assert of(turn(0, counted(1200, estimate=10))).factor == 4.0
