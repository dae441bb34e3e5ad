"""The embedded model as a provider: a server of our own, spoken to like any other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from escalera_openrouter.provider import Endpoint, OpenAIProvider

from escalera_embedded.options import EmbeddedOptions
from escalera_embedded.server import Running, Servers, ServerSettings, program
from escalera_embedded.weights import model_file
from orchestrator.errors import PluginError
from orchestrator.providers import AgentContext, Ask, Cancel, Capabilities, CheckResult, Event, Request

_NOT_STARTED = "http://127.0.0.1:<port>/v1"
_SEED = 7
_AGAINST_LOOPS = {"repeat_penalty": 1.08, "repeat_last_n": 256}
"""Without it every second long answer of so small a model ends in one sentence over and over. The window is longer than an answer; a stronger
penalty keeps it from words that it needs."""


class EmbeddedProvider:
    """One agent on the embedded model. Loads nothing until `run`; the server is shared by all agents with the same model."""

    def __init__(self, options: EmbeddedOptions, context: AgentContext, servers: Servers) -> None:
        self._options = options
        self._agent = context.name
        self._servers = servers

    @property
    def capabilities(self) -> Capabilities:
        """No tools: so small a model cannot call them. Its chat template takes several system messages."""
        return Capabilities(takes_tools=False, takes_tags=False, profile="openai", context_window_tokens=self._options.context_window_tokens)

    @property
    def model(self) -> str | None:
        """The name of the file, `None` where the weights are missing."""
        try:
            return model_file(self._options.model_path).stem
        except PluginError:
            return None

    def preview(self, request: Request) -> Mapping[str, Any]:
        """The body that `run` sends; the port is chosen when the server starts."""
        return self._client(None, request).preview(request)

    def run(self, request: Request, *, cancel: Cancel, ask: Ask) -> Iterator[Event]:
        """Send one call, after starting the server if this is its first."""
        cancel.raise_if_set()
        settings = ServerSettings(model_file(self._options.model_path), self._options.threads, self._options.context_window_tokens)
        running = self._servers.get(settings, cancel)
        yield from self._client(running, request).run(request, cancel=cancel, ask=ask)

    def check(self) -> CheckResult:
        """Whether program and weights are there; the weights are not loaded."""
        try:
            program()
            path = model_file(self._options.model_path)
        except PluginError as error:
            return CheckResult(False, "not_installed", error.message, error.hint)
        return CheckResult(True, "works", f"{path.name}, in this process")

    def _client(self, running: Running | None, request: Request) -> OpenAIProvider:
        from pydantic import SecretStr

        url = running.url if running is not None else _NOT_STARTED
        endpoint = Endpoint(
            agent=self._agent,
            chat_url=f"{url}/chat/completions",
            models_url=f"{url}/models",
            model=self.model,
            api_key=SecretStr(running.key if running is not None else "not-started"),
            whole_at_limit=True,
            fields={"temperature": self._options.temperature, "seed": _SEED, "max_tokens": self._output_limit(request), **_AGAINST_LOOPS},
        )
        return OpenAIProvider(endpoint, self.capabilities)

    def _output_limit(self, request: Request) -> int:
        limit = self._options.max_output_tokens
        return limit if request.max_output_tokens is None else min(limit, request.max_output_tokens)
