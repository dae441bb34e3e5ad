"""The server of the protocol, in its present revision and the older ones: tools, tasks, and artifacts as resources."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any, NoReturn, TypeVar

import anyio
import mcp_types as types
from mcp.server.context import HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from orchestrator import __version__
from orchestrator.continuation import Token, Tokens
from orchestrator.errors import Ambiguous, EscaleraError, NotFound, TokenRefused, UsageError
from orchestrator.mcp_server import shapes
from orchestrator.mcp_server.calls import Call, Calls
from orchestrator.mcp_server.tools import TOOLS, Escalate, answer_at_once, order_of, read_arguments
from orchestrator.providers import Answer
from orchestrator.questions import StoredQuestion
from orchestrator.tasks import StoredTask, TaskState
from orchestrator.tools import ToolFailed

TASK_AFTER = 40.0
"""Seconds after which a call gives a task instead of its result: hosts give calls up, many of them after a minute."""
LOOK_EVERY = 0.25
"""Seconds between two looks at a task that runs in another process."""

INSTRUCTIONS = (
    "Escalate to a second, stronger model when a task is beyond you: it shares a session with memory and a record of what was done. Say in `reason` what it "
    "should know. Record the user's need when it becomes clear, and facts that will matter later."
)

Context = ServerRequestContext[Any, Any]
T = TypeVar("T")


class TaskUpdate(types.GetTaskRequestParams):
    """What `tasks/update` brings."""

    input_responses: dict[str, Any]


def build_server(calls: Calls, *, task_after: float = TASK_AFTER) -> Server[Any]:
    """The server over these calls; each connection, and each request of the present revision, is the same to it."""
    serving = Serving(calls, task_after)
    server: Server[Any] = Server(
        "escalera",
        version=__version__,
        title="Escalera",
        instructions=INSTRUCTIONS,
        on_list_tools=serving.list_tools,
        on_list_resources=serving.list_resources,
        on_read_resource=serving.read_resource,
    )
    server.extensions[shapes.TASKS] = {}
    server.add_request_handler("tools/call", types.CallToolRequestParams, serving.call_tool)
    server.add_request_handler("tasks/get", types.GetTaskRequestParams, serving.get_task)
    server.add_request_handler("tasks/update", TaskUpdate, serving.update_task)
    server.add_request_handler("tasks/cancel", types.CancelTaskRequestParams, serving.cancel_task)
    return server


class Serving:
    """The handlers. What blocks is done in threads."""

    def __init__(self, calls: Calls, task_after: float) -> None:
        self._calls, self._task_after = calls, task_after
        self._tokens = Tokens()

    # -- lists and artifacts -----------------------------------------------------------------------

    async def list_tools(self, _ctx: Context, _params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=shapes.tool_list())

    async def list_resources(self, _ctx: Context, _params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
        found = await _aside(self._calls.store.artifacts)
        return types.ListResourcesResult(resources=[shapes.resource(artifact) for artifact in found])

    async def read_resource(self, _ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = str(params.uri)
        if not uri.startswith(shapes.URI):
            raise MCPError(types.INVALID_PARAMS, f"there is no resource {uri[:200]!r}")
        try:
            artifact = await _aside(partial(self._calls.store.read_artifact, uri.removeprefix(shapes.URI)))
            body = await _aside(partial(self._calls.store.artifact_body, artifact.id))
        except (NotFound, Ambiguous, UsageError) as error:
            _refuse(error)
        return shapes.contents(artifact, body)

    # -- tools -------------------------------------------------------------------------------------

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> HandlerResult:
        if params.name not in TOOLS:
            raise MCPError(types.INVALID_PARAMS, f"there is no tool {params.name[:100]!r}")
        try:
            wanted = read_arguments(params.name, params.arguments)
            if isinstance(wanted, Escalate):
                return await self._escalate(ctx, params, wanted)
            return shapes.told(await _aside(partial(answer_at_once, self._calls, wanted)))
        except EscaleraError as error:
            self._calls.premises.failed(error)
            return shapes.failed(error)
        except ToolFailed as error:
            return shapes.failed(str(error))

    async def _escalate(self, ctx: Context, params: types.CallToolRequestParams, wanted: Escalate) -> HandlerResult:
        request = _digest(params)
        if params.request_state is not None:
            return await self._go_on(ctx, params, request)
        with anyio.CancelScope(shield=True):  # what was begun is not left alone: a cancel is seen where it is followed
            begun = await _aside(partial(self._begin, wanted, can_ask=_can_ask(ctx)))
        if isinstance(begun, StoredTask):
            return await self._elsewhere(ctx, begun)
        return await self._follow(ctx, begun, request)

    def _begin(self, wanted: Escalate, *, can_ask: bool) -> Call | StoredTask:
        if wanted.task is None:
            return self._calls.begin(order_of(wanted), can_ask=can_ask)
        task = self._calls.store.read_task(wanted.task)
        return self._calls.running(task.id) or task

    async def _go_on(self, ctx: Context, params: types.CallToolRequestParams, request: str) -> HandlerResult:
        """A retry of a call that asked (page 5): with answers, or without any, which is a look at the question."""
        identity, _, text = (params.request_state or "").partition(".")
        try:
            task = await _aside(partial(self._calls.store.read_task, identity))
            token = self._tokens.read(text, [task.session, task.id, request], now=self._calls.premises.clock.now())
        except (TokenRefused, NotFound, Ambiguous, UsageError) as error:
            raise MCPError(types.INVALID_PARAMS, "Invalid or expired requestState", {"reason": "invalid_request_state"}) from error
        call = self._calls.running(task.id)
        if call is None:
            return await self._elsewhere(ctx, task)
        problems = await self._answered(call, params.input_responses or {})
        return await self._follow(ctx, call, request, token=token, problems=problems)

    async def _answered(self, call: Call, responses: Mapping[str, object]) -> dict[str, str]:
        given = {key: shapes.answer_of(response, call.questions[key]) for key, response in responses.items() if key in call.questions}
        return await self._give(call, given)

    async def _give(self, call: Call, given: Mapping[str, Answer]) -> dict[str, str]:
        problems = await _aside(partial(self._calls.answer, call, given)) if given else {}
        call.put_aside(given.keys() - problems.keys())
        return problems

    async def _elsewhere(self, ctx: Context, task: StoredTask) -> HandlerResult:
        """A task that does not run here: its result, waited for as long as a call may take."""
        until = time.monotonic() + self._task_after
        while task.runs and time.monotonic() < until:
            await asyncio.sleep(LOOK_EVERY)
            task = await _aside(partial(self._calls.store.peek_task, task.id))
        return self._handed(ctx, task) if task.runs else self._result(task)

    async def _follow(self, ctx: Context, call: Call, request: str, *, token: Token | None = None, problems: Mapping[str, str] | None = None) -> HandlerResult:
        """Wait for the call's end, and tell meanwhile how it goes; a question, or too long a wait, ends it sooner.

        Where the client cancels it and nobody else follows, the turn is cancelled.
        """
        follower = _Follower(call)
        try:
            with call.followed(follower.wake):
                return await self._waited(ctx, call, follower, request, token, dict(problems or {}))
        except anyio.get_cancelled_exc_class():
            if not call.is_followed:
                call.cancel.set("the client cancelled the call")
            raise

    async def _waited(self, ctx: Context, call: Call, follower: _Follower, request: str, token: Token | None, problems: dict[str, str]) -> HandlerResult:
        until = time.monotonic() + self._task_after
        while True:
            follower.more.clear()
            await follower.tell(ctx)
            if call.ended.is_set():
                return self._result(await _aside(partial(self._calls.store.read_task, call.task.id)))
            asked = call.asked
            if asked is not None and ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
                return await self._input_required(call, asked, request, token, problems.get(asked.id))
            if asked is not None:
                problems = await self._elicited(ctx, call, asked, follower, problems.get(asked.id))
                until = time.monotonic() + self._task_after
                continue
            left = until - time.monotonic()
            if left <= 0:
                return self._handed(ctx, await _aside(partial(self._calls.store.read_task, call.task.id)))
            with anyio.move_on_after(left):
                await follower.more.wait()

    def _result(self, task: StoredTask) -> types.CallToolResult:
        if task.state is TaskState.INTERRUPTED or task.result is None:
            return shapes.failed(shapes.INTERRUPTED)
        return shapes.result_of(task.result, inline_max=self._inline_max)

    def _handed(self, ctx: Context, task: StoredTask) -> HandlerResult:
        if not _knows_tasks(ctx):
            return shapes.handle(task)
        call = self._calls.running(task.id)
        shown = shapes.task_object(task, asked=None if call is None else call.asked, inline_max=self._inline_max)
        return {"resultType": "task", **{name: shown[name] for name in ("taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs")}}

    # -- questions ---------------------------------------------------------------------------------

    async def _input_required(self, call: Call, asked: StoredQuestion, request: str, token: Token | None, problem: str | None) -> types.InputRequiredResult:
        """The question, and what the retry goes on with: minted anew each time. Handing it out is a read of it."""
        stored = await _aside(partial(self._calls.broker.read, asked.id))
        now, ttl = self._calls.premises.clock.now(), timedelta(seconds=self._calls.premises.settings.value("server.token_ttl"))
        minted = self._tokens.mint([call.task.session, call.task.id, request], now=now, ttl=ttl, after=token)
        return types.InputRequiredResult(input_requests=shapes.input_requests(stored, problem), request_state=f"{call.task.id}.{minted.text}")

    async def _elicited(self, ctx: Context, call: Call, asked: StoredQuestion, follower: _Follower, problem: str | None) -> dict[str, str]:
        """Put the question to the client's user, as older revisions have it, until it is answered here or elsewhere, or expires: what was wrong."""
        stored = await _aside(partial(self._calls.broker.read, asked.id))
        params = shapes.elicitation(stored, problem).params
        asking = asyncio.ensure_future(ctx.session.elicit_form(params.message, params.requested_schema, ctx.request_id))  # type: ignore[union-attr]  # a form
        try:
            while not asking.done():
                follower.more.clear()
                if call.asked is None or call.asked.id != asked.id:
                    return {}
                more = asyncio.ensure_future(follower.more.wait())
                await asyncio.wait((asking, more), return_when=asyncio.FIRST_COMPLETED)
                more.cancel()
        finally:
            asking.cancel()
        try:
            answer = shapes.answer_of(asking.result(), stored)
        except (MCPError, ValidationError):  # a client that cannot ask after all, or says nothing that is an answer
            answer = Answer("cancel", by="human")
        return await self._give(call, {asked.id: answer})

    # -- tasks -------------------------------------------------------------------------------------

    async def get_task(self, ctx: Context, params: types.GetTaskRequestParams) -> dict[str, Any]:
        """An item read of the task, and of the question that it asks."""
        _require_tasks(ctx)
        task = await self._read_task(params.task_id)
        call = self._calls.running(task.id)
        asked = None if call is None else call.asked
        if asked is not None:
            asked = await _aside(partial(self._calls.broker.read, asked.id))
        return shapes.task_object(task, asked=asked, inline_max=self._inline_max)

    async def update_task(self, ctx: Context, params: TaskUpdate) -> dict[str, Any]:
        _require_tasks(ctx)
        task = await self._read_task(params.task_id)
        call = self._calls.running(task.id)
        problems = {} if call is None else await self._answered(call, params.input_responses)
        if problems:
            raise MCPError(types.INVALID_PARAMS, "; ".join(problems.values()))
        return {}

    async def cancel_task(self, ctx: Context, params: types.CancelTaskRequestParams) -> dict[str, Any]:
        _require_tasks(ctx)
        task = await self._read_task(params.task_id)
        await _aside(partial(self._calls.store.cancel_task, task.id))
        call = self._calls.running(task.id)
        if call is not None:
            call.cancel.set("the client cancelled the task")
        return {}

    async def _read_task(self, ref: str) -> StoredTask:
        try:
            return await _aside(partial(self._calls.store.read_task, ref))
        except (NotFound, Ambiguous, UsageError) as error:
            _refuse(error)

    @property
    def _inline_max(self) -> int | None:
        most: int | None = self._calls.premises.settings.value("artifacts.inline_max")
        return most


class _Follower:
    """One request that waits for a call, and how much of it its client was told."""

    def __init__(self, call: Call) -> None:
        self.more = asyncio.Event()
        self._call, self._told, self._loop = call, 0, asyncio.get_running_loop()

    def wake(self) -> None:
        """By any thread."""
        with suppress(RuntimeError):  # its loop is closed: nobody waits there any more
            self._loop.call_soon_threadsafe(self.more.set)

    async def tell(self, ctx: Context) -> None:
        """What is new, as progress."""
        for text in self._call.told(self._told):
            self._told += 1
            await ctx.session.report_progress(self._told, None, text)


async def _aside(work: Callable[[], T]) -> T:
    """Done in a thread, since it may block."""
    return await anyio.to_thread.run_sync(work)


def _refuse(error: EscaleraError) -> NoReturn:
    raise MCPError(types.INVALID_PARAMS, f"{error.message} ({error.hint})" if error.hint else error.message) from error


def _can_ask(ctx: Context) -> bool:
    capabilities = ctx.session.client_capabilities
    return capabilities is not None and capabilities.elicitation is not None


def _knows_tasks(ctx: Context) -> bool:
    """In the present revision each request says what its client knows."""
    capabilities = ctx.session.client_capabilities
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS and capabilities is not None and shapes.TASKS in (capabilities.extensions or {})


def _require_tasks(ctx: Context) -> None:
    if not _knows_tasks(ctx):
        required: dict[str, Any] = {"requiredCapabilities": {"extensions": {shapes.TASKS: {}}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "Missing required client capability", required)


def _digest(params: types.CallToolRequestParams) -> str:
    """The request that a token is bound to: a retry repeats its name and arguments."""
    return hashlib.sha256(json.dumps([params.name, params.arguments or {}], sort_keys=True).encode()).hexdigest()
