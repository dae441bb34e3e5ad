"""Long escalations as tasks, repeated calls that are paid once, and artifacts as resources."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Literal

import mcp_types as types
import pytest
from mcp.client import Client, ClientExtension, advertise
from mcp.client.extension import ClaimContext, ResultClaim
from mcp.shared.exceptions import MCPError

from orchestrator.providers import Answer
from orchestrator.session import Outcome
from orchestrator.store import Claim
from orchestrator.testing.fake_provider import UNTIL_CANCELLED, Step, says

from .conftest import ASKS, LEGACY, MODERN, Home, drive, text, until

both = pytest.mark.parametrize("mode", [MODERN, LEGACY])
TASKS = "io.modelcontextprotocol/tasks"


class TaskResult(types.Result):
    """What a call gives in the place of its result."""

    result_type: Literal["task"] = "task"
    task_id: str
    status: str
    created_at: str
    last_updated_at: str
    ttl_ms: int | None
    poll_interval_ms: int | None = None


class TasksOfClient(ClientExtension):
    """The extension, as a client has it that looks at its task itself."""

    identifier = TASKS

    def claims(self) -> Sequence[ResultClaim[Any]]:
        async def resolve(_claimed: TaskResult, _context: ClaimContext) -> types.CallToolResult:
            raise AssertionError("the test looks at the task itself")

        return [ResultClaim(result_type="task", model=TaskResult, resolve=resolve)]


class Answered(types.Result):
    """Any result."""

    model_config = types.Result.model_config | {"extra": "allow"}


class TaskParams(types.GetTaskRequestParams):
    input_responses: dict[str, Any] | None = None


class TaskRequest(types.Request[TaskParams, str]):
    """What the extension has, which is no request of the protocol itself."""

    name_param = "taskId"


async def ask(client: Client, method: str, task: str, input_responses: dict[str, Any] | None = None) -> dict[str, Any]:
    request = TaskRequest(method=method, params=TaskParams(task_id=task, input_responses=input_responses))
    return (await client.session.send_request(request, Answered)).model_dump(by_alias=True, mode="json")  # type: ignore[arg-type]  # of an extension


async def handed(client: Client, **arguments: object) -> TaskResult:
    result = await client.session.call_tool("escalate", {"prompt": "go", **arguments}, allow_claimed=True)
    assert isinstance(result, TaskResult), result
    return result


async def looked(client: Client, task: str, status: str) -> dict[str, Any]:
    """The task, once it stands like this."""
    while (found := await ask(client, "tasks/get", task))["status"] != status:
        await asyncio.sleep(0.005)
    return found


def slow(home: Home, then: Sequence[Step] = ()) -> asyncio.Event:
    """The next turn takes until the event is set, and does `then` what else it has to."""
    go = asyncio.Event()

    def wait() -> None:
        while not go.is_set():
            home.clock.sleep(0)

    home.strong.will([wait, *then, *says("Done.")])
    return go


# -- the handle ----------------------------------------------------------------------------------


def test_a_long_escalation_becomes_a_task_that_gives_the_result(home: Home) -> None:
    home.task_after = 0.0
    go = slow(home)

    async def work() -> tuple[TaskResult, dict[str, Any]]:
        async with home.client(extensions=[TasksOfClient()]) as client:
            task = await handed(client)
            assert (await ask(client, "tasks/get", task.task_id))["status"] == "working"
            go.set()
            return task, await looked(client, task.task_id, "completed")

    task, ended = drive(work())

    assert (task.status, task.ttl_ms, task.poll_interval_ms) == ("working", 600_000, 1000)
    assert ended["result"]["content"] == [{"type": "text", "text": "Done."}]
    assert ended["resultType"] == "complete"
    assert [found.id for found in home.calls.store.tasks()] == [task.task_id]


@both
def test_a_client_that_knows_no_tasks_is_told_how_to_wait_further(home: Home, mode: str) -> None:
    home.task_after = 0.0
    go = slow(home)

    async def work() -> list[types.CallToolResult]:
        async with home.client(mode) as client:
            first = await client.call_tool("escalate", {"prompt": "go"})
            task = first.structured_content["task"]
            still = await client.call_tool("escalate", {"task": task})
            go.set()
            await until(lambda: not home.calls.store.peek_task(task).runs)
            return [first, still, await client.call_tool("escalate", {"task": task})]

    first, still, ended = drive(work())

    assert "goes on as task" in text(first)
    assert first.structured_content == still.structured_content
    assert text(ended) == "Done."
    assert len(home.strong.requests) == 1


def test_a_result_that_comes_in_time_is_no_task(home: Home) -> None:
    home.strong.will(says("Done."))

    async def work() -> types.CallToolResult:
        async with home.client(extensions=[TasksOfClient()]) as client:
            return await client.call_tool("escalate", {"prompt": "go"})

    assert text(drive(work())) == "Done."


def test_a_task_that_is_cancelled_cancels_its_turn(home: Home) -> None:
    home.task_after = 0.0
    home.strong.will([UNTIL_CANCELLED])

    async def work() -> dict[str, Any]:
        async with home.client(extensions=[TasksOfClient()]) as client:
            task = await handed(client)
            await until(lambda: home.strong.running)
            acknowledged = await ask(client, "tasks/cancel", task.task_id)
            assert {key: value for key, value in acknowledged.items() if key != "_meta"} == {"resultType": "complete"}
            return await looked(client, task.task_id, "cancelled")

    assert "result" not in drive(work())
    assert home.turns[0].outcome is Outcome.CANCELLED


def test_a_task_can_be_cancelled_by_another_process(home: Home) -> None:
    home.task_after = 0.0
    home.strong.will([UNTIL_CANCELLED])

    async def work() -> None:
        async with home.client(extensions=[TasksOfClient()]) as client:
            task = await handed(client)
            await until(lambda: home.strong.running)
            home.process().store.cancel_task(task.task_id)
            await looked(client, task.task_id, "cancelled")

    drive(work())

    assert home.turns[0].outcome is Outcome.CANCELLED


def test_j3_a_task_that_asks_shows_its_question_each_time_and_each_look_is_use(home: Home) -> None:
    home.task_after = 0.0
    go = slow(home, then=[ASKS])

    async def work() -> list[dict[str, Any]]:
        async with home.client(extensions=[TasksOfClient()], elicitation_callback=_nobody) as client:
            task = (await handed(client)).task_id
            go.set()
            first = await looked(client, task, "input_required")
            home.clock.seconds = 30
            second = await ask(client, "tasks/get", task)
            home.clock.seconds = 40
            listed = home.calls.store.tasks()[0]
            ((identity, request),) = second["inputRequests"].items()
            assert request["params"]["message"] == "Which colour?"
            assert home.calls.broker.peek(identity).life.last_touched.second == 30
            with pytest.raises(MCPError, match="colour"):
                await ask(client, "tasks/update", task, {identity: {"action": "accept", "content": {}}})
            await ask(client, "tasks/update", task, {identity: {"action": "accept", "content": {"colour": "red"}}, "other": {}})
            return [first, second, {"listed": (listed.life.expires_at - listed.created).total_seconds()}, await looked(client, task, "completed")]

    first, second, listed, ended = drive(work())

    assert (first["ttlMs"], second["ttlMs"], listed["listed"]) == (600_000, 630_000, 630)
    assert first["createdAt"] == second["createdAt"]
    assert first["inputRequests"] == second["inputRequests"]
    assert ended["result"]["isError"] is False
    assert home.strong.answers == [Answer("accept", {"colour": "red"})]


async def _nobody(_context: object, _params: object) -> types.ElicitResult:
    raise AssertionError("the test answers by itself")


def test_h4_a_task_that_is_unknown_or_has_expired_is_refused_with_what_may_have_become_of_it(home: Home) -> None:
    home.strong.will(says("Done."))

    async def work() -> list[tuple[int, str]]:
        async with home.client(extensions=[TasksOfClient()]) as client:
            await client.call_tool("escalate", {"prompt": "go"})
            (task,) = home.calls.store.tasks()
            home.clock.seconds = 600
            refused = []
            for method, identity in (("tasks/get", task.id), ("tasks/get", "no-such"), ("tasks/cancel", "no-such"), ("tasks/update", "no-such")):
                with pytest.raises(MCPError) as error:
                    await ask(client, method, identity, {} if method == "tasks/update" else None)
                refused.append((error.value.code, error.value.message))
            return refused

    refused = drive(work())

    assert [code for code, _ in refused] == [-32602] * 4
    assert all("may have expired" in message for _, message in refused)


def test_who_does_not_know_tasks_has_none_of_their_methods(home: Home) -> None:
    async def work() -> int:
        async with home.client() as client:
            with pytest.raises(MCPError) as error:
                await ask(client, "tasks/get", "x")
            return error.value.code

    assert drive(work()) == types.MISSING_REQUIRED_CLIENT_CAPABILITY


def test_the_server_says_that_it_has_tasks(home: Home) -> None:
    async def work() -> types.ServerCapabilities:
        async with home.client("auto", extensions=[advertise(TASKS)]) as client:
            return client.server_capabilities

    assert TASKS in (drive(work()).extensions or {})


# -- repeated calls ------------------------------------------------------------------------------


@both
def test_a_repeated_call_is_paid_once(home: Home, mode: str) -> None:
    home.strong.will(says("Done."))

    async def work() -> list[types.CallToolResult]:
        async with home.client(mode) as client:
            return [await client.call_tool("escalate", {"prompt": "go", "idempotency_key": "k1"}) for _ in range(3)]

    first, *others = drive(work())

    assert [(text(other), other.meta and other.meta["escalera/turn"]) for other in others] == [(text(first), first.meta and first.meta["escalera/turn"])] * 2
    assert (len(home.strong.requests), len(home.turns)) == (1, 1)


def test_two_at_once_with_one_key_are_one(home: Home) -> None:
    go = slow(home)

    async def work() -> list[str]:
        async with home.client() as client, home.client(calls=home.process()) as other:
            calls = [asyncio.ensure_future(one.call_tool("escalate", {"prompt": "go", "idempotency_key": "k"})) for one in (client, client, other, other)]
            await until(lambda: home.strong.running)
            go.set()
            return [text(result) for result in await asyncio.gather(*calls)]

    assert drive(work()) == ["Done."] * 4
    assert (len(home.strong.requests), len(home.calls.store.tasks())) == (1, 1)


def test_a_key_is_known_after_a_restart(home: Home) -> None:
    home.strong.will(says("Done."))

    async def work(calls: Any) -> str:
        async with home.client(calls=calls) as client:
            return text(await client.call_tool("escalate", {"prompt": "go", "idempotency_key": "k"}))

    assert drive(work(home.calls)) == "Done."
    home.calls.close()
    assert drive(work(home.process())) == "Done."
    assert len(home.strong.requests) == 1


def test_a_key_that_stands_for_another_escalation_is_refused(home: Home) -> None:
    home.strong.will(says("Done."))

    async def work() -> types.CallToolResult:
        async with home.client() as client:
            await client.call_tool("escalate", {"prompt": "go", "idempotency_key": "k"})
            return await client.call_tool("escalate", {"prompt": "something else", "idempotency_key": "k"})

    result = drive(work())

    assert result.is_error
    assert "stands for another escalation" in text(result)


@pytest.mark.parametrize("prompt", ["go", "something else"])
def test_a_key_of_which_no_turn_came_is_free_again(home: Home, prompt: str) -> None:
    home.config = f"session_wait = '0s'\n{home.config}"
    home.strong.will(says("Done."))
    session = home.calls.session_of(None).id
    claim = home.calls.store.claim(session, "another process", timedelta(hours=1))
    assert isinstance(claim, Claim)

    async def work() -> list[types.CallToolResult]:
        async with home.client() as client:
            refused = await client.call_tool("escalate", {"prompt": "go", "idempotency_key": "k"})
            home.calls.store.release(claim)
            return [refused, *[await client.call_tool("escalate", {"prompt": prompt, "idempotency_key": "k"}) for _ in range(2)]]

    refused, done, again = drive(work())

    assert refused.is_error
    assert "in use" in text(refused)
    assert [text(done), text(again)] == ["Done."] * 2
    assert len(home.strong.requests) == 1


def test_one_of_two_that_wait_can_go_and_the_last_takes_the_turn_along(home: Home) -> None:
    home.strong.will([UNTIL_CANCELLED])

    async def work() -> None:
        async with home.client() as client:
            first, second = (asyncio.ensure_future(client.call_tool("escalate", {"prompt": "go", "idempotency_key": "k"})) for _ in range(2))
            await until(lambda: home.strong.running and len(next(iter(home.calls._running.values()))[0]._followers) == 2)
            first.cancel()
            await until(first.done)
            assert home.strong.running
            second.cancel()
            await until(lambda: home.turns[0].outcome is Outcome.CANCELLED)

    drive(work())


# -- artifacts -----------------------------------------------------------------------------------


@both
def test_a_large_answer_comes_in_head_and_tail_with_a_link_to_all_of_it(home: Home, mode: str) -> None:
    answer = "".join(f"line {number}\n" for number in range(10_000))
    home.strong.will(says(answer, streamed=False))

    async def work() -> tuple[types.CallToolResult, types.ReadResourceResult, types.ListResourcesResult]:
        async with home.client(mode) as client:
            result = await client.call_tool("escalate", {"prompt": "go"})
            (link,) = (part for part in result.content if isinstance(part, types.ResourceLink))
            return result, await client.read_resource(str(link.uri)), await client.list_resources()

    result, read, listed = drive(work())

    assert len(text(result)) <= 65_536
    assert (text(result)[:7], text(result)[-10:-1]) == ("line 0\n", "line 9999")
    (part,) = read.contents
    assert isinstance(part, types.TextResourceContents)
    assert part.text == answer
    assert [resource.size for resource in listed.resources] == [len(answer)]


def test_h7_an_artifact_that_has_expired_is_not_served(home: Home) -> None:
    home.strong.will(says("x" * 70_000, streamed=False))

    async def work() -> tuple[int, list[types.Resource]]:
        async with home.client() as client:
            result = await client.call_tool("escalate", {"prompt": "go"})
            (link,) = (part for part in result.content if isinstance(part, types.ResourceLink))
            home.clock.seconds = 24 * 3600
            with pytest.raises(MCPError, match="may have expired") as error:
                await client.read_resource(str(link.uri))
            return error.value.code, (await client.list_resources()).resources

    assert drive(work()) == (types.INVALID_PARAMS, [])
