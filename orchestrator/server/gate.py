"""Who may come in: names and origins that are ours, a bearer token, and bodies of a bounded size that come in time."""

from __future__ import annotations

import asyncio
import hmac
import re
from collections.abc import Callable, Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchestrator.errors import InternalError
from orchestrator.server.idle import Idleness
from orchestrator.server.problems import Refused, problem, refused

BODY_SECONDS = 30.0
"""How long a body may take to come."""

_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)(:\d{1,5})?")


class Gate:
    """In front of everything else, so that nothing is done for whoever is refused.

    A page of another origin is refused by its `Origin`, and one whose name was made to lead here (DNS rebinding) by its `Host`.
    """

    def __init__(self, app: ASGIApp, *, token: str, hosts: Collection[str], body_max: int, idleness: Idleness, crashed: Callable[[Exception], object]) -> None:
        """`crashed` is told of a fault of ours, which the client is told of without its words."""
        self._app, self._token, self._body_max, self._idleness, self._crashed = app, token.encode(), body_max, idleness, crashed
        self._hosts = {name.lower() for name in (*_LOOPBACK, *hosts)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        self._idleness.begins()
        try:
            await self._pass(scope, receive, send)
        finally:
            self._idleness.ends()

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        try:
            self._check_host(headers)
            self._check_origin(headers, scope["scheme"])
            self._check_token(headers)
            self._check_length(headers)
        except Refused as error:
            await refused(error)(scope, receive, send)
            return
        answer = _Answer(send)
        try:
            await self._app(scope, _Body(receive, self._body_max).receive, answer.send)
        except Exception as fault:  # whatever it is: one request fails, and the log has it
            self._crashed(fault)
            if not answer.begun:
                await problem(InternalError(f"a fault in Escalera itself ({type(fault).__name__})", hint="the log has the details"))(scope, receive, send)

    def _check_host(self, headers: Headers) -> None:
        hosts = headers.getlist("host")
        match = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
        if match is None or match["name"].lower() not in self._hosts:
            raise Refused(421, "this server is not addressed under that name", hint="use a loopback name, or add the name to server.hosts")

    @staticmethod
    def _check_origin(headers: Headers, scheme: str) -> None:
        origin = headers.get("origin")
        if origin is None:
            return
        parts = urlsplit(origin) if origin != "null" else None
        if parts is None or parts.netloc.lower() != headers["host"].lower() or parts.scheme != scheme:
            raise Refused(403, "pages of another origin may not use this server")

    def _check_token(self, headers: Headers) -> None:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode("latin-1", "replace"), self._token):
            return
        hint = "send it as `Authorization: Bearer TOKEN`; `escalera serve` says in which file it is"
        raise Refused(401, "the bearer token is missing or wrong", hint=hint, code="invalid_api_key", headers={"www-authenticate": "Bearer"})

    def _check_length(self, headers: Headers) -> None:
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or int(length) > self._body_max:
            raise _too_large(self._body_max)


class _Body:
    """A request's body, counted as it comes."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive, self._most = receive, most
        self._seen = 0
        self._whole = False

    async def receive(self) -> Message:
        if self._whole:  # from here on only the client's going away is waited for
            return await self._receive()
        try:
            async with asyncio.timeout(BODY_SECONDS):
                message = await self._receive()
        except TimeoutError as error:
            raise Refused(408, "the body did not come in time", headers={"connection": "close"}) from error
        self._seen += len(message.get("body", b""))
        self._whole = not message.get("more_body", False)
        if self._seen > self._most:
            raise _too_large(self._most)
        return message


class _Answer:
    """Whether an answer was begun: then it cannot be another one any more."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.begun = False

    async def send(self, message: Message) -> None:
        self.begun = True
        await self._send(message)


def _too_large(most: int) -> Refused:
    return Refused(413, f"a body has at most {most:,} bytes here (server.body_max)", headers={"connection": "close"})
