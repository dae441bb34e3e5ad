"""What clients of OpenAI's two ways send. What only tunes a model is taken and not heeded: agents have that in their configuration (docs/server.md)."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from orchestrator.providers import ToolSchema
from orchestrator.server.openai.talk import Reader, Talk, text_of
from orchestrator.server.problems import Refused
from orchestrator.tools import SESSION_TOOLS

MOST_TOOLS = 128
_NAME = r"^[A-Za-z0-9_-]{1,64}$"


class Lenient(BaseModel):
    """Keys that we do not know are taken: clients send many, and new ones."""

    model_config = ConfigDict(extra="allow", frozen=True)


class Function(Lenient):
    """A function that the client runs."""

    name: str = Field(pattern=_NAME)
    description: str | None = None
    parameters: dict[str, Any] | None = None

    def schema_of(self) -> ToolSchema:
        if self.name in SESSION_TOOLS:
            raise Refused(400, f"tools: {self.name!r} is the name of one of the session's own tools", hint="call it something else")
        return ToolSchema(self.name, self.description or "", self.parameters or {"type": "object", "properties": {}})


class ChatTool(Lenient):
    """A tool of chat completions."""

    type: Literal["function"]
    function: Function


class CalledFunction(Lenient):
    """The function of a call, as the client was told it."""

    name: str
    arguments: str = ""


class ChatCall(Lenient):
    """A call, as the client was told it."""

    id: str
    function: CalledFunction | None = None


class ChatMessage(Lenient):
    """One message."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[ChatCall] | None = None
    tool_call_id: str | None = None


class StreamOptions(Lenient):
    """What else a stream tells."""

    include_usage: bool | None = None


def _functions(tools: Any) -> Any:  # a stranger's JSON, before it is checked
    """Without tools of other types, which clients send unasked (`web_search`, `custom`, `namespace`): no agent here could call them."""
    if not isinstance(tools, list):
        return tools
    return [tool for tool in tools if not (isinstance(tool, dict) and isinstance(tool.get("type"), str) and tool["type"] != "function")]


class Request(Lenient):
    """What both ways have."""

    model: str = Field(max_length=200)
    stream: bool | None = None
    tool_choice: str | dict[str, Any] | None = None
    user: str | None = Field(None, max_length=200)
    """The session of that name in the server's workspace is meant; it is made where there is none."""

    def check_tool_choice(self) -> bool:
        """Whether tools are offered at all. Raises `Refused` for what no agent can be made to do."""
        if self.tool_choice in (None, "auto", "none"):
            return self.tool_choice != "none"
        raise Refused(400, "tool_choice: an agent cannot be made to call a tool; `auto` and `none` can be chosen")


class ChatBody(Request):
    """POST /v1/chat/completions."""

    messages: list[ChatMessage] = Field(min_length=1)
    tools: Annotated[list[ChatTool] | None, BeforeValidator(_functions)] = Field(None, max_length=MOST_TOOLS)
    stream_options: StreamOptions | None = None
    n: int | None = None
    response_format: dict[str, Any] | None = None
    modalities: list[str] | None = None
    functions: list[Any] | None = None

    def talk(self) -> Talk:
        """Raises `Refused`."""
        _refuse(self.n not in (None, 1), "n: there is one answer")
        _refuse(_is_formatted(self.response_format), "response_format: an agent answers in text")
        _refuse(self.modalities not in (None, ["text"]), "modalities: an agent answers in text")
        _refuse(bool(self.functions), "functions: send them as tools")
        reader = Reader()
        for place, message in enumerate(self.messages):
            text = text_of(message.content, f"messages.{place}")
            match message.role:
                case "system" | "developer":
                    reader.system(text)
                case "user":
                    reader.user(text)
                case "assistant":
                    reader.assistant(text)
                case "tool":
                    _refuse(message.tool_call_id is None, f"messages.{place}: tool_call_id is missing")
                    reader.result(message.tool_call_id or "", text)
        return reader.talk()

    def schemas(self) -> list[ToolSchema]:
        """The client's tools. Raises `Refused`."""
        return _distinct([tool.function.schema_of() for tool in self.tools or ()]) if self.check_tool_choice() else []


class ResponseTool(Function):
    """A tool of responses; those that are no function are left out before."""

    type: Literal["function"]


class ResponsesBody(Request):
    """POST /v1/responses."""

    input: str | list[dict[str, Any]]
    instructions: str | None = None
    previous_response_id: str | None = Field(None, max_length=400)
    tools: Annotated[list[ResponseTool] | None, BeforeValidator(_functions)] = Field(None, max_length=MOST_TOOLS)
    text: dict[str, Any] | None = None
    conversation: Any = None
    background: bool | None = None

    def talk(self) -> Talk:
        """Raises `Refused`."""
        _refuse(self.conversation is not None, "conversation: name the session by the header Escalera-Session, or by `user`")
        _refuse(bool(self.background), "background: POST /v1/tasks takes turns in the background")
        _refuse(_is_formatted((self.text or {}).get("format")), "text.format: an agent answers in text")
        reader = Reader(self.instructions or "")
        if isinstance(self.input, str):
            reader.user(self.input)
            return reader.talk()
        for place, item in enumerate(self.input):
            _take(reader, item, f"input.{place}")
        return reader.talk()

    def schemas(self) -> list[ToolSchema]:
        """The client's tools. Raises `Refused`."""
        return _distinct([tool.schema_of() for tool in self.tools or ()]) if self.check_tool_choice() else []


def _take(reader: Reader, item: dict[str, Any], where: str) -> None:
    kind = item.get("type", "message")
    if kind == "message":
        role, text = item.get("role"), text_of(item.get("content"), where)
        match role:
            case "system" | "developer":
                reader.system(text)
            case "user":
                reader.user(text)
            case "assistant":
                reader.assistant(text)
            case _:
                raise Refused(400, f"{where}: role has to be system, developer, user or assistant")
    elif kind == "function_call":
        reader.assistant("")
    elif kind == "function_call_output":
        call, output = item.get("call_id"), item.get("output")
        _refuse(not isinstance(call, str), f"{where}: call_id is missing")
        reader.result(str(call), output if isinstance(output, str) else text_of(output, where))
    elif kind != "reasoning":
        raise Refused(400, f"{where}: an item of the type {json.dumps(kind)[:40]} cannot be sent to the orchestrator")


def _is_formatted(wanted: Any) -> bool:  # a stranger's JSON
    return isinstance(wanted, dict) and wanted.get("type") not in (None, "text")


def _refuse(wrong: bool, why: str) -> None:
    if wrong:
        raise Refused(400, why)


def _distinct(schemas: list[ToolSchema]) -> list[ToolSchema]:
    names = [schema.name for schema in schemas]
    _refuse(len(set(names)) != len(names), "tools: two of them have the same name")
    return schemas
