"""httpx without its command line, which loads rich and pygments: half of what the import takes."""

from __future__ import annotations

import sys

if "httpx" not in sys.modules:
    sys.modules["httpx._main"] = None  # type: ignore[assignment]  # what stands as None is not found, and httpx does without it

import httpcore
import httpx

if sys.modules.get("httpx._main", httpx) is None:
    del sys.modules["httpx._main"]

__all__ = ["httpcore", "httpx"]
