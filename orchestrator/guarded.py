"""A provider as the core works with it: what its plugin raises and quotes harms no secret (pages 5 to 7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from orchestrator.errors import EscaleraError, PluginError, ProviderError, foreign
from orchestrator.providers import Ask, Cancel, Capabilities, CheckResult, Event, Notice, Provider, Request
from orchestrator.settings.known import KnownSecrets

BROKEN = "this is a fault of its plugin: tell whoever made it, `escalera plugins list` names it"


class Guarded:
    """Hands everything on. Errors, notices and results come without the secrets that are known by then."""

    def __init__(self, provider: Provider, known: KnownSecrets) -> None:
        self._provider, self._known = provider, known

    @property
    def capabilities(self) -> Capabilities:
        return self._provider.capabilities

    @property
    def model(self) -> str | None:
        return self._provider.model

    def preview(self, request: Request) -> Mapping[str, Any]:
        """Built without secrets, so there is nothing to take out of it. Raises `PluginError` where there is none."""
        try:
            return dict(self._provider.preview(request))
        except (EscaleraError, KeyboardInterrupt):
            raise
        except BaseException as error:  # strangers' code
            raise PluginError(f"agents.{request.agent}: what would be sent cannot be told: {foreign(error)}", hint=BROKEN) from None

    def run(self, request: Request, *, cancel: Cancel, ask: Ask) -> Iterator[Event]:
        events = None
        try:
            given = self._provider.run(request, cancel=cancel, ask=ask)
            if not isinstance(given, Iterable):
                raise PluginError(f"agents.{request.agent}: its provider's run gave {type(given).__name__} instead of events", hint=BROKEN)
            events = iter(given)
            for event in events:
                yield replace(event, text=self._known.mask(event.text)) if isinstance(event, Notice) and isinstance(event.text, str) else event
        except EscaleraError as error:
            self._clear(error)
            raise
        finally:
            close = getattr(events, "close", None)
            if close is not None:
                close()

    def check(self) -> CheckResult:
        try:
            result = self._provider.check()
        except EscaleraError as error:
            self._clear(error)
            raise
        if not isinstance(result, CheckResult):
            return result
        return replace(result, detail=self._known.mask(str(result.detail)), hint=None if result.hint is None else self._known.mask(str(result.hint)))

    def __getattr__(self, name: str) -> Any:  # what a provider may have besides: `config_dir`, `close`
        return getattr(self._provider, name)

    def _clear(self, error: EscaleraError) -> None:
        error.message = self._known.mask(error.message)
        error.args = (error.message,)
        error.hint = None if error.hint is None else self._known.mask(error.hint)
        if isinstance(error, ProviderError):
            error.partial = self._known.mask(error.partial)
