"""A provider as the core works with it: what its plugin raises and quotes harms no secret (pages 5 to 7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, get_args

from orchestrator.errors import EscaleraError, PluginError, ProviderError, foreign
from orchestrator.messages import is_json
from orchestrator.providers import Ask, Cancel, Capabilities, CheckResult, Event, Notice, Provider, Request, WireProfile
from orchestrator.settings.known import KnownSecrets

_PROFILES = get_args(WireProfile)
_FLAGS = [field.name for field in fields(Capabilities) if field.name not in ("profile", "context_window_tokens")]

BROKEN = "this is a fault of its plugin: tell whoever made it, `escalera plugins list` names it"


class Guarded:
    """Hands everything on. Errors, notices and results come without the secrets that are known by then."""

    def __init__(self, provider: Provider, known: KnownSecrets, *, agent: str) -> None:
        self._provider, self._known, self._agent = provider, known, agent
        self._sound: Capabilities | None = None

    @property
    def capabilities(self) -> Capabilities:
        """Raises `PluginError` where they are none, like all that is read here."""
        found = self._read("capabilities")
        if found is not self._sound:
            if (wrong := _wrong_in(found)) is not None:
                raise PluginError(f"agents.{self._agent}: its provider cannot be used: {wrong}", hint=BROKEN)
            self._sound = found
        return self._sound

    @property
    def model(self) -> str | None:
        return self._text("model")

    @property
    def config_dir(self) -> str | None:
        """`None` also where the provider has none."""
        return self._text("config_dir")

    def _text(self, name: str) -> str | None:
        found = self._read(name)
        if found is not None and not isinstance(found, str):
            raise PluginError(f"agents.{self._agent}: its provider cannot be used: its {name} is {type(found).__name__} instead of a text", hint=BROKEN)
        return found

    def _read(self, name: str) -> Any:  # any: strangers' code gives anything
        try:
            return getattr(self._provider, name, None)
        except (EscaleraError, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise PluginError(f"agents.{self._agent}: its provider cannot tell its {name}: {foreign(error)}", hint=BROKEN) from None

    def preview(self, request: Request) -> Mapping[str, Any]:
        """Built without secrets, so there is nothing to take out of it. Raises `PluginError` where there is none, or none that is JSON."""
        try:
            shown = dict(self._provider.preview(request))
        except (EscaleraError, KeyboardInterrupt):
            raise
        except BaseException as error:  # strangers' code
            raise PluginError(f"agents.{request.agent}: what would be sent cannot be told: {foreign(error)}", hint=BROKEN) from None
        if not is_json(shown):
            raise PluginError(f"agents.{request.agent}: what would be sent cannot be told: its provider's preview gives no JSON", hint=BROKEN)
        return shown

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

    def __getattr__(self, name: str) -> Any:  # what a provider may have besides: `close`
        return getattr(self._provider, name)

    def _clear(self, error: EscaleraError) -> None:
        """Of texts that are none too: a plugin makes its errors as it likes."""
        error.message = self._known.mask(str(error.message))
        error.args = (error.message,)
        error.hint = None if error.hint is None else self._known.mask(str(error.hint))
        if isinstance(error, ProviderError):
            error.partial = self._known.mask(str(error.partial))


def _wrong_in(capabilities: object) -> str | None:
    """What keeps them from being used."""
    if not isinstance(capabilities, Capabilities):
        return f"its capabilities are {type(capabilities).__name__} instead of Capabilities"
    for name in _FLAGS:
        if not isinstance(getattr(capabilities, name), bool):
            return f"its capabilities' {name} is neither true nor false"
    if capabilities.profile not in _PROFILES:
        return f"its capabilities' profile is none of {', '.join(_PROFILES)}"
    window = capabilities.context_window_tokens
    return None if window is None or (type(window) is int and window > 0) else "its capabilities' context_window_tokens is no number of tokens"
