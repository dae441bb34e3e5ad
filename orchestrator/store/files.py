"""The store's files: their names, and that nobody else may read them (page 1: files 0600, folders 0700)."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
SIDES = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside a database, by the ending of its name."""


@dataclass(frozen=True, slots=True)
class Files:
    """Where everything lies under the data folder."""

    folder: Path

    @property
    def database(self) -> Path:
        return self.folder / "escalera.db"

    @property
    def lock(self) -> Path:
        """Held while the store is opened for writing or rescued."""
        return self.folder / "escalera.lock"

    @property
    def owners(self) -> Path:
        """One locked file for each living store object that may write."""
        return self.folder / "owners"

    @property
    def backups(self) -> Path:
        return self.folder / "backups"

    @property
    def archive(self) -> Path:
        """The percepts that left the store (page 4)."""
        return self.folder / "memory" / "global-archive.jsonl"

    def beside(self, ending: str) -> Path:
        """The database's side file with that ending."""
        return self.folder / f"escalera.db{ending}"


def make_folder(folder: Path) -> None:
    """The folder and its missing parents, for the user alone; one that is there keeps its mode. Raises `OSError`."""
    if folder.is_dir():
        return
    if folder.parent != folder:
        make_folder(folder.parent)
    try:
        folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from error


def refuse_folder(path: Path) -> None:
    """Raises `IsADirectoryError` for a folder where a file is wanted: SQLite would only say that it cannot open it."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))


def make_private(path: Path) -> None:
    """An empty file for the user alone; one that is there is only tightened. Raises `OSError`.

    A file that is there is never opened: closing it would drop the locks that SQLite holds on it in this process.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE_FILE))
    except FileExistsError:
        if path.stat().st_mode & 0o077:
            path.chmod(PRIVATE_FILE)


def size(path: Path) -> int:
    """Bytes; 0 where there is no such file."""
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return 0


def present(path: Path) -> bool:
    """Whether there is such a file; unlike `Path.exists` it raises `OSError` when that cannot be known."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True
