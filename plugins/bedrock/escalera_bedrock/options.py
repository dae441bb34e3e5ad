"""The options that a Bedrock agent takes."""

from __future__ import annotations

import json
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator

CREDENTIALS = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN"),
    *("AWS_BEARER_TOKEN_BEDROCK", "AWS_CONTAINER_AUTHORIZATION_TOKEN"),
)
"""What boto3 takes from the environment to sign in with."""


class Inference(BaseModel):
    """Converse's own inference parameters; everything else of a model's goes into `additional_fields`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_tokens: Annotated[int, Field(ge=1)] | None = Field(default=None, description="The most tokens of one answer.")
    temperature: Annotated[float, Field(ge=0, le=1)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    stop_sequences: list[Annotated[str, Field(min_length=1)]] = []


class BedrockOptions(BaseModel):
    """Options of `provider = "bedrock"`. Credentials are none of them: they come from where AWS tools find them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: Annotated[str, Field(min_length=1)] = Field(description="Model id, inference profile id, or the ARN of either.")
    region: Annotated[str, Field(min_length=1)] | None = Field(default=None, description="The AWS region; by default the one that boto3 finds.")
    profile: Annotated[str, Field(min_length=1)] | None = Field(default=None, description="A profile of ~/.aws/config.")
    endpoint_url: str | None = Field(default=None, description="Another endpoint than the region's.")
    inference: Inference = Inference()
    prompt_caching: bool = Field(default=False, description="Mark what stays the same for the prompt cache of models that have one.")
    additional_fields: dict[str, Any] = Field(default={}, description="Fields of the model's own, such as Claude's thinking.")
    tools: bool = Field(default=True, description="False for models that cannot call tools; they get tags instead.")

    @field_validator("endpoint_url")
    @classmethod
    def _url(cls, url: str | None) -> str | None:
        if url is None:
            return None
        parts = urlsplit(url.strip())
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("is no http:// or https:// URL")
        _ = parts.port  # raises ValueError for one out of range
        if parts.username or parts.password:
            raise ValueError("holds credentials; they belong where AWS tools look for them")
        return url.strip()

    @field_validator("additional_fields")
    @classmethod
    def _json(cls, fields: dict[str, Any]) -> dict[str, Any]:
        try:
            json.dumps(fields, allow_nan=False)
        except TypeError as error:
            raise ValueError(f"holds what JSON cannot: {error}") from error
        return fields
