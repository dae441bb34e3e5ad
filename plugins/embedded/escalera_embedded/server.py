"""The llama.cpp servers of this process, one for each model that is in use."""

from __future__ import annotations

import atexit
import secrets
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.errors import PluginError
from orchestrator.providers import Cancel

_QUIET = -1
"""The level below errors: llama.cpp writes to the process's own stderr otherwise."""

_CACHE_MIB = 256
"""Memory for prompts seen before; the library's own default is 8 GiB."""

_POLL = 0.05


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What makes two agents need the same server."""

    model: Path
    threads: int
    context_window_tokens: int


@dataclass(frozen=True, slots=True)
class Running:
    """A server that answers."""

    url: str
    """With `/v1`."""
    key: str = field(repr=False)


class Servers:
    """Starts each server at its first use and shares it from then on; all end with the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._starting: dict[ServerSettings, _Starting] = {}

    def get(self, settings: ServerSettings, cancel: Cancel) -> Running:
        """The server for these settings. Loading takes a second or more: a cancelled turn does not wait for it, the next one finds it done.

        Raises `PluginError` when the model cannot be loaded, `Cancelled`.
        """
        with self._lock:
            if not self._starting:
                atexit.register(self.close)
            starting = self._starting.get(settings)
            if starting is None:
                starting = self._starting[settings] = _Starting(settings)
        while not starting.done.wait(_POLL):
            cancel.raise_if_set()
        if starting.running is None:
            with self._lock:
                self._starting.pop(settings, None)  # it is tried anew next time
            raise starting.problem
        return starting.running

    def close(self) -> None:
        """End all servers and free their memory."""
        with self._lock:
            starting, self._starting = list(self._starting.values()), {}
        atexit.unregister(self.close)
        for one in starting:
            one.close()


class _Starting:
    """One server on its way, in a thread of its own."""

    def __init__(self, settings: ServerSettings) -> None:
        self.done = threading.Event()
        self.running: Running | None = None
        self.problem = PluginError(f"{settings.model} cannot be loaded by llama.cpp.", hint="Is it a whole GGUF file, and is there memory for it?")
        """What it means that `running` is not there."""
        self._server: object | None = None
        self._thread = threading.Thread(target=self._start, args=(settings,), name="escalera-embedded", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._thread.join()
        self._server = None  # its destructor stops the listener and the inference

    def _start(self, settings: ServerSettings) -> None:
        try:
            xllamacpp = program()
            key = secrets.token_urlsafe(24)
            server = xllamacpp.Server(_parameters(settings, key))
            self._server, self.running = server, Running(f"{server.listening_address}/v1", key)
        except PluginError as error:
            self.problem = error
        except RuntimeError:
            pass  # `problem` says it already
        finally:
            self.done.set()


def program() -> Any:  # xllamacpp has no types
    """llama.cpp as a module. Raises `PluginError` where it, or a system library that it needs, is missing."""
    try:
        import xllamacpp
    except ImportError as error:
        raise PluginError(f"llama.cpp cannot be loaded: {error}", hint=_how_to_get(str(error))) from error
    return xllamacpp


def _how_to_get(problem: str) -> str:
    if "libgomp" in problem:
        return "install the GNU OpenMP library: apt-get install libgomp1"
    return "install it again: pip install --force-reinstall xllamacpp"


def _parameters(settings: ServerSettings, key: str) -> Any:  # xllamacpp has no types
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(settings.model)
    parameters.model_alias = {settings.model.stem}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.api_keys = [key]
    parameters.n_ctx = settings.context_window_tokens
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = settings.threads
    parameters.n_threads_http = 2
    parameters.cache_ram_mib = _CACHE_MIB
    parameters.warmup = False
    parameters.endpoint_slots = False
    parameters.verbosity = _QUIET
    return parameters
