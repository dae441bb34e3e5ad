"""The options that agents of these two kinds take."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import urlsplit, urlunsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

OPENROUTER = "https://openrouter.ai/api/v1"

_HEADER_TEXT = re.compile(r"[\x20-\x7e]*")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_PLAIN_HOST = re.compile(r"[a-z0-9._-]+")
_NO_URL = "holds characters that no URL may hold"
_RESERVED = frozenset({"messages", "stream", "model"})


def _header_value(secret: SecretStr) -> SecretStr:
    """A secret that can travel in a header; the blanks and line ends that come with pasting are taken off."""
    value = secret.get_secret_value().strip()
    if not value:
        raise ValueError("is empty")
    if not _HEADER_TEXT.fullmatch(value):
        raise ValueError("holds characters that no HTTP header may hold; only visible ASCII can be used")
    return SecretStr(value)


HeaderSecret = Annotated[SecretStr, AfterValidator(_header_value)]


class _HttpOptions(BaseModel):
    """What both kinds take."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    model: str | None = Field(default=None, description="The model, as the server calls it.")
    api_key: HeaderSecret | None = Field(default=None, description='The key, sent as a bearer token; best as { env = "NAME" }.')
    token_cmd: list[str] = Field(default=[], description="A command whose standard output is the bearer token; run for every call, without a shell.")
    headers: dict[str, HeaderSecret] = Field(default={}, description="Further headers, treated as secret (Azure: api-key).")
    chat_path: str | None = Field(default=None, description="The path after base_url, instead of /chat/completions; base_url is then used as it stands.")
    tls_ca: Path | None = Field(default=None, description="A file with the certificates to trust instead of the usual ones.")
    body: dict[str, Any] = Field(default={}, description="Fields added to every request: temperature, max_completion_tokens, …")
    tools: bool = Field(default=True, description="False for models that cannot call tools; they get tags instead.")
    strict_roles: bool = Field(default=False, description="True for chat templates that want one system message and strictly alternating roles.")

    @field_validator("headers")
    @classmethod
    def _header_names(cls, headers: dict[str, SecretStr]) -> dict[str, SecretStr]:
        for name in headers:
            if not _HEADER_NAME.fullmatch(name):
                raise ValueError(f"{name!r} is no header name")
        return headers

    @field_validator("chat_path")
    @classmethod
    def _path(cls, path: str | None) -> str | None:
        if path is not None and not path.isprintable():
            raise ValueError(_NO_URL)
        return path

    @field_validator("body")
    @classmethod
    def _free_fields(cls, body: dict[str, Any]) -> dict[str, Any]:
        if taken := sorted(_RESERVED & body.keys()):
            raise ValueError(f"{', '.join(taken)} cannot be set here")
        try:
            json.dumps(body, allow_nan=False)
        except TypeError as error:
            raise ValueError(f"holds what JSON cannot: {error}") from error
        return body

    @model_validator(mode="after")
    def _one_credential(self) -> Self:
        if self.api_key is not None and self.token_cmd:
            raise ValueError("api_key and token_cmd exclude each other")
        return self


class OpenAIOptions(_HttpOptions):
    """Options of `provider = "openai"`: any server that speaks OpenAI's chat completions."""

    base_url: str = Field(description="Where the server is; with or without /v1 and a slash at the end.")
    replay_reasoning: bool = Field(
        default=False, description="True for servers that want the reasoning of a tool-calling answer back (DeepSeek); others refuse the field."
    )

    @field_validator("base_url")
    @classmethod
    def _url(cls, url: str) -> str:
        return checked_url(url)


class OpenRouterOptions(_HttpOptions):
    """Options of `provider = "openrouter"`."""

    base_url: str = Field(default=OPENROUTER, description="Where OpenRouter is, or a proxy before it.")
    provider_routing: dict[str, Any] = Field(default={}, description="OpenRouter's `provider` object: order, only, ignore, data_collection, …")
    models: list[str] = Field(default=[], description="Models to fall back to, in order.")

    @field_validator("base_url")
    @classmethod
    def _url(cls, url: str) -> str:
        return checked_url(url)

    @model_validator(mode="after")
    def _some_model(self) -> Self:
        if not self.model and not self.models:
            raise ValueError("model (or models) is needed")
        return self


def checked_url(url: str) -> str:
    """The URL, if it is one of http or https without credentials in it."""
    url = url.strip()
    if not url.isprintable():
        raise ValueError(_NO_URL)
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("is no http:// or https:// URL")
    _ = parts.port  # raises ValueError for one out of range
    if parts.username or parts.password:
        raise ValueError("holds credentials; put them into api_key or headers")
    if not _is_host(parts.hostname):
        raise ValueError(f"names a host that cannot be: {parts.hostname!r}")
    return url


def _is_host(name: str) -> bool:
    """Whether the HTTP library takes a name or address; it is asked only about what is not plain, since loading it takes time."""
    if _PLAIN_HOST.fullmatch(name) and "xn--" not in name:
        return True
    from escalera_openrouter.http import httpx

    try:
        return bool(httpx.URL(scheme="https", host=name).host)
    except (httpx.InvalidURL, ValueError):
        return False


def versioned(base_url: str, *, bare: tuple[str, ...] = ("",)) -> str:
    """The base URL without a slash at its end; where its path is one of `bare`, `/v1` is added.

    So `http://host:8080`, `http://host:8080/` and `http://host:8080/v1/` mean the same, and a path of one's own stays. So does a query.
    """
    parts = urlsplit(base_url)
    path = parts.path.rstrip("/")
    return urlunsplit(parts._replace(path=path + "/v1" if path in bare else path, fragment=""))


def below(base_url: str, path: str) -> str:
    """The URL of something below the base URL; what the one or the other asks for by its query is asked for."""
    parts = urlsplit(base_url)
    name, _, query = path.partition("?")
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{name.lstrip('/')}", query="&".join(filter(None, (parts.query, query))), fragment=""))
