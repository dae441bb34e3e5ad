"""What goes over the protocol, made of what the core has, and back: questions, answers, results, tasks."""

from __future__ import annotations

import base64
import inspect
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import mcp_types as types

from orchestrator.artifacts import Artifact
from orchestrator.clock import format_time
from orchestrator.dispatch.toolbox import shortened
from orchestrator.errors import EscaleraError
from orchestrator.mcp_server.tools import LOOKS_ONLY, TOOLS, Told
from orchestrator.providers import Answer
from orchestrator.questions import StoredQuestion
from orchestrator.tasks import StoredTask, TaskState

URI = "escalera://artifacts/"
TASKS = "io.modelcontextprotocol/tasks"
"""The extension in which a call of a tool may give a task."""
POLL_MS = 1000
"""Milliseconds after which a client is to look at a task again."""

_STATUS = {TaskState.RUNNING: "working", TaskState.CANCELLED: "cancelled", TaskState.INTERRUPTED: "failed"}
_ACTIONS = ("accept", "decline", "cancel")


def tool_list() -> list[types.Tool]:
    """The six tools."""
    return [
        types.Tool(
            name=name,
            description=inspect.cleandoc(arguments.__doc__ or ""),
            input_schema=_plain(arguments.model_json_schema()),
            annotations=types.ToolAnnotations(read_only_hint=name in LOOKS_ONLY, destructive_hint=False),
        )
        for name, arguments in TOOLS.items()
    ]


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without what only repeats the tool's description and the arguments' names: each word of it costs the host tokens."""
    fields = {name: {key: value for key, value in field.items() if key != "title"} for name, field in schema["properties"].items()}
    return {key: value for key, value in schema.items() if key not in ("title", "description")} | {"properties": fields}


# -- questions -----------------------------------------------------------------------------------


def elicitation(stored: StoredQuestion, problem: str | None = None) -> types.ElicitRequest:
    """A question as the client puts it to its user. An address to be opened stands in the text, for clients that only know forms."""
    question = stored.question
    parts = [question.message, *([question.url] if question.url else []), *([f"({problem})"] if problem else [])]
    schema = dict(question.schema) if question.mode == "form" else {"type": "object", "properties": {}}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message="\n".join(parts), requested_schema=schema))


def answer_of(response: object, stored: StoredQuestion) -> Answer:
    """What the user said; whatever says nothing that is known is a cancel (page 5)."""
    given = response if isinstance(response, Mapping) else response.model_dump(by_alias=True) if isinstance(response, types.Result) else {}
    action, content = given.get("action"), given.get("content")
    if action not in _ACTIONS:
        return Answer("cancel", by="human")
    if action != "accept" or stored.question.mode != "form" or not isinstance(content, Mapping):
        return Answer(action, by="human")
    return Answer("accept", dict(content), by="human")


def input_requests(stored: StoredQuestion, problem: str | None = None) -> dict[str, types.InputRequest]:
    """A question under its id."""
    return {stored.id: elicitation(stored, problem)}


# -- results -------------------------------------------------------------------------------------


def told(said: Told) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=said.text)], structured_content=None if said.data is None else dict(said.data))


def failed(error: EscaleraError | str) -> types.CallToolResult:
    """An error that the model is told, so that it can do better."""
    text = error if isinstance(error, str) else f"{error.message} ({error.hint})" if error.hint else error.message
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)


def result_of(document: Mapping[str, Any], *, inline_max: int | None) -> types.CallToolResult:
    """What an escalation came to. An answer that is too large is given in head and tail, with a link to all of it."""
    error = document.get("error")
    texts = [_failure(error)] if error is not None else []
    answer = document.get("answer") or document.get("partial") or ""
    artifacts: Sequence[str] = document.get("artifacts", ())
    if answer:
        texts.append(shortened(answer, inline_max) if artifacts else answer)
    notices = document.get("notices", ())
    if notices:
        texts.append("Notices:\n" + "\n".join(f"- {notice}" for notice in notices))
    content: list[types.ContentBlock] = [types.TextContent(text=text) for text in texts or ["(nothing was said)"]]
    content += [types.ResourceLink(name=identity, uri=URI + identity) for identity in artifacts]
    meta = {name: value for name, value in document.items() if name not in ("answer", "partial")}
    return types.CallToolResult(content=content, is_error=error is not None, _meta={"escalera/turn": meta})


def _failure(error: Mapping[str, Any]) -> str:
    return f"{error['type']}: {error['message']}" + (f" ({error['hint']})" if error.get("hint") else "")


# -- tasks ---------------------------------------------------------------------------------------


def task_object(task: StoredTask, *, asked: StoredQuestion | None = None, inline_max: int | None) -> dict[str, Any]:
    """A task as the extension has it. How long its result is kept may grow, since looking at it counts as use."""
    updated = task.updated or task.created
    shown: dict[str, Any] = {
        "taskId": task.id,
        "status": _STATUS.get(task.state, "completed"),
        "createdAt": format_time(task.created),
        "lastUpdatedAt": format_time(updated),
        "ttlMs": max(0, (task.life.expires_at - task.created) // timedelta(milliseconds=1)),
        "pollIntervalMs": POLL_MS,
    }
    if task.runs and asked is not None:
        requests = {key: request.model_dump(by_alias=True, mode="json", exclude_none=True) for key, request in input_requests(asked).items()}
        return {**shown, "status": "input_required", "inputRequests": requests}
    if task.state is TaskState.INTERRUPTED:
        return {**shown, "error": {"code": types.INTERNAL_ERROR, "message": INTERRUPTED}}
    if shown["status"] == "completed":
        result = result_of(task.result or {}, inline_max=inline_max)
        return {**shown, "result": result.model_dump(by_alias=True, mode="json", exclude_none=True)}
    return shown


INTERRUPTED = "the process that took this turn has ended; what was done until there is kept in the session"


def handle(task: StoredTask) -> types.CallToolResult:
    """The task, for clients that know nothing of tasks."""
    text = f"This takes longer and goes on as task {task.id}. Call escalate with task={task.id!r} to wait for it further."
    return types.CallToolResult(content=[types.TextContent(text=text)], structured_content={"task": task.id, "status": "working"})


# -- artifacts -----------------------------------------------------------------------------------


def resource(artifact: Artifact) -> types.Resource:
    name = artifact.name or artifact.kind
    return types.Resource(name=name, uri=URI + artifact.id, size=artifact.size, mime_type="text/plain")


def contents(artifact: Artifact, body: bytes) -> types.ReadResourceResult:
    uri = URI + artifact.id
    try:
        part: types.TextResourceContents | types.BlobResourceContents = types.TextResourceContents(uri=uri, mime_type="text/plain", text=body.decode())
    except UnicodeDecodeError:
        part = types.BlobResourceContents(uri=uri, mime_type="application/octet-stream", blob=base64.b64encode(body).decode())
    return types.ReadResourceResult(contents=[part])
