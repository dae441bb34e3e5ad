"""Questions in the middle of an escalation: as `input_required` in the present revision, by elicitation in the older ones (page 5, J)."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest
from mcp.client import Client
from mcp.shared.exceptions import MCPError

from orchestrator.providers import Answer, Question
from orchestrator.testing.fake_provider import says

from .conftest import ASKS, LEGACY, MODERN, START, Asked, Home, drive, says_accept, text, until

SHORT = '[questions]\nttl = "40s"\n'
"""Shorter than a lease, since a clock that is set by hand leaves no time to renew one."""

both = pytest.mark.parametrize("mode", [MODERN, LEGACY])


async def asked(client: Client, state: str | None = None, responses: dict[str, Any] | None = None, **arguments: object) -> types.InputRequiredResult:
    """One round, not gone on with."""
    given = {"prompt": "go", **arguments}
    result = await client.session.call_tool("escalate", given, request_state=state, input_responses=responses, allow_input_required=True)
    assert isinstance(result, types.InputRequiredResult), result
    return result


def only(result: types.InputRequiredResult) -> tuple[str, types.ElicitRequestFormParams]:
    """The id of its question, and what it asks for."""
    ((identity, request),) = (result.input_requests or {}).items()
    assert isinstance(request, types.ElicitRequest)
    assert isinstance(request.params, types.ElicitRequestFormParams)
    return identity, request.params


async def anybody(_context: object, _params: object) -> types.ElicitResult:
    raise AssertionError("the test goes on by itself")


# -- J1: what an answer becomes ------------------------------------------------------------------


@both
@pytest.mark.parametrize(
    ("given", "answer"),
    [
        (types.ElicitResult(action="accept", content={"colour": "red"}), Answer("accept", {"colour": "red"})),
        (types.ElicitResult(action="decline"), Answer("decline")),
        (types.ElicitResult(action="cancel"), Answer("cancel")),
    ],
)
def test_j1_accept_decline_and_cancel_reach_the_agent_as_what_they_are(home: Home, mode: str, given: types.ElicitResult, answer: Answer) -> None:
    home.strong.will([ASKS, *says("Done.")])
    user = Asked(given)

    async def work() -> types.CallToolResult:
        async with home.client(mode, elicitation_callback=user) as client:
            return await client.call_tool("escalate", {"prompt": "go"})

    assert text(drive(work())) == "Done."
    assert home.strong.answers == [answer]
    (shown,) = user.seen
    assert isinstance(shown, types.ElicitRequestFormParams)
    assert (shown.message, shown.requested_schema["required"]) == ("Which colour?", ["colour"])


def test_j1_an_answer_without_an_action_is_a_cancel(home: Home) -> None:
    home.strong.will([ASKS, *says("Done.")])

    async def heard(_context: object, _params: object) -> Any:
        return types.ElicitResult.model_construct(action=None, content={"colour": "red"})

    async def work() -> None:
        async with home.client(LEGACY, elicitation_callback=heard) as client:
            await client.call_tool("escalate", {"prompt": "go"})

    drive(work())

    assert home.strong.answers == [Answer("cancel")]


@both
def test_a_permission_is_asked_for_without_fields_and_an_address_stands_in_the_text(home: Home, mode: str) -> None:
    home.strong.will([Question("May I run make?"), Question("Log in there", mode="url", url="https://example.org/login"), *says("Done.")])
    user = Asked(types.ElicitResult(action="accept"), types.ElicitResult(action="accept", content={"stray": "field"}))

    async def work() -> None:
        async with home.client(mode, elicitation_callback=user) as client:
            await client.call_tool("escalate", {"prompt": "go"})

    drive(work())

    assert home.strong.answers == [Answer("accept"), Answer("accept")]
    assert [shown.message for shown in user.seen] == ["May I run make?", "Log in there\nhttps://example.org/login"]


@both
def test_an_answer_that_does_not_fit_is_asked_for_again_with_what_is_wrong(home: Home, mode: str) -> None:
    home.strong.will([ASKS, *says("Done.")])
    user = Asked(types.ElicitResult(action="accept", content={}), says_accept(colour="red"))

    async def work() -> None:
        async with home.client(mode, elicitation_callback=user) as client:
            await client.call_tool("escalate", {"prompt": "go"})

    drive(work())

    assert home.strong.answers == [Answer("accept", {"colour": "red"})]
    assert "colour" in user.seen[1].message.partition("\n")[2]


# -- J2 and the token ----------------------------------------------------------------------------


def test_j2_a_retry_without_answers_is_the_same_question_once_more_and_a_read_of_it(home: Home) -> None:
    home.config += SHORT
    home.strong.will([ASKS, *says("Done.")])

    async def work() -> types.CallToolResult:
        async with home.client(elicitation_callback=anybody) as client:
            first = await asked(client)
            home.clock.seconds = 30
            second = await asked(client, first.request_state)
            assert only(second) == only(first)
            assert second.request_state != first.request_state
            stored = home.calls.broker.peek(only(first)[0])
            assert ((stored.life.last_touched - START).total_seconds(), (stored.life.expires_at - START).total_seconds()) == (30, 70)
            home.clock.seconds = 50  # beyond its first deadline
            responses = {only(first)[0]: says_accept(colour="red")}
            return await client.session.call_tool("escalate", {"prompt": "go"}, request_state=second.request_state, input_responses=responses)

    assert text(drive(work())) == "Done."
    assert home.strong.answers == [Answer("accept", {"colour": "red"})]


@pytest.mark.parametrize("how", ["changed", "other request", "expired", "of another process", "none"])
def test_h8_h9_a_state_that_does_not_count_is_refused_and_the_question_stays_open(home: Home, how: str) -> None:
    home.config += '[questions]\nttl = "2h"\nmax_age = "3h"\n'
    home.strong.will([ASKS, *says("Done.")])

    async def work() -> int:
        async with home.client(elicitation_callback=anybody) as client, home.client(calls=home.process(), elicitation_callback=anybody) as other:
            first = await asked(client)
            state, arguments, sender = first.request_state or "", {}, client
            if how == "changed":
                state = state[:-1] + ("A" if state[-1] != "A" else "B")
            elif how == "other request":
                arguments = {"reason": "another one"}
            elif how == "expired":
                home.clock.seconds = 31 * 60
            elif how == "of another process":
                sender = other
            else:
                state = "nothing"
            with pytest.raises(MCPError) as refused:
                await asked(sender, state, {only(first)[0]: says_accept(colour="red")}, **arguments)
            assert home.calls.broker.peek(only(first)[0]).is_pending
            home.calls.broker.answer(only(first)[0], Answer("decline"))
            await until(lambda: not home.strong.running)
            return refused.value.code

    assert drive(work()) == types.INVALID_PARAMS


def test_h8_a_state_counts_for_29_minutes_and_its_use_does_not_lengthen_it(home: Home) -> None:
    home.config += '[questions]\nttl = "2h"\nmax_age = "3h"\n'
    home.strong.will([ASKS, *says("Done.")])

    async def work() -> None:
        async with home.client(elicitation_callback=anybody) as client:
            first = await asked(client)
            home.clock.seconds = 29 * 60
            second = await asked(client, first.request_state)
            home.clock.seconds = 31 * 60
            with pytest.raises(MCPError):
                await asked(client, first.request_state)
            await client.session.call_tool(
                "escalate", {"prompt": "go"}, request_state=second.request_state, input_responses={only(first)[0]: says_accept(colour="red")}
            )

    drive(work())

    assert home.strong.answers == [Answer("accept", {"colour": "red"})]


def test_answers_to_what_was_not_asked_are_let_be(home: Home) -> None:
    home.strong.will([ASKS, *says("Done.")])

    async def work() -> None:
        async with home.client(elicitation_callback=anybody) as client:
            first = await asked(client)
            again = await asked(client, first.request_state, {"no-such-question": says_accept(colour="red")})
            assert only(again) == only(first)
            responses = {only(first)[0]: says_accept(colour="red")}
            await client.session.call_tool("escalate", {"prompt": "go"}, request_state=again.request_state, input_responses=responses)

    drive(work())


def test_a_state_is_good_for_the_result_when_the_question_was_answered_elsewhere(home: Home) -> None:
    home.strong.will([ASKS, *says("Done.")])

    async def work() -> types.CallToolResult:
        async with home.client(elicitation_callback=anybody) as client:
            first = await asked(client)
            home.process().broker.answer(only(first)[0], Answer("accept", {"colour": "blue"}))
            await until(lambda: not home.strong.running)
            late = {only(first)[0]: says_accept(colour="red")}
            return await client.session.call_tool("escalate", {"prompt": "go"}, request_state=first.request_state, input_responses=late)

    assert text(drive(work())) == "Done."
    assert home.strong.answers == [Answer("accept", {"colour": "blue"})]


# -- ends that nobody here gave ------------------------------------------------------------------


def test_an_answer_from_elsewhere_ends_the_elicitation(home: Home) -> None:
    home.strong.will([ASKS, *says("Done.")])
    seen: list[str] = []

    async def heard(_context: object, params: types.ElicitRequestParams) -> types.ElicitResult:
        seen.append(params.message)
        (stored,) = home.calls.broker.listed()
        home.process().broker.answer(stored.id, Answer("accept", {"colour": "blue"}))
        await until(lambda: home.strong.answers)
        return types.ElicitResult(action="decline")

    async def work() -> types.CallToolResult:
        async with home.client(LEGACY, elicitation_callback=heard) as client:
            return await client.call_tool("escalate", {"prompt": "go"})

    assert text(drive(work())) == "Done."
    assert (seen, home.strong.answers) == (["Which colour?"], [Answer("accept", {"colour": "blue"})])


def test_a_question_that_nobody_goes_on_with_expires_and_the_turn_ends(home: Home) -> None:
    home.config += SHORT
    home.strong.will([ASKS, *says("Done.")])

    async def work() -> types.CallToolResult:
        async with home.client(elicitation_callback=anybody) as client:
            first = await asked(client)
            home.clock.seconds = 41
            await until(lambda: not home.strong.running)
            return await client.session.call_tool("escalate", {"prompt": "go"}, request_state=first.request_state)

    assert text(drive(work())) == "Done."
    assert home.strong.answers == [Answer("cancel", by="expiry")]


@both
def test_a_client_that_cannot_ask_has_it_denied_at_once_and_is_told(home: Home, mode: str) -> None:
    home.strong.will([Question("May I run make?"), *says("Done.")])

    async def work() -> types.CallToolResult:
        async with home.client(mode) as client:
            return await client.call_tool("escalate", {"prompt": "go"})

    result = drive(work())

    assert home.strong.answers == [Answer("cancel", by="nobody")]
    assert "denied, since nobody could be asked: May I run make?" in text(result)


def test_where_it_is_told_to_wait_an_answer_may_come_from_elsewhere(home: Home) -> None:
    home.wait_questions = True
    home.strong.will([Question("May I run make?"), *says("Done.")])

    async def work() -> types.CallToolResult:
        async with home.client() as client:

            async def heard(_progress: float, _total: float | None, message: str | None) -> None:
                if "waiting for an answer" in (message or ""):
                    (stored,) = home.calls.broker.listed()
                    home.process().broker.answer(stored.id, Answer("accept"))

            return await client.call_tool("escalate", {"prompt": "go"}, progress_callback=heard)

    assert text(drive(work())) == "Done."
    assert home.strong.answers == [Answer("accept")]
