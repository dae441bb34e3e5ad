"""/v1/tasks: turns in the background, each in a process of its own. Reading one keeps its result for longer, listing does not (page 5)."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import FastAPI
from starlette.responses import Response

from orchestrator.background import start_task
from orchestrator.continuing import due_questions, with_answers
from orchestrator.documents.task import task_document, task_object
from orchestrator.errors import NotFound, StoreError, TaskEnded, TaskRuns
from orchestrator.questions import StoredQuestion
from orchestrator.server.bodies import TaskBody
from orchestrator.server.openapi import gives
from orchestrator.server.problems import json_response
from orchestrator.server.service import Service
from orchestrator.tasks import StoredTask


def task_routes(app: FastAPI, service: Service) -> None:
    premises, store = service.premises, service.store

    @app.get("/v1/tasks", openapi_extra=gives("TasksDocument"))
    def list_tasks() -> Response:
        """All whose results have not expired, oldest first."""
        now = store.now()
        return json_response({"format": "escalera.tasks/1", "tasks": [task_object(task, now) for task in store.tasks()]})

    @app.post("/v1/tasks", status_code=202, openapi_extra=gives("TaskDocument", 202))
    def begin_task(body: TaskBody) -> Response:
        """Take a turn in a process of its own, which goes on when this server ends."""
        session = store.find(body.session, premises.workspace)
        there = service.premises_at(session.workspace)
        due: Sequence[StoredQuestion] = ()
        wish = body.wish(default="" if body.go_on else None)
        if body.go_on:
            due = due_questions(service.broker, session.id)
            wish = with_answers(wish, due, there.templates(there.project(session.workspace)))
        identities = [question.id for question in due]
        task = start_task(there, store, session, wish, timeout=body.seconds, wait_questions=body.wait_questions, due=identities)
        return json_response(task_document(task, store.now()), 202, headers={"location": f"/v1/tasks/{task.id}"})

    @app.get("/v1/tasks/{identity}", openapi_extra=gives("TaskDocument"))
    def show_task(identity: str) -> Response:
        """How it stands; its result is kept for longer by that, up to its ceiling."""
        return json_response(task_document(read(identity), store.now()))

    @app.get("/v1/tasks/{identity}/result", openapi_extra=gives("TurnDocument"))
    def task_result(identity: str) -> Response:
        """What it came to: the turn document."""
        task = peeked(identity)
        if task.runs:
            raise TaskRuns(f"task {task.id[:8]} is still running")
        task = read(task.id)
        if task.result is None:
            raise TaskEnded(f"task {task.id[:8]} was {task.state.value}: it has no result", hint="its turn reads as interrupted; ask again")
        return json_response(dict(task.result))

    @app.post("/v1/tasks/{identity}/cancel", openapi_extra=gives("TaskDocument"))
    def cancel_task(identity: str) -> Response:
        """Ask it to end; its turn is kept as cancelled."""
        task = peeked(identity)
        if not task.runs:
            raise TaskEnded(f"task {task.id[:8]} is {task.state.value} already")
        return json_response(task_document(store.cancel_task(task.id), store.now()))

    def peeked(identity: str) -> StoredTask:
        try:
            return store.peek_task(identity)
        except NotFound as error:
            raise NotFound(error.message, hint="it may have expired: a result is kept for tasks.ttl after it was last read") from error

    def read(identity: str) -> StoredTask:
        """An item read. Where that cannot be noted, it stands as it is stored."""
        task = peeked(identity)
        try:
            return store.read_task(task.id)
        except StoreError:
            return task
