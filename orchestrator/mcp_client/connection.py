"""One MCP server while it runs: the SDK's client over its transport, in a task of its own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import httpx2
import mcp_types as types
from mcp import MCPError
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from orchestrator import __version__
from orchestrator.flat_schema import flat_schema
from orchestrator.mcp_client.logs import silence
from orchestrator.providers import Answer, Ask, Question
from orchestrator.quoting import clipped, plain

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams
    from mcp.client.context import ClientRequestContext

MAX_TOOLS = 200
"""Tools of one server that are looked at."""
_MAX_PAGES = 50
_STDERR_KEPT = 4000
_MAX_QUESTION = 4000
_HTTP_TIMEOUT = httpx2.Timeout(30, read=None)
"""Seconds; how long an answer may take is the time limit of the call."""


@dataclass(frozen=True, slots=True)
class Way:
    """How to reach a server, with every secret resolved."""

    name: str
    command: str | None
    args: Sequence[str]
    env: Mapping[str, str]
    url: str | None
    headers: Mapping[str, str]
    workspace: str


class DidNotStart(Exception):
    """A server that did not answer. The text says why; `stderr` is what its program said, its cause what was raised."""

    def __init__(self, why: str, stderr: str) -> None:
        super().__init__(why)
        self.stderr = stderr


class WasGone(Exception):
    """The server had ended before the call, and never saw it."""


def is_closed(error: BaseException) -> bool:
    """Whether the server is no longer there."""
    inner = innermost(error)
    return (isinstance(inner, MCPError) and inner.code == types.CONNECTION_CLOSED) or isinstance(inner, ConnectionError)


def innermost(error: BaseException) -> BaseException:
    """What a group of errors is about."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def is_readable(error: BaseException) -> bool:
    """Whether its text is about the protocol or the connection; any other may be about anything."""
    return isinstance(error, MCPError | OSError | TimeoutError | httpx2.TransportError)


class Connection:
    """Begins with `opened`, and lives as long as the server; everything here happens in the loop."""

    def __init__(self, way: Way) -> None:
        self._way = way
        self._scope = anyio.CancelScope()
        self._task: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._client: Client | None = None
        self._asks: list[Ask] = []
        self._stderr = bytearray()
        self._refused: int | None = None
        """The last status of an HTTP server that was an error: the SDK does not say it."""
        self.ended = False
        self.changed = False
        """Whether the server said that its tools are others now."""
        self.silent = False
        """Whether its program has let go of its error output, as one that has gone does."""

    @classmethod
    async def opened(cls, way: Way, seconds: float) -> Connection:
        """Start or reach the server. Raises `DidNotStart`."""
        connection = cls(way)
        connection._task = asyncio.create_task(connection._run())
        try:
            await asyncio.wait([connection._ready], timeout=seconds)
        except asyncio.CancelledError:
            await connection.close()
            raise
        late = not connection._ready.done()
        error = None if late else connection._ready.exception()
        if not late and error is None:
            return connection
        await connection.close()
        refused = connection._refused
        why = f"it did not answer within {seconds:g} s" if late else "it does not start" if refused is None else f"it refuses with HTTP {refused}"
        raise DidNotStart(why, connection.stderr) from (error if refused is None else None)

    async def close(self) -> None:
        """Let the server go, and wait until it is gone: a program has two seconds to end by itself, and two more when it is told to."""
        self._scope.cancel()
        if self._task is not None:
            await asyncio.wait([self._task])
        self._ready.exception()  # whoever waited for it has gone

    @property
    def stderr(self) -> str:
        """The end of what the program said beside the protocol."""
        return plain(self._stderr.decode("utf-8", "replace")).strip()

    async def _run(self) -> None:
        """Until it is closed, or cannot be reached. Raises nothing: `_ready` does."""
        silence()
        error: BaseException = ConnectionError("it ended before it answered")
        try:
            with self._scope:
                client = Client(
                    self._transport(),
                    client_info=types.Implementation(name="escalera", version=__version__),
                    elicitation_callback=self._elicited,
                    message_handler=self._heard,
                    cache=None,
                )
                async with client:
                    self._client = client
                    self._ready.set_result(None)
                    await anyio.sleep_forever()
        except (Exception, BaseExceptionGroup) as problem:  # strangers' code and strangers' servers, which may raise anything
            error = problem
        finally:
            self.ended = True
            if not self._ready.done():
                self._ready.set_exception(error)

    async def tools(self) -> list[types.Tool]:
        """All that it has, up to a bound."""
        found: list[types.Tool] = []
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = await self._connected.list_tools(cursor=cursor)
            found += page.tools
            cursor = page.next_cursor
            if not cursor or len(found) >= MAX_TOOLS:
                break
        self.changed = False
        return found[:MAX_TOOLS]

    async def call(self, tool: str, arguments: dict[str, Any], ask: Ask) -> types.CallToolResult:
        """Call one of its tools. Raises what the SDK raises, and `WasGone`."""
        for _ in range(2):
            await asyncio.sleep(0)  # what has ended by now is seen by then
        was_silent = self.silent
        self._asks.append(ask)
        try:
            return await self._connected.call_tool(tool, arguments)
        except Exception as error:
            if was_silent and is_closed(error):
                raise WasGone from error
            raise
        finally:
            self._asks.remove(ask)

    @property
    def _connected(self) -> Client:
        if self._client is None:
            raise ConnectionError("it is not connected")
        return self._client

    def _transport(self) -> AbstractAsyncContextManager[TransportStreams]:
        return self._program() if self._way.command is not None else self._address()

    @asynccontextmanager
    async def _program(self) -> AsyncIterator[TransportStreams]:
        way = self._way
        parameters = StdioServerParameters(
            command=way.command or "", args=list(way.args), env=dict(way.env), cwd=way.workspace, encoding_error_handler="replace"
        )
        ours, theirs = os.pipe()
        os.set_blocking(ours, False)
        loop = asyncio.get_running_loop()
        loop.add_reader(ours, self._read_stderr, ours)
        errors = os.fdopen(theirs, "w")
        try:
            async with stdio_client(parameters, errlog=errors) as streams:
                errors.close()  # from here on only the program has that end
                yield streams
        finally:
            errors.close()
            self._read_stderr(ours)
            loop.remove_reader(ours)
            os.close(ours)

    @asynccontextmanager
    async def _address(self) -> AsyncIterator[TransportStreams]:
        async with (
            httpx2.AsyncClient(headers=dict(self._way.headers), timeout=_HTTP_TIMEOUT, event_hooks={"response": [self._answered]}) as client,
            streamable_http_client(self._way.url or "", http_client=client) as streams,
        ):
            yield streams

    async def _answered(self, response: httpx2.Response) -> None:
        if response.is_error:
            self._refused = response.status_code

    def _read_stderr(self, end: int) -> None:
        with suppress(BlockingIOError):
            block = os.read(end, 65536)
            if not block:
                self.silent = True
                asyncio.get_running_loop().remove_reader(end)
            self._stderr += block
            del self._stderr[:-_STDERR_KEPT]

    async def _heard(self, message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self.changed = True

    async def _elicited(self, context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult | types.ErrorData:
        """What the server asks the user, in the middle of a call (page 5)."""
        if not self._asks:
            return types.ElicitResult(action="cancel")
        message = f"The tool server {self._way.name} asks: {clipped(plain(params.message), _MAX_QUESTION)}"
        if isinstance(params, types.ElicitRequestURLParams):
            question = Question(f"{message}\nIt wants you to open {plain(params.url)}", mode="url")
        else:
            try:
                question = Question(message, mode="form", schema=flat_schema(params.requested_schema))
            except ValueError as error:
                return types.ErrorData(code=types.INVALID_PARAMS, message=str(error))
        try:
            answer: Answer = await asyncio.to_thread(self._asks[-1], question)
        finally:
            question.withdrawn.set()
        return types.ElicitResult(action=answer.action, content=dict(answer.content) or None)
