"""How the provider kit tests this kind: the real model, whose words are its own. What only a script could play is not shown."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from orchestrator.errors import ProviderError
from orchestrator.messages import Usage
from orchestrator.testing.conformance import CannotPlay, Harness


class EmbeddedHarness(Harness):
    """The kind `embedded`: each answer is a short one, and one that goes on stands for one without end."""

    kind = "embedded"
    exact = False
    limit = 60.0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._tokens = 16

    def options(self) -> Mapping[str, object]:
        return {"context_window_tokens": 2048, "max_output_tokens": self._tokens}

    def answers(self, text: str, *, usage: Usage | None = None) -> None:
        if usage is None:
            return
        if usage.cost_usd is not None:
            raise CannotPlay("it costs nothing")

    def talks_on(self) -> None:
        self._tokens = 1024

    def hangs(self, text: str = "") -> None:
        """It never does; in the middle of a long answer it is near enough for a cancel."""
        if not text:
            raise CannotPlay("a model in this process never hangs")
        self.talks_on()

    def fails(self, error: type[ProviderError], *, retry_after: float | None = None) -> None:
        raise CannotPlay(f"a model in this process does not fail as {error.__name__} on demand")
