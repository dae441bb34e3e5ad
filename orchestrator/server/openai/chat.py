"""Chat completions: what a turn says, as OpenAI's clients read it, whole or as a stream."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.server.client_tools import ClientCall
from orchestrator.server.openai.spoken import Called, Ended, Said, Spoken, input_tokens, told_of
from orchestrator.server.problems import encoded
from orchestrator.server.streams import event

DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class Form:
    """What stands in every part of an answer."""

    identity: str
    created: int
    model: str
    with_usage: bool = False


def completion(form: Form, said: Sequence[str], end: Called | Ended) -> dict[str, Any]:
    """The whole answer."""
    text = end.answer if isinstance(end, Ended) else "".join(said).strip()
    message: dict[str, Any] = {"role": "assistant", "content": text or None, "refusal": None}
    if isinstance(end, Called):
        message["tool_calls"] = [_call(call) for call in end.calls]
    choice = {"index": 0, "message": message, "finish_reason": _reason(end), "logprobs": None}
    document = {"id": form.identity, "object": "chat.completion", "created": form.created, "model": form.model, "choices": [choice], "usage": _usage(end)}
    return document if isinstance(end, Called) else {**document, "escalera": told_of(end.document)}


async def chunks(form: Form, spoken: AsyncIterator[Spoken]) -> AsyncIterator[bytes]:
    """The stream up to its end, without the mark behind it."""
    yield _chunk(form, {"role": "assistant", "content": ""})
    async for one in spoken:
        match one:
            case Said(kind, text):
                yield _chunk(form, {"content" if kind == "text" else "reasoning_content": text})
            case Called(calls):
                for index, call in enumerate(calls):
                    yield _chunk(form, {"tool_calls": [{"index": index, **_call(call)}]})
                yield _chunk(form, {}, finish_reason="tool_calls")
            case Ended(document):
                yield _chunk(form, {}, finish_reason="stop", escalera=told_of(document))
                if form.with_usage:
                    yield event(encoded({**_head(form), "choices": [], "usage": _usage(one)}))


def _chunk(form: Form, delta: dict[str, Any], *, finish_reason: str | None = None, **more: Any) -> bytes:
    usage = {"usage": None} if form.with_usage else {}
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
    return event(encoded({**_head(form), "choices": [choice], **usage, **more}))


def _head(form: Form) -> dict[str, Any]:
    return {"id": form.identity, "object": "chat.completion.chunk", "created": form.created, "model": form.model}


def _call(call: ClientCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)}}


def _reason(end: Called | Ended) -> str:
    return "tool_calls" if isinstance(end, Called) else "stop"


def _usage(end: Called | Ended) -> dict[str, Any] | None:
    """Of the turn as a whole, known at its end."""
    usage = None if isinstance(end, Called) else end.document["usage"]
    if usage is None:
        return None
    sent, received = input_tokens(usage), usage["output_tokens"] or 0
    return {
        "prompt_tokens": sent,
        "completion_tokens": received,
        "total_tokens": sent + received,
        "prompt_tokens_details": {"cached_tokens": usage["cache_read_tokens"] or 0},
        "completion_tokens_details": {"reasoning_tokens": usage["reasoning_tokens"] or 0},
    }
