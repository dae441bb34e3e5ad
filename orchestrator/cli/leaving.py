"""The end of the program: its work is done, and no thread of a plugin keeps it."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from typing import NoReturn

GRACE = 7.0
"""Seconds for threads that Python would wait for: a provider may take six of them to end its program (page 7)."""


def leave(code: int, *, grace: float = GRACE) -> NoReturn:
    """Exit with that code, as any program does; where threads are left that do not end, after a while without them."""
    if any(not thread.daemon and thread is not threading.main_thread() for thread in threading.enumerate()):
        threading.Thread(target=_cut_off, args=(code, grace), name="leaving", daemon=True).start()
    sys.exit(code)


def _cut_off(code: int, grace: float) -> None:
    """Comes to nothing where the program has ended by then."""
    time.sleep(grace)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)
