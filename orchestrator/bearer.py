"""The bearer token of the servers: one for each data folder, in a file that nobody else can read."""

from __future__ import annotations

import os
import secrets
import stat
import sys
from pathlib import Path

from orchestrator.errors import ConfigError

FILE = "server-token"


def read_or_make(folder: Path) -> str:
    """The token in that folder's file, which is made where there is none. Raises `ConfigError` for one that others can read, or that is none."""
    path = folder / FILE
    try:
        if not path.exists():
            _make(path)
        return _read(path)
    except OSError as error:
        raise ConfigError(f"the token in {path} cannot be used: {error.strerror or error}") from error


def _make(path: Path) -> None:
    """Written whole, and over nothing: of two processes the first has its way."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(f"{secrets.token_urlsafe(32)}\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(beside, path)
    except FileExistsError:
        return
    finally:
        beside.unlink(missing_ok=True)


def _read(path: Path) -> str:
    status = path.stat()
    if sys.platform != "win32" and (status.st_mode & (stat.S_IRWXG | stat.S_IRWXO) or status.st_uid != os.geteuid()):
        raise ConfigError(f"others can read {path}, which holds the server's token", hint="remove it: a new one is made, which clients then need")
    token = path.read_bytes()[:1000].decode("ascii", "replace").strip()
    if len(token) < 16 or not token.isprintable() or " " in token or "\ufffd" in token:
        raise ConfigError(f"there is no token in {path}", hint="remove it: a new one is made, which clients then need")
    return token
