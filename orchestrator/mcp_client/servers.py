"""The configured MCP servers of one run: which tools they have for an agent, and how a call is answered whatever becomes of the server."""

from __future__ import annotations

import importlib.util
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as Unfinished
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from orchestrator.clock import Clock, SystemClock, duration
from orchestrator.deadline import Deadline
from orchestrator.errors import Cancelled, SecretMissing, foreign
from orchestrator.history.budget import measure_tools
from orchestrator.mcp_client.listings import Described, Kept, Listings
from orchestrator.mcp_client.schema import Parameters, described, parameters_of, tool_name
from orchestrator.providers import OWNER_MARK, SESSION_MARK, STORE_MARK, Cancel, ToolSchema
from orchestrator.quoting import one_line
from orchestrator.reaping import end_bearers
from orchestrator.settings.known import resolved_secrets, written_secrets
from orchestrator.settings.secrets import MASK, resolve
from orchestrator.settings.tool_servers import TABLE, ToolServer
from orchestrator.tools import Tool, ToolContext, ToolFailed

if TYPE_CHECKING:
    from mcp_types import Tool as ServerTool

    from orchestrator.mcp_client.connection import Connection, Way
    from orchestrator.mcp_client.portal import Portal

START_SECONDS = 30.0
"""How long a server may take to start, answer and list its tools."""
RETRY_AFTER = 60.0
"""Seconds after which one that did not start is tried again."""
MOST_RESTARTS = 3
"""How often a server that ends is started again in one turn."""
CLOSE_SECONDS = 6.0
SERVER_MARK = "_ESCALERA_TOOL_SERVER"
"""In the environment of a server's program and of all that it starts: what outlives it is found by this."""

_TELL_AFTER = 1.0
_SHORTEST_SECRET = 4
_MAX_SAID = 500
_MOST_NAMED = 8
_MISSING = "the package of the SDK is not installed: pip install 'escalera[mcp]'"

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Offer:
    """What the servers have for one agent, and what is wrong with the others."""

    tools: tuple[Tool, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Listed:
    """What became of one server: its tools, or what is wrong with it."""

    server: ToolServer
    tools: tuple[str, ...] = ()
    """By the names under which agents know them."""
    problem: str | None = None


class ToolServers:
    """All of them; none is started before an agent that takes tools has a turn. May be used by several threads."""

    def __init__(
        self, servers: Iterable[ToolServer], *, environ: Mapping[str, str], workspace: str, clock: Clock | None = None, listings: Listings | None = None
    ) -> None:
        """`listings` is where what they have is kept from turn to turn; `None` for nowhere."""
        self._workspace, self._listings = workspace, listings
        self._portal: Portal | None = None
        self._mark = str(uuid.uuid4())
        self._closed = False
        self._lock = threading.Lock()
        self._servers = [_Server(server, self._opened_portal, environ, workspace, self._mark, clock or SystemClock()) for server in servers]

    def offered(self, agent: str, *, room: int | None = None, taken: Iterable[str] = (), foresees: bool = False) -> Offer:
        """As far as it is known by now; starts nothing. In at most `room` characters, under none of the `taken` names.

        With `foresees`, for plans, what the last turn listed stands for what is not known yet.
        """
        ours = [server for server in self._servers if server.config.serves(agent)]
        kept = self._kept(ours) if foresees else {}
        names, tools, left_out = set(taken), [], []
        for tool in (tool for server in ours for tool in server.tools(kept.get(server.config.name), taken=names)):
            size = measure_tools([tool.schema])
            if room is not None and size > room:
                left_out.append(tool.schema.name)
                continue
            room = None if room is None else room - size
            names.add(tool.schema.name)
            tools.append(tool)
        unknown = [server.config.name for server in ours if server.is_unknown and server.config.name not in kept]
        note = f"the tools of {', '.join(unknown)} (MCP) are listed when the turn begins, and are not counted here"
        problems = [server.problem for server in ours if server.problem is not None]
        notes = [*map(_as_kept, kept, kept.values()), *([note] if unknown else []), *([_too_many(left_out, agent)] if left_out else [])]
        return Offer(tuple(tools), (*problems, *notes))

    def _kept(self, servers: Iterable[_Server]) -> dict[str, Kept]:
        """What those of them that are not known yet had in the last turn with them."""
        if self._listings is None:
            return {}
        found = ((server.config.name, self._listings.read(server.config, self._workspace)) for server in servers if server.is_unknown)
        return {name: kept for name, kept in found if kept is not None}

    def prepare(self, agent: str, session: str, *, cancel: Cancel, tell: Callable[[str], None]) -> bool:
        """Before a turn: start and list what is not known yet. Whether anything came of it, good or bad. Raises `Cancelled`."""
        ours = [server for server in self._servers if server.config.serves(agent)]
        for server in ours:
            server.restarts_left = MOST_RESTARTS
        asked = self._list([server for server in ours if server.wants_listing()], session, cancel, tell)
        for server in asked:
            if server.listed is not None and self._listings is not None:
                self._listings.keep(server.config, self._workspace, server.listed, server.secrets)
        return bool(asked)

    def listed(self, names: Iterable[str] | None = None, *, cancel: Cancel | None = None) -> list[Listed]:
        """What each of them has, started and asked now: for who wants to know whether they work."""
        wanted = [server for server in self._servers if names is None or server.config.name in names]
        self._list(wanted, "", cancel or Cancel(), lambda _: None)
        return [Listed(server.config, tuple(tool.schema.name for tool in server.tools(taken=())), server.problem) for server in wanted]

    def close(self) -> None:
        """Let all of them go; what a server has left behind is ended, too."""
        with self._lock:
            portal, self._portal, self._closed = self._portal, None, True
        if portal is None:
            return
        for server in self._servers:
            server.end(portal)
        portal.close(CLOSE_SECONDS)
        if any(server.config.command is not None for server in self._servers):
            end_bearers(SERVER_MARK, self._mark)

    def _list(self, servers: Sequence[_Server], session: str, cancel: Cancel, tell: Callable[[str], None]) -> Sequence[_Server]:
        if not servers:
            return servers
        if importlib.util.find_spec("mcp") is None:
            for server in servers:
                server.fail(_MISSING)
            return servers
        threads = [threading.Thread(target=server.list_tools, args=(session, cancel), name=f"mcp {server.config.name}", daemon=True) for server in servers]
        for thread in threads:
            thread.start()
        until = time.monotonic() + _TELL_AFTER
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        slow = [server.config.name for server, thread in zip(servers, threads, strict=True) if thread.is_alive()]
        if slow:
            tell(f"starting the tool server{'s' if len(slow) > 1 else ''} {', '.join(slow)} …")
        for thread in threads:
            thread.join()
        cancel.raise_if_set()
        return servers

    def _opened_portal(self) -> Portal:
        from orchestrator.mcp_client.portal import Portal

        with self._lock:
            if self._closed:
                raise ToolFailed("the tool servers were let go")
            if self._portal is None:
                self._portal = Portal()
            return self._portal


class _Server:
    """One server, across its starts."""

    def __init__(self, config: ToolServer, portal: Callable[[], Portal], environ: Mapping[str, str], workspace: str, mark: str, clock: Clock) -> None:
        self.config = config
        self.listed: tuple[Described, ...] | None = None
        """What it said it has when it was last asked."""
        self.problem: str | None = None
        """Why it has nothing to offer."""
        self.restarts_left = MOST_RESTARTS
        self._portal, self._environ, self._workspace, self._mark, self._clock = portal, environ, workspace, mark, clock
        self._connection: Connection | None = None
        self._opening: Future[Connection] | None = None
        self._listed_by: Connection | None = None
        self._lock = threading.Lock()
        self._failed_at: float | None = None
        self._timed_out = False
        self.secrets: tuple[str, ...] = ()
        """What must not be repeated of what it says."""

    # -- its tools ---------------------------------------------------------------------------------

    @property
    def is_unknown(self) -> bool:
        """Whether it was not asked yet."""
        return self.listed is None and self.problem is None

    def tools(self, kept: Kept | None = None, *, taken: Collection[str]) -> list[Tool]:
        """As agents are offered them: those that the configuration names, or all; of what was `kept` where it was not asked yet."""
        made: dict[str, Tool] = {}
        for tool in self.listed or (() if kept is None else kept.tools):
            if self.config.tools is None or tool.name in self.config.tools:
                name = tool_name(self.config.name, tool.name, {*taken, *made})
                made[name] = self._tool(name, tool)
        return list(made.values())

    def wants_listing(self) -> bool:
        """Whether it is not known what it has, or no longer; what failed a moment ago is left alone."""
        if self.listed is None:
            return self._failed_at is None or self._clock.monotonic() - self._failed_at >= RETRY_AFTER
        running = self._connection
        return running is not None and (running.changed or running is not self._listed_by)

    def list_tools(self, session: str, cancel: Cancel) -> None:
        """Start it where it does not run, and ask for its tools. Raises nothing: `problem` says what was wrong."""
        deadline = Deadline(self._clock, START_SECONDS + 5)
        connection = None
        try:
            connection = self._running(session, deadline, cancel)
            found = self._done(self._portal().submit(connection.tools()), deadline, cancel)
        except Cancelled:
            return
        except ToolFailed as failed:
            self.fail(str(failed))
        except Exception as error:  # the SDK's, or of what a stranger's server made of it
            self.fail(self._said(error))
            if connection is not None:
                self._let_go(connection)
        else:
            self.listed = tuple(map(_described, found))
            self.problem, self._failed_at = self._missing(found), None
            self._listed_by = connection

    def fail(self, why: str) -> None:
        """It has nothing to offer for now."""
        self.listed, self._failed_at = None, self._clock.monotonic()
        self.problem = f"the tools of {self.config.name} (MCP) are left out: {why}"

    def _missing(self, found: Iterable[ServerTool]) -> str | None:
        gone = [name for name in self.config.tools or () if name not in {tool.name for tool in found}]
        return f"{TABLE}.{self.config.name}.tools: it has no tool {', '.join(map(repr, gone))}" if gone else None

    def _tool(self, name: str, tool: Described) -> Tool:
        schema = ToolSchema(name, described(self.config.name, tool.description), tool.parameters.schema)
        return Tool(schema, lambda arguments, context: self._call(tool.name, tool.parameters, arguments, context), parallel=tool.harmless)

    # -- a call ------------------------------------------------------------------------------------

    def _call(self, tool: str, parameters: Parameters, arguments: Mapping[str, Any], context: ToolContext) -> str:
        from orchestrator.mcp_client.results import result_text

        given = parameters.arguments(arguments)
        result = self._answer(tool, given, context)
        self._timed_out = False
        text = result_text(result)
        if result.is_error:
            raise ToolFailed(text)
        return text

    def _answer(self, tool: str, arguments: dict[str, Any], context: ToolContext, *, again: bool = True) -> Any:  # any: the SDK's, loaded late
        from orchestrator.mcp_client.connection import WasGone, is_closed

        try:
            connection = self._running(context.session, Deadline(self._clock, START_SECONDS + 5), context.cancel)
        except ToolFailed as failed:
            raise ToolFailed(f"the tool server {self.config.name} cannot be called: {failed}") from failed
        deadline = Deadline(self._clock, self.config.timeout)
        future = self._portal().submit(connection.call(tool, arguments, deadline.asking(context.ask)))
        try:
            return self._done(future, deadline, context.cancel)
        except Unfinished:
            self._too_slow(connection)
            raise ToolFailed(f"the tool server {self.config.name} did not answer within {self.config.timeout:g} s; the call was given up") from None
        except (Cancelled, ToolFailed):
            raise
        except Exception as error:  # the SDK's, or of what a stranger's server made of it
            gone = isinstance(error, WasGone)
            if not gone and not is_closed(error):
                raise ToolFailed(f"the tool server {self.config.name} refused the call: {self._said(error)}") from error
            self._let_go(connection)
            if not gone or not again:
                raise ToolFailed(f"the tool server {self.config.name} ended in the middle of the call{self._last_words(connection.stderr)}") from error
        return self._answer(tool, arguments, context, again=False)

    def _too_slow(self, connection: Connection) -> None:
        """One that does not answer twice running has hung."""
        if self._timed_out:
            self._let_go(connection)
        self._timed_out = not self._timed_out

    def _done(self, future: Future[Result], deadline: Deadline, cancel: Cancel) -> Result:
        """Its result. Raises `Cancelled`, `Unfinished` when the time is up, and what it raised."""
        changed = threading.Event()
        future.add_done_callback(lambda _: changed.set())
        forget = cancel.on_cancel(changed.set)
        try:
            while not future.done():
                left = deadline.left()
                if cancel.is_set() or (left is not None and left <= 0):
                    future.cancel()
                    cancel.raise_if_set()
                    raise Unfinished("it did not answer in time")
                changed.wait(None if left is None else max(left, 0.01))
            return future.result()
        except CancelledError:
            cancel.raise_if_set()
            raise ToolFailed(f"the tool server {self.config.name} was let go") from None
        finally:
            forget()

    # -- starting and ending ---------------------------------------------------------------------------

    def _running(self, session: str, deadline: Deadline, cancel: Cancel) -> Connection:
        """The connection, made anew where there is none. Raises `ToolFailed`, `Cancelled`."""
        from orchestrator.mcp_client.connection import DidNotStart

        with self._lock:
            if self._connection is not None and not self._connection.ended:
                return self._connection
            opening = self._opening = self._opening or self._begun(session)
        try:
            connection = self._done(opening, deadline, cancel)
        except Unfinished:
            raise ToolFailed(f"it did not answer within {START_SECONDS:g} s") from None
        except (Cancelled, ToolFailed):
            raise
        except DidNotStart as error:
            why = "" if error.__cause__ is None else f": {self._said(error.__cause__)}"
            raise ToolFailed(f"{error}{why}{self._last_words(error.stderr)}") from error
        else:
            with self._lock:
                self._connection = connection
            return connection
        finally:
            with self._lock:
                self._opening = None if self._opening is opening else self._opening

    def _begun(self, session: str) -> Future[Connection]:
        from orchestrator.mcp_client.connection import Connection

        if self.listed is not None:
            if self.restarts_left <= 0:
                raise ToolFailed(f"the tool server {self.config.name} ended {MOST_RESTARTS} times, and is not started again in this turn")
            self.restarts_left -= 1
        try:
            way = self._way(session)
        except SecretMissing as missing:
            raise ToolFailed(missing.message) from missing
        return self._portal().submit(Connection.opened(way, START_SECONDS))

    def _way(self, session: str) -> Way:
        from orchestrator.mcp_client.connection import Way

        config, where = self.config, f"{TABLE}.{self.config.name}"
        env = resolve(config.env, environ=self._environ, path=f"{where}.env")
        headers = resolve(config.headers, environ=self._environ, path=f"{where}.headers")
        secrets = (*written_secrets("", config.texts), *resolved_secrets(config.env, env), *headers.values())
        self.secrets = tuple(text for text in dict.fromkeys(secrets) if len(text) >= _SHORTEST_SECRET)
        marks = {SERVER_MARK: self._mark, **({SESSION_MARK: session} if session else {})}
        marks |= {name: self._environ[name] for name in (STORE_MARK, OWNER_MARK) if name in self._environ}
        return Way(config.name, config.command, config.args, {**marks, **env}, config.url, headers, self._workspace)

    def _let_go(self, connection: Connection) -> None:
        """End it without waiting; the next call starts another, unless one has already."""
        with self._lock:
            if self._connection is not connection:
                return
            self._connection = None
        self._portal().submit(connection.close())

    def end(self, portal: Portal) -> None:
        """Begin to end it, be it started or starting; the portal waits for that."""
        with self._lock:
            connection, opening, self._connection = self._connection, self._opening, None
        if opening is not None:
            opening.cancel()
        if connection is not None:
            portal.submit(connection.close())

    # -- what is said of it ------------------------------------------------------------------------

    def _said(self, error: BaseException) -> str:
        """An error's text, or where it is from."""
        from orchestrator.mcp_client.connection import innermost, is_readable

        inner = innermost(error)
        text = str(inner) if is_readable(inner) else foreign(inner)
        return self._clear(text) or type(inner).__name__

    def _last_words(self, stderr: str) -> str:
        last = stderr.splitlines()[-1:]
        return f"; its last words were: {self._clear(last[0])}" if last else ""

    def _clear(self, text: str) -> str:
        for secret in sorted(self.secrets, key=len, reverse=True):
            text = text.replace(secret, MASK)
        return one_line(text, _MAX_SAID)


def _described(tool: ServerTool) -> Described:
    harmless = tool.annotations is not None and tool.annotations.read_only_hint is True
    return Described(tool.name, tool.description or tool.title or "", parameters_of(tool.input_schema), harmless)


def _as_kept(name: str, kept: Kept) -> str:
    when = f"{duration(kept.age)} ago" if kept.age >= 60 else "just now"
    return f"the tools of {name} (MCP) are those that the last turn with it listed, {when}; the server is asked anew when the turn begins"


def _too_many(names: Sequence[str], agent: str) -> str:
    shown = ", ".join(names[:_MOST_NAMED]) + (f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else "")
    return f"the tools of MCP servers take a quarter of {agent!r}'s budget at most, and these are left out: {shown}; {TABLE}.NAME.tools says which to offer"
