"""The JSON Schemas of our documents, generated from what declares them: draft 2020-12, each complete in itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args, get_type_hints

if TYPE_CHECKING:
    from pydantic import BaseModel

JsonSchema = dict[str, Any]


def schemas() -> dict[str, JsonSchema]:
    """By the name of the format (`plan`): what is printed under it and, for `session`, what is read.

    `stream` is the schema of one line. Further keys are allowed everywhere, since fields may be added under the same format number.
    """
    from orchestrator.documents.kinds import Document
    from orchestrator.documents.kinds.stream import StreamLine
    from orchestrator.documents.models import SessionShape

    found = {"session": _generated(SessionShape), "stream": _schema(StreamLine)}
    for kind in get_args(Document):
        found[_name(kind)] = _schema(kind)
    return {name: {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema} for name, schema in found.items()}


def _schema(kind: Any) -> JsonSchema:  # a typed dictionary, or a union of them
    """With the texts under the keys as descriptions, which only a model can ask for."""
    from pydantic import ConfigDict, RootModel

    class Documented(RootModel[kind]):
        model_config = ConfigDict(use_attribute_docstrings=True)

    schema = _generated(Documented)
    definitions = schema.pop("$defs", {})
    top = definitions.pop(schema["$ref"].rpartition("/")[2]) if "$ref" in schema else {"anyOf": schema["anyOf"]}
    return {**top, "$defs": definitions} if definitions else top


def _generated(model: type[BaseModel]) -> JsonSchema:
    from pydantic.json_schema import GenerateJsonSchema

    class Untitled(GenerateJsonSchema):
        """Without titles that only say the key again."""

        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

    return model.model_json_schema(schema_generator=Untitled)


def _name(kind: type) -> str:
    """`plan`, of the kind whose format is `escalera.plan/1`."""
    (declared,) = get_args(get_type_hints(kind)["format"])
    return str(declared).removeprefix("escalera.").rpartition("/")[0]
