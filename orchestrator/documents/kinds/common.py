"""What the declarations of several documents are written with."""

from __future__ import annotations

from typing import Annotated, Any, Literal


class Schema:
    """JSON Schema keywords that a type has no words for."""

    def __init__(self, **keywords: object) -> None:
        self._keywords = keywords

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:  # the types are pydantic's, which is not imported here
        return {**handler(core), **self._keywords}


Moment = Annotated[str, Schema(format="date-time", pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")]
"""RFC 3339, in UTC."""
Stated = Annotated[str, Schema(minLength=1)]
Count = Annotated[int, Schema(minimum=0)]
Json = dict[str, Any]  # tool arguments, a provider's body, an answer's schema: any JSON object
QuestionMode = Literal["form", "url", "confirm"]
