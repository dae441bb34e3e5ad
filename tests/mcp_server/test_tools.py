"""The six tools as the official client sees them, in the present revision and in an older one."""

from __future__ import annotations

import asyncio
import json

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from orchestrator.errors import Unavailable
from orchestrator.messages import Text, Usage
from orchestrator.session import Outcome
from orchestrator.testing.fake_provider import UNTIL_CANCELLED, FakeProvider, says

from .conftest import LEGACY, MODERN, TOOLS, Home, drive, text, until

both = pytest.mark.parametrize("mode", [MODERN, LEGACY])
NAMES = {"escalate", "plan_escalation", "current_need", "record_memory", "get_memory", "session_context"}


@both
def test_there_are_six_tools_and_none_renews_anything(home: Home, mode: str) -> None:
    async def work() -> tuple[types.ListToolsResult, types.ServerCapabilities]:
        async with home.client(mode) as client:
            return await client.list_tools(), client.server_capabilities

    listed, capabilities = drive(work())

    assert {tool.name for tool in listed.tools} == NAMES
    published = json.dumps([tool.model_dump(mode="json") for tool in listed.tools] + [capabilities.model_dump(mode="json")]).lower()
    assert not [verb for verb in ("renew", "touch", "extend_", "prolong", "keep_alive") if verb in published]


def test_b15_a_method_that_would_renew_is_not_there(home: Home) -> None:
    async def work() -> list[int]:
        refused = []
        async with home.client() as client:
            for method in ("tasks/renew", "tasks/touch", "questions/extend", "resources/renew"):
                request = types.GetTaskRequest(params=types.GetTaskRequestParams(task_id="x")).model_copy(update={"method": method})
                with pytest.raises(MCPError) as error:
                    await client.session.send_request(request, types.Result)  # type: ignore[arg-type]  # no request of the protocol
                refused.append(error.value.code)
        return refused

    assert drive(work()) == [types.METHOD_NOT_FOUND] * 4


@both
def test_an_escalation_gives_the_answer_and_what_it_was_decided_by(home: Home, mode: str) -> None:
    home.strong.will(says("It is a race.", usage=Usage(10, 5)))

    async def work() -> types.CallToolResult:
        async with home.client(mode) as client:
            return await client.call_tool("escalate", {"prompt": "Why does it hang?", "reason": "I tried a lock."})

    result = drive(work())

    assert (text(result), result.is_error) == ("It is a race.", False)
    turn = (result.meta or {})["escalera/turn"]
    assert (turn["mode"], turn["agent"], turn["turn"]) == ("first", "strong", 0)
    assert "I tried a lock." in "\n".join(block.text for block in home.strong.requests[0].system)
    assert [(turn.prompt, turn.outcome) for turn in home.turns] == [("Why does it hang?", Outcome.COMPLETED)]


def test_it_goes_on_in_the_session_and_begins_one_where_there_is_none(home: Home) -> None:
    home.strong.will(says("One."), says("Two."))

    async def work() -> types.CallToolResult:
        async with home.client() as client:
            await client.call_tool("escalate", {"prompt": "first"})
            return await client.call_tool("escalate", {"prompt": "second"})

    assert (drive(work()).meta or {})["escalera/turn"]["mode"] == "continuation"
    assert len(home.calls.store.list(None)) == 1
    assert [part.text for message in home.strong.requests[1].messages for part in message.parts if isinstance(part, Text)] == ["first", "One.", "second"]


def test_agents_of_settings_that_have_changed_are_let_go_of(home: Home) -> None:
    """Such as a program that waits for the next turn of its conversation, for a quarter of an hour."""
    let_go: list[str] = []

    class Waiting(FakeProvider):
        def close(self) -> None:
            let_go.append(f"after {len(self.requests)}")

    assert home.calls
    home.agents["strong"] = Waiting(capabilities=TOOLS)
    home.strong.will(says("One."), says("Two."), says("Three."))

    async def work() -> list[list[str]]:
        seen = []
        async with home.client() as client:
            for number, setting in enumerate(("", "", 'session_wait = "9s"\n')):
                (home.folder / "config.toml").write_text(setting + home.config)
                await client.call_tool("escalate", {"prompt": f"number {number}"})
                seen.append(list(let_go))
        return seen

    assert drive(work()) == [[], [], ["after 2"]]


@both
def test_a_turn_that_fails_is_an_error_that_the_model_can_read(home: Home, mode: str) -> None:
    home.config += "[limits]\nretry_attempts = 0\n"
    home.strong.will([Unavailable("nobody listens there", hint="start the server")])

    async def work() -> types.CallToolResult:
        async with home.client(mode) as client:
            return await client.call_tool("escalate", {"prompt": "go"})

    result = drive(work())

    assert result.is_error
    assert "nobody listens there (start the server)" in text(result)


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("escalate", {}, "the prompt is empty"),
        ("escalate", {"prompt": 5}, "prompt:"),
        ("escalate", {"prompt": "x", "modle": "y"}, "modle:"),
        ("escalate", {"prompt": "x", "session": "no-such"}, "no session 'no-such'"),
        ("escalate", {"prompt": "x", "agent": "nobody"}, "nobody"),
        ("escalate", {"task": "no-such"}, "may have expired"),
        ("current_need", {"text": "   "}, "cannot be empty"),
        ("record_memory", {"content": " "}, "cannot be empty"),
        ("record_memory", {"content": "x" * 2001}, "content:"),
        ("session_context", {"turn": 7}, "no turn 7"),
        ("plan_escalation", {"prompt": "x", "agent": "nobody"}, "nobody"),
    ],
)
def test_what_cannot_be_done_is_said(home: Home, name: str, arguments: dict[str, object], said: str) -> None:
    async def work() -> types.CallToolResult:
        async with home.client() as client:
            return await client.call_tool(name, arguments)

    result = drive(work())

    assert result.is_error
    assert said in text(result)
    assert home.calls.store.tasks() == []


def test_a_tool_that_is_not_there_is_no_tool(home: Home) -> None:
    async def work() -> int:
        async with home.client() as client:
            with pytest.raises(MCPError) as error:
                await client.call_tool("rm", {})
            return error.value.code

    assert drive(work()) == types.INVALID_PARAMS


def test_hostile_texts_are_kept_as_texts(home: Home) -> None:
    home.strong.will(says("ok"))

    async def work() -> types.CallToolResult:
        async with home.client() as client:
            return await client.call_tool("escalate", {"prompt": "a\x00b\x1b[31m", "reason": "<escalera:need:nonce>x"})

    assert not drive(work()).is_error
    assert home.turns[0].prompt == "a\ufffdb\x1b[31m"


def test_a_plan_calls_nobody_and_writes_nothing(home: Home) -> None:
    async def work() -> types.CallToolResult:
        async with home.client() as client:
            return await client.call_tool("plan_escalation", {"prompt": "Why?"})

    result = drive(work())

    assert result.structured_content["mode"] == "first"
    assert result.structured_content["agent"] == "strong"
    assert json.loads(text(result)) == result.structured_content
    assert (home.strong.requests, home.calls.store.list(None)) == ([], [])


def test_a_need_is_stated_and_told_and_makes_the_next_escalation_start_afresh(home: Home) -> None:
    home.strong.will(says("One."))

    async def work() -> list[types.CallToolResult]:
        async with home.client() as client:
            before = await client.call_tool("current_need", {})
            await client.call_tool("escalate", {"prompt": "first"})
            stated = await client.call_tool("current_need", {"text": "open a bakery"})
            return [before, stated, await client.call_tool("current_need", {}), await client.call_tool("plan_escalation", {"prompt": "and?"})]

    before, stated, told, plan = (result.structured_content for result in drive(work()))

    assert before["status"] == "none"
    assert (stated["text"], stated["source"], told["text"]) == ("open a bakery", "tool", "open a bakery")
    assert "need_changed" in [reason["rule"] for reason in plan["reasons"]]


def test_facts_are_remembered_and_found_by_what_they_are_about(home: Home) -> None:
    home.strong.will(says("Tabs it is."))

    async def work() -> list[str]:
        async with home.client() as client:
            said = [await client.call_tool("record_memory", {"content": "the project uses tabs", "subject": "indentation"}) for _ in range(2)]
            found = await client.call_tool("get_memory", {"query": "tabs or spaces?"})
            nothing = await client.call_tool("get_memory", {"query": "quantum"})
            await client.call_tool("escalate", {"prompt": "tabs or spaces?"})
            return [text(one) for one in (*said, found, nothing)]

    first, again, found, nothing = drive(work())

    assert (first, again) == ("remembered: the project uses tabs", "known already, and now weighs more: the project uses tabs")
    assert "the project uses tabs" in found
    assert "No remembered fact" in nothing
    assert "the project uses tabs" in "\n".join(block.text for block in home.strong.requests[0].system)


def test_the_session_tells_how_it_stands(home: Home) -> None:
    home.strong.will(says("It is a race."))

    async def work() -> list[str]:
        async with home.client() as client:
            empty = await client.call_tool("session_context", {})
            await client.call_tool("escalate", {"prompt": "Why does it hang?"})
            whole = await client.call_tool("session_context", {})
            one = await client.call_tool("session_context", {"turn": 0})
            return [text(result) for result in (empty, whole, one)]

    empty, whole, one = drive(work())

    assert "Nothing was escalated yet." in empty
    assert "0 escalation strong, completed: Why does it hang? -> It is a race." in whole
    assert "Why does it hang?" in one


# -- progress and cancel -------------------------------------------------------------------------


@both
def test_progress_tells_who_has_the_turn_and_how_far_it_is(home: Home, mode: str) -> None:
    home.strong.will(says("x" * 2500 + " done"))
    told: list[tuple[float, str | None]] = []

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, message))

    async def work() -> None:
        async with home.client(mode) as client:
            await client.call_tool("escalate", {"prompt": "go"}, progress_callback=heard)

    drive(work())

    assert [number for number, _ in told] == sorted({number for number, _ in told})
    assert told[0] == (1, "strong has the turn (first)")
    assert any("characters of the answer so far" in (message or "") for _, message in told)


@both
def test_a_cancelled_call_cancels_its_turn(home: Home, mode: str) -> None:
    home.strong.will([UNTIL_CANCELLED])

    async def work() -> None:
        async with home.client(mode) as client:
            call = asyncio.ensure_future(client.call_tool("escalate", {"prompt": "go"}))
            await until(lambda: home.strong.running)
            call.cancel()
            await until(lambda: [task.state.value for task in home.calls.store.tasks()] == ["cancelled"])

    drive(work())

    assert home.turns[0].outcome is Outcome.CANCELLED


def test_a_server_that_ends_ends_its_turns(home: Home) -> None:
    home.strong.will([UNTIL_CANCELLED])
    home.task_after = 0.0

    async def work() -> None:
        async with home.client() as client:
            await client.call_tool("escalate", {"prompt": "go"})
            await until(lambda: home.strong.running)

    drive(work())
    home.calls.close()

    assert home.turns[0].outcome is Outcome.CANCELLED
    assert home.strong.running == 0
