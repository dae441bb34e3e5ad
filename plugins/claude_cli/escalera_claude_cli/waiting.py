"""The child that waits for the next turn of its conversation, where the process of ours lives longer than one turn."""

from __future__ import annotations

import atexit
import threading
from dataclasses import dataclass

from escalera_claude_cli.child import Child
from escalera_claude_cli.environment import Repeats, own_repeats
from escalera_claude_cli.options import ClaudeOptions
from orchestrator.providers import Cancel, Conversation, Request


@dataclass(frozen=True, slots=True)
class Terms:
    """What a child was started for. Only a turn that wants exactly the same may have it; options and environment are one for all turns of an agent."""

    conversation: str
    session: str
    workspace: str
    system_text: str
    model: str | None
    repeats: Repeats
    unaccepted: bool
    """Whether it runs without what the workspace brings."""


def terms_of(options: ClaudeOptions, request: Request, conversation: Conversation, *, served: str | None = None) -> Terms:
    """The terms of a turn; `served` is the model of a first turn that named none, since the turns after it name that one."""
    model = options.model or conversation.model or served
    return Terms(
        conversation.id, request.session, request.workspace, conversation.system_text, model, own_repeats(request.retries_left), bool(request.unaccepted)
    )


class Waiting:
    """At most one child: that of the last turn. It is ended when the next turn wants another, when it waited too long, and on `close`."""

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._lock = threading.Lock()
        self._closed = False
        self._kept: tuple[Terms, Child] | None = None
        self._timer: threading.Timer | None = None

    def take(self, terms: Terms | None, cancel: Cancel | None = None) -> Child | None:
        """The child that waits, if it is there for these terms and has kept still since its last turn; else none waits any more.

        One that is not wanted has time to go by itself, but for a `cancel`: who waits here for its end is not to wait longer.
        """
        kept = self._exchange(None)
        if kept is None:
            return None
        if kept[0] == terms and kept[1].is_ready():
            return kept[1]
        stop_listening = (cancel or Cancel()).on_cancel(kept[1].end_soon)
        kept[1].finish()
        stop_listening()
        return None

    def keep(self, terms: Terms, child: Child) -> None:
        """Let a child wait, in the place of any other."""
        before = self._exchange((terms, child))
        if before is not None:
            before[1].finish()

    def close(self) -> None:
        """No child waits any more, now and later."""
        with self._lock:
            self._closed = True
        self.take(None)
        atexit.unregister(self.close)

    def _exchange(self, kept: tuple[Terms, Child] | None) -> tuple[Terms, Child] | None:
        """Put this in the place of what was kept, and give that; what comes after the close comes back at once."""
        with self._lock:
            if kept is not None and self._closed:
                return kept
            before, self._kept = self._kept, kept
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if kept is not None:
                self._timer = threading.Timer(self._longest, self._expire, [kept[1]])
                self._timer.daemon = True
                self._timer.start()
                atexit.unregister(self.close)
                atexit.register(self.close)  # for whoever goes without closing
            return before

    def _expire(self, child: Child) -> None:
        with self._lock:
            if self._kept is None or self._kept[1] is not child:
                return
            self._kept = None
        child.finish()
