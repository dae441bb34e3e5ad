"""The clocks of a turn, and the seconds between the steps of its end."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds, all of them. The three steps of an end stay together under the 6 s of page 7."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    """Seconds since 1970, against which the end of a usage limit is counted."""
    after_interrupt: float = 2.0
    after_sigint: float = 2.0
    after_term: float = 0.8
    after_result: float = 5.0
    """How long the child may take to go by itself after its result line; the turn stands either way."""
    longest_wait: float = 900.0
    """How long a child may wait for the next turn of its conversation."""
