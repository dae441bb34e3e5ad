"""/v1/sessions/REF/turns: turns taken and followed; answered whole, or as events that a dropped client goes on with where it was."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from hashlib import sha256
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import FastAPI, Header
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from orchestrator.continuation import Token
from orchestrator.continuing import due_questions, with_answers
from orchestrator.documents.kinds.questions import WaitingDocument
from orchestrator.documents.question import question_object
from orchestrator.documents.sessions import session_ref_document
from orchestrator.errors import EscaleraError, NotFound, TokenRefused, UsageError
from orchestrator.lifetimes import lifetime_fields
from orchestrator.questions import StoredQuestion
from orchestrator.server.bodies import ContinueBody, TurnBody
from orchestrator.server.openapi import gives
from orchestrator.server.problems import Refused, encoded, json_response
from orchestrator.server.routes.questions import answer_of
from orchestrator.server.runs import AWAITED, Run
from orchestrator.server.service import Order, Service
from orchestrator.server.streams import EventStream, event
from orchestrator.session import Session

_EVENTS: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "The events"}}


def turn_routes(app: FastAPI, service: Service) -> None:
    store, broker, premises = service.store, service.broker, service.premises

    @app.post("/v1/sessions/{ref}/turns", openapi_extra=gives("TurnDocument", waits=True))
    async def take_turn(
        ref: str,
        body: TurnBody,
        accept: Annotated[str, Header(include_in_schema=False)] = "",
        idempotency_key: Annotated[str | None, Header(max_length=255)] = None,
    ) -> Response:
        """One turn, answered by the turn document, or by events where `stream` is true or nothing else is accepted.

        It goes on when the client goes away. The same `Idempotency-Key` again is the same turn, as long as it is held: until the session was not used
        for server.session_idle, of the last 100 turns that have ended. Under a key whose turn never came to be one is begun; with another body it is refused.
        """
        run = await run_in_threadpool(_begun, service, ref, body, idempotency_key)
        if body.stream or accept.split(";")[0].strip() == "text/event-stream":
            return await _streamed(run, 0)
        return await _whole(run, wait_questions=body.wait_questions, token=None)

    @app.get("/v1/sessions/{ref}/turns/{index}/events", responses=_EVENTS)
    async def follow_turn(ref: str, index: int, last_event_id: Annotated[str | None, Header()] = None) -> Response:
        """The events of a turn that runs, or ended a short while ago: from its beginning, or behind the `Last-Event-ID`."""
        run = await run_in_threadpool(_held, service, ref, index)
        return await _streamed(run, _position(run, last_event_id))

    @app.post("/v1/sessions/{ref}/turns/{index}/cancel", openapi_extra=gives("SessionRefDocument"))
    def cancel_turn(ref: str, index: int) -> Response:
        """End a turn that runs here; it is kept as cancelled."""
        session = store.find(ref, premises.workspace)
        _run_of(service, session, index).cancel.set()
        return json_response(session_ref_document(session))

    @app.post("/v1/sessions/{ref}/turns/{index}/continue", openapi_extra=gives("TurnDocument", waits=True))
    async def continue_turn(ref: str, index: int, body: ContinueBody) -> Response:
        """Go on with a turn that waits for a question, with its answer; without one, an open question is told once more, which keeps it open."""
        run = await run_in_threadpool(_held, service, ref, index)
        return await _whole(run, wait_questions=True, token=await run_in_threadpool(answered, run, body))

    def answered(run: Run, body: ContinueBody) -> tuple[Token, StoredQuestion]:
        """The token that was used, and the question that it goes on with as it stands now."""
        now = store.now()
        for identity in run.questions:
            try:
                token = service.tokens.read(body.continuation, [run.session, run.identity, identity], now=now)
            except TokenRefused as error:
                refusal = error
                continue
            if body.action is None:
                return token, broker.read(identity)
            return token, broker.answer(identity, answer_of(body))
        raise TokenRefused("this turn waits for no question") if not run.questions else refusal

    async def _whole(run: Run, *, wait_questions: bool, token: tuple[Token, StoredQuestion] | None) -> Response:
        """The turn's end, or the first question that is open."""
        if token is not None and token[1].is_pending:
            return await run_in_threadpool(waiting, run, token[1], token[0])
        if not wait_questions or run.ended.is_set():
            await run.end()
            return ended(run)
        async for _, line in run.follow(run.dropped):
            if line == AWAITED or line["type"] != "question" or line["id"] is None:
                continue
            stored = await run_in_threadpool(broker.peek, line["id"])
            if stored.is_pending:
                return await run_in_threadpool(waiting, run, stored, None if token is None else token[0])
        return ended(run)

    def waiting(run: Run, stored: StoredQuestion, after: Token | None) -> Response:
        now = store.now()
        token = service.tokens.mint([run.session, run.identity, stored.id], now=now, ttl=service.token_ttl, after=after)
        document: WaitingDocument = {
            "format": "escalera.waiting/1",
            "session": run.session,
            "turn": run.turns[-1],
            "question": question_object(stored, now),
            "continuation": {"token": token.text, **lifetime_fields(token.expires_at, now, now)},
        }
        return json_response(document, 202, headers={"location": _place(run, "/continue")})

    def ended(run: Run) -> Response:
        if run.document is None:
            raise run.error or NotFound("the turn has no end")
        return json_response(run.document, headers={"location": _place(run)})

    async def _streamed(run: Run, after: int) -> Response:
        """Once the turn is opened: what keeps it from coming to be is an answer of its own, not an event."""
        if after < run.dropped:
            raise _not_held(run.turns[0])
        if not after:
            async for _ in run.follow():
                break
            if run.error is not None and not run.turns:
                raise run.error
        events = _events(run, after)
        return EventStream(events, headers={"location": _place(run, "/events")})


def _begun(service: Service, ref: str, body: TurnBody, key: str | None) -> Run:
    """The turn that was asked for, or was begun with that key already."""
    session = service.store.find(ref, service.premises.workspace)
    if key is not None and not key.strip():
        raise UsageError("Idempotency-Key: it is empty")
    same = sha256(json.dumps(body.model_dump(exclude={"stream"})).encode()).hexdigest()  # how it is answered makes it no other turn
    known = service.known(session, key, same)
    if known is not None:
        return known
    wish = body.wish(default="" if body.go_on else None)
    order = Order(wish, wait_questions=body.wait_questions, timeout=body.seconds, key=key, same=same)
    if body.go_on:
        due = due_questions(service.broker, session.id)
        there = service.premises_at(session.workspace)
        order = replace(order, wish=with_answers(wish, due, there.templates(there.project(session.workspace))), due=due)
    return service.take(session, order)


def _held(service: Service, ref: str, index: int) -> Run:
    return _run_of(service, service.store.find(ref, service.premises.workspace), index)


def _run_of(service: Service, session: Session, index: int) -> Run:
    run = service.run_of(session.id, index)
    if run is not None:
        return run
    log = service.store.log(session.id)
    if not 0 <= index < log.next_index or log.get(index) is None:
        raise NotFound(f"session {session.id[:8]} has no turn {index}")
    raise _not_held(index)


def _not_held(index: int) -> Refused:
    return Refused(410, f"the events of turn {index} are not held here (any more)", hint="GET the turn itself")


def _position(run: Run, last: str | None) -> int:
    """How many events the client has seen."""
    if not last:
        return 0
    first, _, number = last.partition(".")
    if run.turns[:1] != [int(first)] if first.isascii() and first.isdigit() and len(first) < 10 else True:
        raise UsageError("Last-Event-ID: that is no event of this turn")
    if not (number.isascii() and number.isdigit() and len(number) < 10) or int(number) > run.size:
        raise UsageError("Last-Event-ID: there is no such event")
    return int(number)


async def _events(run: Run, after: int) -> AsyncIterator[bytes]:
    """Under ids that say the run's first turn and the number of the event in it."""
    try:
        async for number, line in run.follow(after):
            if line != AWAITED:
                yield event(encoded(line), identity=f"{run.turns[0]}.{number}" if run.turns else None, name=line["type"])
    except EscaleraError as error:  # it fell behind what is kept
        from orchestrator.documents.error import error_document
        from orchestrator.documents.stream import error_line

        yield event(encoded(error_line(error_document(error))), name="error")


def _place(run: Run, below: str = "") -> str:
    return f"/v1/sessions/{quote(run.session, safe='')}/turns/{run.turns[-1] if run.turns else 0}{below}"
