"""Model servers on this machine that speak OpenAI's protocol: who listens, and which models they have."""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import json
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import SplitResult, urlsplit

USUAL = (
    ("Ollama", "http://127.0.0.1:11434/v1"),
    ("LM Studio", "http://127.0.0.1:1234/v1"),
    ("llama.cpp", "http://127.0.0.1:8080/v1"),
    ("vLLM", "http://127.0.0.1:8000/v1"),
)
"""Where the common ones listen unless told otherwise."""

SECONDS = 1.5
"""For connecting, and for the answer."""

_MOST_BYTES = 1_000_000
_LONGEST_NAME = 200
_NO_CHAT = ("embed", "rerank", "whisper", "bge-", "tts")
"""What names of models have in them that answer no question."""

ServerStatus = Literal["works", "no_models", "needs_key", "other", "absent"]


@dataclass(frozen=True, slots=True)
class Server:
    """One address and what was found there; `models` in the server's order."""

    name: str
    url: str
    status: ServerStatus
    models: tuple[str, ...] = ()
    detail: str = ""

    @property
    def chat_model(self) -> str | None:
        """The first model that looks as if it could hold a conversation."""
        return next((model for model in self.models if not any(mark in model.lower() for mark in _NO_CHAT)), None)


def candidates(environ: Mapping[str, str], configured: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Names and base URLs on loopback, each once: what is configured, where OLLAMA_HOST points, and the usual ports."""
    named = [("configured", versioned(url)) for url in configured if is_loopback(url)]
    ollama = ollama_url(environ.get("OLLAMA_HOST", ""))
    if ollama is not None and is_loopback(ollama):
        named.append(("Ollama", ollama))
    usual = {url: name for name, url in USUAL}
    by_url: dict[str, str] = {}
    for name, url in (*named, *USUAL):
        by_url.setdefault(url, usual.get(url, name))
    return [(name, url) for url, name in by_url.items()]


def ollama_url(setting: str) -> str | None:
    """The base URL that a value of OLLAMA_HOST means; `None` for none, and for one that cannot be read."""
    text = setting.strip().strip("\"'")
    if not text:
        return None
    parts = _split(text if "://" in text else f"http://{text}")
    if parts is None or parts.scheme not in ("http", "https"):
        return None
    default = (443 if parts.scheme == "https" else 80) if "://" in text else 11434
    host = parts.hostname or "127.0.0.1"
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  # an address to listen on, which cannot be asked
    return versioned(f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{parts.port or default}{parts.path}")


def versioned(url: str) -> str:
    """The base URL as the provider kind `openai` takes it: without a slash at its end, with `/v1` where it has no path."""
    bare = url.strip().rstrip("/")
    parts = _split(bare)
    return f"{bare}/v1" if parts is not None and not parts.path.strip("/") else bare


def is_loopback(url: str) -> bool:
    """Whether that address is on this machine and nowhere else."""
    parts = _split(url)
    host = (parts.hostname if parts is not None else None) or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def look_at(name: str, url: str) -> Server:
    """Ask for the list of models. One request, no redirect followed, no key sent, no proxy used."""
    parts = _split(url)
    if parts is None or parts.hostname is None or parts.scheme not in ("http", "https"):
        return Server(name, url, "absent", detail="this is no http:// or https:// URL")
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname, parts.port, timeout=SECONDS)
    try:
        with _shut_after(connection):
            connection.request("GET", f"{parts.path.rstrip('/')}/models", headers={"accept": "application/json"})
            response = connection.getresponse()
            return _answer(name, url, response.status, response.read(_MOST_BYTES))
    except OSError as error:
        return Server(name, url, "absent", detail=_reason(error))
    except (http.client.HTTPException, ValueError) as error:
        return Server(name, url, "other", detail=_reason(error))
    finally:
        connection.close()


@contextlib.contextmanager
def _shut_after(connection: http.client.HTTPConnection) -> Iterator[None]:
    """Connect, and shut the connection where it takes too long altogether: a trickle of bytes outwits every time-out between them."""
    connection.connect()
    socket_ = connection.sock
    timer = threading.Timer(SECONDS, lambda: _shut(socket_))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _shut(socket_: socket.socket) -> None:
    with contextlib.suppress(OSError):
        socket_.shutdown(socket.SHUT_RDWR)


def _answer(name: str, url: str, status: int, content: bytes) -> Server:
    if status in (401, 403):
        return Server(name, url, "needs_key", detail="it wants a key")
    models = _models(content) if status == 200 else None
    if models is None:
        return Server(name, url, "other", detail=f"something else answers there (HTTP {status})")
    return Server(name, url, "works" if models else "no_models", models, detail="" if models else "it has no models yet")


def _models(content: bytes) -> tuple[str, ...] | None:
    """The names in a list of models, but for those nobody could have meant; `None` for what is no such list."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return None
    listed = document.get("data") if isinstance(document, dict) and "data" in document else None
    if listed is None and isinstance(document, dict) and document.get("object") == "list":
        return ()  # Ollama without a model says `null`
    if not isinstance(listed, list):
        return None
    names = [entry.get("id") for entry in listed if isinstance(entry, dict)]
    return tuple(name for name in names if isinstance(name, str) and name.isprintable() and 0 < len(name) <= _LONGEST_NAME)


def _reason(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "nobody listens there"
    if isinstance(error, TimeoutError | http.client.RemoteDisconnected | http.client.IncompleteRead):
        return f"no answer within {SECONDS:g} s"
    return (error.strerror if isinstance(error, OSError) else None) or f"{type(error).__name__}: {error}"[:200]


def _split(url: str) -> SplitResult | None:
    """The parts of a URL with a port in range; `None` for one that cannot be taken apart or written down."""
    if not url.isprintable():
        return None
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts
