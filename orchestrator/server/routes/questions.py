"""/v1/questions: what agents ask while they work. Reading one keeps it open for longer, listing does not (page 5)."""

from __future__ import annotations

import json

from fastapi import FastAPI
from starlette.responses import Response

from orchestrator.answers import MAX_CONTENT
from orchestrator.documents.question import question_document, question_object
from orchestrator.providers import Answer
from orchestrator.server.bodies import AnswerBody, ContinueBody
from orchestrator.server.openapi import gives
from orchestrator.server.problems import Refused, json_response
from orchestrator.server.service import Service


def question_routes(app: FastAPI, service: Service) -> None:
    broker, store = service.broker, service.store

    @app.get("/v1/questions", openapi_extra=gives("QuestionsDocument"))
    def list_questions(session: str | None = None, everything: bool = False) -> Response:
        """The open questions, or all that are kept, oldest first."""
        identity = None if session is None else store.find(session, service.premises.workspace).id
        found, now = broker.listed(session=identity, pending=not everything), store.now()
        return json_response({"format": "escalera.questions/1", "questions": [question_object(stored, now) for stored in found]})

    @app.get("/v1/questions/{identity}", openapi_extra=gives("QuestionDocument"))
    def show_question(identity: str) -> Response:
        """One question with all that it asks for; it stays open for longer by that, up to its ceiling."""
        return json_response(question_document(broker.read(identity), store.now()))

    @app.post("/v1/questions/{identity}/answer", openapi_extra=gives("QuestionDocument"))
    def answer_question(identity: str, body: AnswerBody) -> Response:
        """Answer it; exactly one answer counts. What is accepted too late is refused and kept."""
        return json_response(question_document(broker.answer(identity, answer_of(body)), store.now()))


def answer_of(body: AnswerBody | ContinueBody) -> Answer:
    """Raises `Refused` for one that is too large."""
    content = body.content or {}
    if len(json.dumps(content)) > MAX_CONTENT:
        raise Refused(413, f"an answer has at most {MAX_CONTENT:,} characters as JSON")
    return Answer(body.action or "cancel", content)
