"""What a check is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from orchestrator.providers import Capabilities
from orchestrator.testing.conformance.stage import Stage


class NotClaimed(Exception):
    """The provider does not do what the check is about; the text says what it does not do."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that a provider has to show. `name` is `capability.what`."""

    name: str
    shows: str
    """What holds where it passes, in one line."""
    run: Callable[[Stage], None]
    claim: Callable[[Capabilities], bool] = lambda _: True
    """Whether a provider with these capabilities has to show it."""
    needs: tuple[str, ...] = ("streaming.answer",)
    """Checks without which this one would only say the same again."""

    @property
    def capability(self) -> str:
        return self.name.partition(".")[0]


def streams(capabilities: Capabilities) -> bool:
    """The claim of checks about what comes piece by piece."""
    return capabilities.streams
