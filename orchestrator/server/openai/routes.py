"""The three routes, and the one way in which both kinds of request become turns."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import FastAPI, Header, Request
from starlette.responses import Response

from orchestrator.documents.error import error_object
from orchestrator.errors import EscaleraError
from orchestrator.server.openai import chat, responses
from orchestrator.server.openai.bodies import ChatBody, ResponsesBody
from orchestrator.server.openai.model import MODEL, Model
from orchestrator.server.openai.sessions import RESPONSE
from orchestrator.server.openai.spoken import Spoken
from orchestrator.server.problems import encoded, json_response
from orchestrator.server.service import Service
from orchestrator.server.streams import event

SessionHeader = Annotated[str | None, Header(alias="Escalera-Session", description="The session: an id, the beginning of one, or a name.")]


def openai_routes(app: FastAPI, service: Service) -> None:
    model, now = Model(service), service.premises.clock.now

    @app.get("/v1/models")
    def list_models() -> Response:
        """The orchestrator, and each configured agent as a model of its own."""
        return json_response({"object": "list", "data": [_model(name) for name in model.names]})

    @app.get("/v1/models/{name:path}")
    def show_model(name: str) -> Response:
        """One of them."""
        model.choice_of(name)
        return json_response(_model(name))

    @app.post("/v1/chat/completions")
    async def chat_completions(request: Request, body: ChatBody, escalera_session: SessionHeader = None) -> Response:
        """A turn, as a chat completion."""
        talk = body.talk()
        run, opening = await model.begun(talk, body, escalera_session, None)
        with_usage = body.stream_options is not None and bool(body.stream_options.include_usage)
        form = chat.Form(f"chatcmpl-{run.identity}", int(now().timestamp()), body.model, with_usage)
        if not body.stream:
            return await model.whole(request, run, opening, lambda said, end: chat.completion(form, said, end))
        return await model.streamed(run, opening, lambda words: chat_stream(form, words))

    @app.post("/v1/responses")
    async def create_response(request: Request, body: ResponsesBody, escalera_session: SessionHeader = None) -> Response:
        """A turn, as a response."""
        talk = body.talk()
        run, opening = await model.begun(talk, body, escalera_session, body.previous_response_id)
        await model.first_word(run, opening, opened=True)
        asked = {
            "instructions": body.instructions,
            "previous_response_id": body.previous_response_id,
            "tool_choice": body.tool_choice or "auto",
            "tools": [tool.model_dump(mode="json") for tool in body.tools or ()],
        }
        turn = run.turns[-1] if run.turns else 0
        form = responses.Form(f"{RESPONSE}{run.session}_{turn}", int(now().timestamp()), body.model, asked)
        if not body.stream:
            return await model.whole(request, run, opening, lambda said, end: responses.response(form, said, end))
        return await model.streamed(run, opening, lambda words: response_stream(form, words))


async def chat_stream(form: chat.Form, words: AsyncIterator[Spoken]) -> AsyncIterator[bytes]:
    try:
        async for chunk in chat.chunks(form, words):
            yield chunk
    except EscaleraError as error:
        yield event(encoded({"error": {**error_object(error), "code": None, "param": None}}))
    yield chat.DONE


async def response_stream(form: responses.Form, words: AsyncIterator[Spoken]) -> AsyncIterator[bytes]:
    stream = responses.Stream(form)
    try:
        async for one in stream.events(words):
            yield one
    except EscaleraError as error:
        yield stream.failed(error.type, error.message)


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": MODEL}
