"""Responses: what a turn says, in the form of OpenAI's newer way, whole or as a stream."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.server.client_tools import ClientCall
from orchestrator.server.openai.spoken import Called, Ended, Said, Spoken, input_tokens, told_of
from orchestrator.server.problems import encoded
from orchestrator.server.streams import event


@dataclass(frozen=True, slots=True)
class Form:
    """What stands in every answer."""

    identity: str
    created: int
    model: str
    asked: dict[str, Any] = field(default_factory=dict)
    """What an answer repeats of its request."""

    def document(self, status: str, output: Sequence[dict[str, Any]], **more: Any) -> dict[str, Any]:
        head = {"id": self.identity, "object": "response", "created_at": self.created, "status": status, "model": self.model, "output": list(output)}
        nothing = dict.fromkeys(("error", "incomplete_details", "usage", "temperature", "top_p"))
        return {**head, **nothing, "parallel_tool_calls": True, "metadata": {}, **self.asked, **more}


def response(form: Form, said: Sequence[str], end: Called | Ended) -> dict[str, Any]:
    """The whole answer."""
    text = end.answer if isinstance(end, Ended) else "".join(said).strip()
    output = [_message(form, text)] if text or isinstance(end, Ended) else []
    if isinstance(end, Called):
        output += [_call(call) for call in end.calls]
    return form.document("completed", output, **_end(end))


class Stream:
    """The events of one answer, numbered."""

    def __init__(self, form: Form) -> None:
        self._form, self._number = form, 0
        self._said: list[str] = []
        self._output: list[dict[str, Any]] = []

    async def events(self, spoken: AsyncIterator[Spoken]) -> AsyncIterator[bytes]:
        """To the end of the answer."""
        begun = self._form.document("in_progress", ())
        yield self._event("response.created", response=begun)
        yield self._event("response.in_progress", response=begun)
        async for one in spoken:
            match one:
                case Said("text", text):
                    if not self._said:
                        for opening in self._open_message():
                            yield opening
                    self._said.append(text)
                    yield self._event("response.output_text.delta", **self._where, delta=text, logprobs=[])
                case Said():
                    pass
                case Called() | Ended():
                    if not self._said and isinstance(one, Ended):
                        for opening in self._open_message():
                            yield opening
                        self._said.append("")
                    for closing in self._close_message():
                        yield closing
                    for call in one.calls if isinstance(one, Called) else ():
                        for part in self._called(call):
                            yield part
                    yield self._event("response.completed", response=self._form.document("completed", self._output, **_end(one)))

    def failed(self, code: str, message: str) -> bytes:
        """Instead of the end, where the turn came to none."""
        return self._event("response.failed", response=self._form.document("failed", self._output, error={"code": code, "message": message}))

    @property
    def _where(self) -> dict[str, Any]:
        return {"item_id": f"msg_{self._form.identity}", "output_index": 0, "content_index": 0}

    def _open_message(self) -> list[bytes]:
        item = {**_message(self._form, ""), "status": "in_progress", "content": []}
        return [
            self._event("response.output_item.added", output_index=0, item=item),
            self._event("response.content_part.added", **self._where, part=_part("")),
        ]

    def _close_message(self) -> list[bytes]:
        if not self._said:
            return []
        text = "".join(self._said)
        item = _message(self._form, text)
        self._output.append(item)
        return [
            self._event("response.output_text.done", **self._where, text=text, logprobs=[]),
            self._event("response.content_part.done", **self._where, part=_part(text)),
            self._event("response.output_item.done", output_index=0, item=item),
        ]

    def _called(self, call: ClientCall) -> list[bytes]:
        item, place = _call(call), len(self._output)
        self._output.append(item)
        where = {"item_id": item["id"], "output_index": place}
        return [
            self._event("response.output_item.added", output_index=place, item={**item, "arguments": "", "status": "in_progress"}),
            self._event("response.function_call_arguments.delta", **where, delta=item["arguments"]),
            self._event("response.function_call_arguments.done", **where, name=item["name"], arguments=item["arguments"]),
            self._event("response.output_item.done", output_index=place, item=item),
        ]

    def _event(self, kind: str, /, **fields: Any) -> bytes:
        data = encoded({"type": kind, "sequence_number": self._number, **fields})
        self._number += 1
        return event(data, name=kind)


def _message(form: Form, text: str) -> dict[str, Any]:
    return {"type": "message", "id": f"msg_{form.identity}", "status": "completed", "role": "assistant", "content": [_part(text)]}


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _call(call: ClientCall) -> dict[str, Any]:
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    return {"type": "function_call", "id": f"fc_{call.id}", "call_id": call.id, "name": call.name, "arguments": arguments, "status": "completed"}


def _end(end: Called | Ended) -> dict[str, Any]:
    if isinstance(end, Called):
        return {}
    usage = end.document["usage"]
    return {"usage": None if usage is None else _usage(input_tokens(usage), usage), "escalera": told_of(end.document)}


def _usage(sent: int, usage: Any) -> dict[str, Any]:  # a usage object
    received = usage["output_tokens"] or 0
    return {
        "input_tokens": sent,
        "input_tokens_details": {"cached_tokens": usage["cache_read_tokens"] or 0},
        "output_tokens": received,
        "output_tokens_details": {"reasoning_tokens": usage["reasoning_tokens"] or 0},
        "total_tokens": sent + received,
    }
