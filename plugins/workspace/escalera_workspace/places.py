"""Paths within the workspace: resolved once, then followed step by step without any link, so that nothing can change where they lead."""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from secrets import token_hex

from orchestrator.tools import ToolFailed

MAX_FILE = 10 * 1024 * 1024
"""Bytes of a file that is read or changed."""
MAX_PATH = 4096

_NO_LINK = os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | _NO_LINK
_KINDS = {stat.S_IFDIR: "a folder", stat.S_IFLNK: "a link", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
_SYSTEM = ("/proc", "/sys", "/dev")
"""What looks like files there is none: reading may tell secrets, or never end."""


@dataclass(frozen=True, slots=True)
class Place:
    """Somewhere in the workspace. No part of it was a link when it was resolved, none is `..`."""

    root: str
    """The workspace, absolute, links followed."""
    parts: tuple[str, ...]

    @property
    def name(self) -> str:
        """The path within the workspace, `.` for itself."""
        return "/".join(self.parts) or "."

    def below(self, name: str) -> Place:
        """What is called so in this folder."""
        return Place(self.root, (*self.parts, name))


@dataclass(frozen=True, slots=True)
class Content:
    """What a file held when it was read."""

    data: bytes
    mode: int
    owner: tuple[int, int]
    names: int
    """How many names it has: with more than one, some may be outside the workspace."""


def place_of(workspace: str, path: str) -> Place:
    """Where a path leads, relative to the workspace or absolute. Raises `ToolFailed` where that is outside."""
    if not path.strip() or "\0" in path or len(path) > MAX_PATH:
        raise ToolFailed(f"a path must have 1 to {MAX_PATH:,} characters, and no NUL among them")
    try:
        root = os.path.realpath(workspace, strict=True)
        real = os.path.realpath(os.path.join(root, path))
        inside = os.path.commonpath([root, real]) == root and not is_of_the_system(root, real)
    except UnicodeEncodeError as error:
        raise ToolFailed("that path is no proper text") from error
    except (OSError, ValueError) as error:
        raise ToolFailed(f"that path cannot be followed: {_said(error)}") from error
    if not inside:
        raise ToolFailed(f"{path!r:.300} leads out of the workspace, in which alone files can be read and written")
    return Place(root, tuple(part for part in os.path.relpath(real, root).split(os.sep) if part != os.curdir))


def is_of_the_system(root: str, real: str) -> bool:
    """Whether it lies in a folder that the kernel makes up, and the workspace does not."""
    return any(_is_in(real, folder) and not _is_in(root, folder) for folder in _SYSTEM)


@contextmanager
def failing(what: str) -> Iterator[None]:
    """What the system says of a place, as `ToolFailed` in which it has its name within the workspace."""
    try:
        yield
    except OSError as error:
        raise ToolFailed(f"{what}: {_said(error)}") from error


@contextmanager
def folder(place: Place, *, make: bool = False) -> Iterator[int]:
    """A descriptor of the folder, reached from the workspace step by step; with `make` what is missing of it is made. Raises `OSError`."""
    descriptor = os.open(place.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in place.parts:
            inner = _step(part, descriptor, make=make)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def read(place: Place, *, most: int = MAX_FILE) -> Content | None:
    """What a file holds; `None` where there is none. Raises `ToolFailed` for what is no plain file, or too large."""
    if not place.parts:
        raise ToolFailed(". is a folder, not a file")
    with failing(place.name):
        try:
            with folder(Place(place.root, place.parts[:-1])) as parent:
                return read_in(parent, place.parts[-1], place.name, most=most)
        except FileNotFoundError:
            return None


def read_in(parent: int, name: str, shown: str, *, most: int) -> Content | None:
    """The same, from the descriptor of its folder. Raises `OSError`, too."""
    try:
        seen = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
    _require_plain(seen, shown)
    # Without waiting: what was a file a moment ago may be a pipe by now.
    with os.fdopen(os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | _NO_LINK, dir_fd=parent), "rb", buffering=0) as file:
        held = os.fstat(file.fileno())
        _require_plain(held, shown)
        if held.st_size > most:
            raise ToolFailed(f"{shown} has {held.st_size:,} bytes; at most {most:,} are read at once")
        return Content(_all(file.fileno(), shown, most), stat.S_IMODE(held.st_mode), (held.st_uid, held.st_gid), held.st_nlink)


def replace(place: Place, data: bytes, before: Content | None) -> None:
    """Put the content in the file's place, whole or not at all: whoever is killed or out of room leaves the old file.

    Raises `ToolFailed` where the file is no longer what it was before. Other names of the old file keep the old content.
    """
    *above, name = place.parts
    with failing(f"{place.name} cannot be written, and is as it was"), folder(Place(place.root, tuple(above)), make=True) as parent:
        now = read_in(parent, name, place.name, most=MAX_FILE)
        if (None if now is None else now.data) != (None if before is None else before.data):
            raise ToolFailed(f"{place.name} has changed while the question stood; nothing was written. Read it again.")
        fresh = f".escalera-{token_hex(8)}"
        try:
            _write(parent, fresh, data, now)
            os.replace(fresh, name, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            with suppress(OSError):
                os.unlink(fresh, dir_fd=parent)
            raise
        with suppress(OSError):  # a file system that cannot do that for a folder has the name when it has it
            os.fsync(parent)


def entries(descriptor: int, most: int) -> tuple[Sequence[os.DirEntry[str]], bool]:
    """What is in a folder, by name, and whether there is more than that. Raises `OSError`."""
    found: list[os.DirEntry[str]] = []
    with os.scandir(descriptor) as scan:
        for entry in scan:
            if len(found) == most:
                return sorted(found, key=lambda one: one.name), True
            found.append(entry)
    return sorted(found, key=lambda one: one.name), False


def decoded(data: bytes) -> str | None:
    """The text of a file, as well as it can be read; `None` for one that is no text."""
    return None if b"\0" in data else data.decode("utf-8", "replace")


def lines_of(content: str) -> list[str]:
    """Its lines with their ends, as an editor counts them: no other character than the newline ends one."""
    return io.StringIO(content, newline="\n").readlines()


def visible(name: str) -> str:
    """A name as it can stand on a line, whatever is in it."""
    return name if name.isprintable() else name.encode("unicode_escape", "surrogatepass").decode("ascii")


def _step(part: str, descriptor: int, *, make: bool) -> int:
    try:
        return os.open(part, _FOLDER, dir_fd=descriptor)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):  # somebody was quicker, and it is opened like any other
        os.mkdir(part, dir_fd=descriptor)
    return os.open(part, _FOLDER, dir_fd=descriptor)


def _require_plain(seen: os.stat_result, shown: str) -> None:
    kind = stat.S_IFMT(seen.st_mode)
    if kind != stat.S_IFREG:
        raise ToolFailed(f"{shown} is {_KINDS.get(kind, 'a device')}, not a file")


def _all(descriptor: int, shown: str, most: int) -> bytes:
    pieces, size = [], 0
    while piece := os.read(descriptor, 1 << 20):
        pieces.append(piece)
        size += len(piece)
        if size > most:
            raise ToolFailed(f"{shown} grows while it is read; at most {most:,} bytes are read at once")
    return b"".join(pieces)


def _write(parent: int, name: str, data: bytes, before: Content | None) -> None:
    """With the mode and, where that is allowed, the owner of the file before it."""
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o666, dir_fd=parent)
    with os.fdopen(descriptor, "wb") as file:
        if before is not None:
            with suppress(PermissionError):
                os.fchown(descriptor, *before.owner)
            os.fchmod(descriptor, before.mode & 0o777)
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + os.sep)


def _said(error: OSError | ValueError) -> str:
    if isinstance(error, OSError) and error.errno in (errno.ELOOP, errno.ENOTDIR):
        return "a part of it is a link, or no folder; it may have changed just now"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
