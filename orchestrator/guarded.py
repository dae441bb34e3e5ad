"""A provider as the core works with it: what its plugin raises and quotes harms no secret (pages 5 to 7)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, get_args

from orchestrator.errors import ContextOverflow, EscaleraError, PluginError, ProviderError, Transient, foreign
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
        """Also of texts and figures that are none: a plugin makes its errors as it likes."""
        error.message = self._known.mask(_as_text(error.message))
        error.args = (error.message,)
        error.hint = None if error.hint is None else self._known.mask(_as_text(error.hint))
        if isinstance(error, ProviderError):
            error.partial = self._known.mask(error.partial) if isinstance(error.partial, str) else ""
            _drop_what_is_none(error)


def _as_text(given: object) -> str:
    """What stands where a text belongs; nothing of a stranger's is called to make one."""
    return given if isinstance(given, str) else f"({type(given).__name__} instead of a text)"


def _drop_what_is_none(error: ProviderError) -> None:
    """Figures that are none, as if they had not been given: retries, repairs and documents reckon with them."""
    error.agent = error.agent if isinstance(error.agent, str) else None
    error.own_retries = error.own_retries if _is_figure(error.own_retries, int) else 0
    error.affordable_tokens = error.affordable_tokens if _is_figure(error.affordable_tokens, int) else None
    if isinstance(error, Transient):
        error.retry_after = error.retry_after if _is_figure(error.retry_after, int, float) else None
    if isinstance(error, ContextOverflow):
        error.limit = error.limit if _is_figure(error.limit, int) else None
        error.needed = error.needed if _is_figure(error.needed, int) else None


def _is_figure(given: object, *types: type) -> bool:
    return type(given) in types and 0 <= given < math.inf  # type: ignore[operator]  # a number by its type


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
