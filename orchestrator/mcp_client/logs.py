"""The log of the MCP SDK: it tells what the other side says wrong, with what it said, which is for nobody's terminal."""

from __future__ import annotations

import logging


def silence() -> None:
    for name in ("mcp", "httpx2", "httpcore2"):
        logger = logging.getLogger(name)
        logger.propagate = False
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())
