"""The calls of one turn: what each sends, and what is mended before it is sent again (page 7, Retries)."""

from __future__ import annotations

from dataclasses import replace

from orchestrator.dispatch.room import Batch, Room, next_request
from orchestrator.errors import BudgetExceeded, ContextOverflow, ProviderError
from orchestrator.history.budget import limit_chars, measure_request
from orchestrator.history.ratio import Ratio
from orchestrator.providers import Capabilities, Request
from orchestrator.settings.limits import Limits


class Requests:
    """Makes the request of each call, and a smaller one where the provider refused it for its size and said how small that is.

    Each kind of repair happens at most once a turn, and holds for its later calls.
    """

    def __init__(self, first: Request, limits: Limits, room: Room | None, capabilities: Capabilities) -> None:
        self.batches: list[Batch] = []
        """The rounds of tool calls so far."""
        self._first, self._limits, self._room, self._profile = first, limits, room, capabilities.profile
        self._window = limits.context_window_tokens or capabilities.context_window_tokens
        self._output_tokens = first.max_output_tokens
        self._refitted = self._lowered = self._toolless = False

    def next(self) -> Request:
        """The turn's first request with what was done since. Raises `BudgetExceeded` where even the newest round is too much."""
        request = next_request(self._first, self.batches, self._room, self._profile)
        return replace(request, max_output_tokens=self._output_tokens, tools=() if self._toolless else request.tools)

    def mended(self, error: ProviderError, refused: Request) -> tuple[Request, str] | None:
        """What to send instead, with what the user should know of it; `None` where nothing can be mended, or has been before."""
        mended = self._shorter(error, refused) or self._without_tools(error, refused)
        return self._smaller(error, refused) if mended is None and isinstance(error, ContextOverflow) else mended

    def _shorter(self, error: ProviderError, refused: Request) -> tuple[Request, str] | None:
        tokens = error.affordable_tokens
        if tokens is None or tokens < 1 or self._lowered:
            return None
        self._lowered, self._output_tokens = True, tokens
        return replace(refused, max_output_tokens=tokens), f"{refused.agent!r} gives at most {tokens:,} tokens of output now, and was asked again for so many"

    def _without_tools(self, error: ProviderError, refused: Request) -> tuple[Request, str] | None:
        if not error.tools_refused or not refused.tools:
            return None
        self._toolless = True
        agent = refused.agent
        told = f"{agent!r} takes no tools, and was asked again without them: `agents.{agent}.tools = false` saves the detour, and tells it how to do without"
        return replace(refused, tools=()), told

    def _smaller(self, error: ContextOverflow, refused: Request) -> tuple[Request, str] | None:
        """With a history that fits the window which the provider named, reckoned with what it counted."""
        limit = self._limit(error, refused)
        if limit is None or self._room is None or self._refitted:
            return None
        self._refitted, before = True, self._room
        self._room = replace(before, limit=limit)
        try:
            smaller = self.next()
        except BudgetExceeded:
            self._room = before
            return None
        told = f"{refused.agent!r} takes {error.limit:,} tokens and got {error.needed:,}: it was asked again with less history"
        known = error.limit == self._window
        return smaller, told if known else f"{told}; agents.{refused.agent}.limits.context_window_tokens = {error.limit} saves the detour"

    def _limit(self, error: ContextOverflow, refused: Request) -> int | None:
        """In characters; `None` where the numbers are not there, make no sense, or there is no history of ours to fit."""
        if refused.conversation is not None or error.limit is None or error.needed is None or not 0 < error.limit < error.needed:
            return None
        size = measure_request(refused)
        window = replace(self._limits, message_budget_chars=None, context_window_tokens=error.limit)
        return min(limit_chars(window, None, Ratio(size / error.needed, measured=True)) or 0, size - 1)
