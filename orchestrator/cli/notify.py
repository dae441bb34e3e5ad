"""Telling a program of the user's that an answer or a question has come (`notify.command`)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from orchestrator.errors import ConfigError
from orchestrator.messages import well_formed

if TYPE_CHECKING:
    from orchestrator.documents.kinds.diagnosis import NotificationDocument

SECONDS = 10.0
"""That it may take; then it is ended, with all it has started."""
GRACE = 2.0
"""Seconds that one which still runs gets when Escalera ends."""
_MOST = 200
"""Characters of the text that it is told."""

Happening = Literal["question", "answer", "failed"]


class Notifier:
    """Starts the command, if there is one, and goes on at once. What goes wrong with it is told, once."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        environ: Mapping[str, str],
        cwd: str,
        tell: Callable[[str], None],
        require_accepted: Callable[[], None] = lambda: None,
        seconds: float = SECONDS,
        grace: float = GRACE,
    ) -> None:
        """`require_accepted` raises `ConfigError` where the command must not run, and is asked each time: files change while a chat goes on."""
        self._require_accepted = require_accepted
        self._seconds, self._grace = seconds, grace
        self._command, self._environ, self._cwd, self._tell = list(command), dict(environ), cwd, tell
        self._running: dict[threading.Thread, subprocess.Popen[bytes] | None] = {}
        self._lock = threading.Lock()
        self._has_told = self._is_closed = False

    def __call__(self, event: Happening, *, session: str, agent: str, text: str) -> None:
        if not self._command:
            return
        content = json.dumps(notification(event, session=session, agent=agent, text=text)).encode() + b"\n"
        thread = threading.Thread(target=self._run, args=(content,), name="notify", daemon=True)
        with self._lock:
            self._running[thread] = None
        thread.start()

    def close(self) -> None:
        """Let what still runs come to its end, or end it."""
        with self._lock:
            threads = list(self._running)
        for thread in threads:
            thread.join(self._grace)
        with self._lock:
            self._is_closed = True
            left = [process for process in self._running.values() if process is not None]
        for process in left:
            _kill(process)

    def _run(self, content: bytes) -> None:
        try:
            self._require_accepted()
            problem = self._problem(content)
        except ConfigError as error:
            problem = f"is not run: {error.message}; {error.hint}"
        except (OSError, ValueError) as error:  # ValueError: a NUL character in a word
            problem = f"cannot be run: {getattr(error, 'strerror', None) or error}"
        finally:
            with self._lock:
                del self._running[threading.current_thread()]
        with self._lock:
            is_news = problem is not None and not self._has_told and not self._is_closed
            self._has_told = self._has_told or is_news
        if is_news:
            self._tell(f"notify.command: {self._command[0]!r} {problem}")

    def _problem(self, content: bytes) -> str | None:
        """Run it: what went wrong, if anything did."""
        nothing = subprocess.DEVNULL
        process = subprocess.Popen(
            self._command, env=self._environ, cwd=self._cwd, stdin=subprocess.PIPE, stdout=nothing, stderr=nothing, start_new_session=True
        )
        with self._lock:
            self._running[threading.current_thread()] = process
            is_late = self._is_closed
        if is_late:
            _kill(process)
        try:
            process.communicate(content, timeout=self._seconds)
        except subprocess.TimeoutExpired:
            _kill(process)
            process.wait()
            return f"was not done after {self._seconds:g} s and was ended"
        return None if process.returncode == 0 else f"ended with exit code {process.returncode}"


def notification(event: Happening, *, session: str, agent: str, text: str) -> NotificationDocument:
    """What the command is told on its standard input."""
    line = " ".join(well_formed(text[: 4 * _MOST]).split())
    short = line if len(line) <= _MOST else line[: _MOST - 1] + "…"
    return {"format": "escalera.notification/1", "event": event, "session": session, "agent": agent, "text": short}


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
