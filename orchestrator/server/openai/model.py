"""The orchestrator as a model: requests of both kinds become turns, and turns become answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any
from urllib.parse import unquote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from orchestrator.errors import InternalError
from orchestrator.planning.case import Wish
from orchestrator.routing import Choice
from orchestrator.server.client_tools import ClientTools
from orchestrator.server.openai.bodies import ChatBody, ResponsesBody
from orchestrator.server.openai.sessions import Sessions
from orchestrator.server.openai.spoken import Called, Ended, Opening, Said, Spoken, beginning, failure_of, spoken
from orchestrator.server.openai.talk import Talk
from orchestrator.server.problems import Refused, json_response
from orchestrator.server.runs import Run
from orchestrator.server.service import Order, Service
from orchestrator.server.streams import EventStream, while_there

MODEL = "escalera"
"""The orchestrator, which chooses the agent itself; `escalera/NAME` is that agent."""
FIRST_WORD = 10.0
"""Seconds for which a stream waits for the first text before it begins: until then an error has a status of its own."""


class Model:
    """One server's."""

    def __init__(self, service: Service) -> None:
        self._service, self._premises = service, service.premises
        self._sessions = Sessions(service)

    @property
    def names(self) -> list[str]:
        """Of the orchestrator, and of each configured agent as a model of its own."""
        self._premises.refresh()
        return [MODEL, *(f"{MODEL}/{name}" for name in self._premises.settings.agents)]

    def choice_of(self, model: str) -> Choice:
        """Raises `Refused` for a name that is none of ours."""
        name = model.removeprefix(f"{MODEL}/")
        if model == MODEL:
            return Choice()
        if name in self._premises.settings.agents:
            return Choice(agent=name)
        known = ", ".join([MODEL, *(f"{MODEL}/{agent}" for agent in self._premises.settings.agents)])
        raise Refused(404, f"there is no model {model[:80]!r} here; there are: {known}", code="model_not_found")

    async def begun(self, talk: Talk, body: ChatBody | ResponsesBody, ref: str | None, previous: str | None) -> tuple[Run, Opening]:
        """The turn, begun or gone on with, and how far its client has been told of it."""
        if talk.results or (not talk.before and ref is None and previous is None and body.user is None):  # needs no look into the store
            return self._begun(talk, body, ref, previous)
        return await run_in_threadpool(self._begun, talk, body, ref, previous)

    def _begun(self, talk: Talk, body: ChatBody | ResponsesBody, ref: str | None, previous: str | None) -> tuple[Run, Opening]:
        choice = self.choice_of(body.model)
        schemas = body.schemas()
        if talk.results:
            run = self._service.awaiting(list(talk.results))
            if run is None or run.tools is None or run.opening is None:
                raise Refused(409, "the turn that called these tools is over", hint="say something new, as the user", code="tool_calls_expired")
            opening = run.opening
            run.tools.give(talk.results)
            return run, opening
        tools = ClientTools(schemas) if schemas else None
        named = ref is not None or previous is not None or bool((body.user or "").strip())
        opening = Opening(talk.before, talk.prompt, named=named)
        order = Order(Wish(talk.prompt, choice), client_prompt=talk.system, tools=tools, opening=opening)
        return self._sessions.taken(talk, order, ref=None if ref is None else unquote(ref), user=body.user, previous=previous), opening

    async def first_word(self, run: Run, opening: Opening, *, opened: bool = False) -> None:
        """Until the turn is opened, or has said something, or is over. Raises what kept it from that."""
        with suppress(TimeoutError):
            async with asyncio.timeout(None if opened else FIRST_WORD):
                async for _, line in run.follow(opening.seen):
                    if opened or not isinstance(line, dict) or line["type"] in ("text", "reasoning", "turn"):
                        break
        if run.ended.is_set() and run.document is None and run.error is not None:
            raise run.error

    async def _heard(self, run: Run, opening: Opening) -> AsyncIterator[Spoken]:
        """What is said, noted as told. Raises why a turn has no answer."""
        async for one in spoken(run, opening):
            if isinstance(one, Ended):
                failure = failure_of(run, one.document)
                if failure is not None:
                    raise failure
            yield one

    @staticmethod
    async def _end(run: Run) -> Ended:
        """Of a turn that nothing comes between: nobody is woken for each of its words. Raises why it has no answer."""
        await run.end()
        if run.document is None:
            raise run.error or InternalError("the turn has no end")
        failure = failure_of(run, run.document)
        if failure is not None:
            raise failure
        return Ended(run.document, run.document["answer"] or "")

    async def whole(self, request: Request, run: Run, opening: Opening, document: Callable[[list[str], Called | Ended], dict[str, Any]]) -> Response:
        said: list[str] = []
        ends: list[Called | Ended] = []

        async def collect() -> None:
            if run.tools is None:
                ends.append(await self._end(run))
                return
            async for one in self._heard(run, opening):
                if isinstance(one, Called | Ended):
                    ends.append(one)
                elif one.kind == "text":
                    said.append(one.text)

        await while_there(request.receive, asyncio.ensure_future(collect()), run.cancel.set)
        self._told(run, opening, ends[0].answer if isinstance(ends[0], Ended) else "".join(said), ends[0])
        return json_response(document(said, ends[0]), headers=beginning(run))

    async def streamed(self, run: Run, opening: Opening, events: Callable[[AsyncIterator[Spoken]], AsyncIterator[bytes]]) -> Response:
        await self.first_word(run, opening)
        if run.document is not None and (failure := failure_of(run, run.document)) is not None and not run.has_said:
            raise failure

        async def words() -> AsyncIterator[Spoken]:
            said: list[str] = []
            async for one in self._heard(run, opening):
                if isinstance(one, Said):
                    said += [one.text] if one.kind == "text" else []
                else:
                    self._told(run, opening, "".join(said) or (one.answer if isinstance(one, Ended) else ""), one)
                yield one

        def gone() -> None:
            if not run.is_waiting:
                run.cancel.set("the client went away")

        return EventStream(events(words()), headers=beginning(run), gone=gone)

    def _told(self, run: Run, opening: Opening, text: str, end: Called | Ended) -> None:
        opening.told += text
        if isinstance(end, Ended) and not opening.named:
            self._sessions.remember(run, opening.before, opening.prompt, opening.told)
