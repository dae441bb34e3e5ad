"""What went over the wire in the last turns: kept in a folder, bounded, without any secret that is known."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from orchestrator.logbook import Log
from orchestrator.providers import Wire
from orchestrator.settings.known import KnownSecrets
from orchestrator.store.files import PRIVATE_FILE, make_folder

HALF = 128 * 1024
"""Bytes that are kept of each side's beginning, and of its end."""
KEPT = 50
"""Turns."""
_SLACK = 5
"""How many more there may be before the oldest go, and after how many turns they are counted again: not every turn looks for them."""
CUT = b"\n[... cut ...]\n"


class Recording(Wire):
    """The last request of a turn and its answer. Each side is told by one thread at a time, and may be read by another."""

    def __init__(self) -> None:
        self._sent, self._received = _Ends(), _Ends()
        self.hidden: set[str] = set()

    def begin(self) -> None:
        self._sent, self._received = _Ends(), _Ends()

    def hide(self, *secrets: str) -> None:
        for secret in secrets:
            _require(secret, str)
        self.hidden.update(secrets)

    def sent(self, data: str | bytes) -> None:
        self._sent.add(data)

    def received(self, data: str | bytes) -> None:
        self._received.add(data)

    def sides(self, known: KnownSecrets) -> tuple[bytes, bytes]:
        """What was sent and what was received, without the secrets; both empty where no call was made."""
        return self._sent.content(known), self._received.content(known)


class _Ends:
    """The beginning and the end of a stream. While it comes, pieces are only put in a row; the middle is thrown away now and then."""

    def __init__(self) -> None:
        self._head: bytes | None = None
        self._pieces: list[str | bytes] = []
        self._size = 0

    def add(self, data: str | bytes) -> None:
        _require(data, str, bytes, bytearray)
        self._pieces.append(data)
        self._size += len(data)
        if self._size > 4 * HALF:
            self._throw_away()

    def content(self, known: KnownSecrets) -> bytes:
        """Where something was cut out, half a secret could stand at the edges: so much of them goes, too."""
        head, rest = self._head, _joined(self._pieces)
        if head is None and len(rest) <= 2 * HALF:
            return known.mask_bytes(rest)
        head, tail = known.mask_bytes(head or rest[:HALF]), known.mask_bytes(rest[-HALF:])
        return head[: len(head) - known.longest] + CUT + tail[known.longest :]

    def _throw_away(self) -> None:
        content = _joined(self._pieces)
        self._pieces, self._size = [content[-HALF:]], HALF
        self._head = self._head or content[:HALF]


def _require(told: object, *types: type) -> None:
    """Here, where the provider sees it, and not when the turn is over and its answer would be lost for it."""
    if not isinstance(told, types):
        raise TypeError(f"a wire is told {' or '.join(one.__name__ for one in types)}, not {type(told).__name__}")


def _joined(pieces: list[str | bytes]) -> bytes:
    return b"".join([_bytes(piece) for piece in tuple(pieces)])


@dataclass(frozen=True, slots=True)
class Exchanged:
    """A kept wire, read back."""

    sent: bytes
    received: bytes


class Wires:
    """The folder. What cannot be written there is a line in the log, and no more."""

    def __init__(self, folder: Path, known: KnownSecrets, log: Log) -> None:
        self._folder, self._known, self._log = folder, known, log
        self._since_counted = _SLACK

    def keep(self, session: str, turn: int, recording: Recording) -> None:
        """Write down what went over the wire in a turn, in the place of what was there of one with its number."""
        self._known.add(recording.hidden)
        sent, received = recording.sides(self._known)
        try:
            if not sent and not received:
                self._file(session, turn).unlink(missing_ok=True)
                return
            head = json.dumps({"format": 1, "sent": len(sent), "received": len(received)}).encode()
            with open(self._file(session, turn), "wb", opener=_opened) as file:
                file.write(b"\n".join([head, sent + received]))
            self._since_counted += 1
            if self._since_counted >= _SLACK:
                self._drop_oldest()
        except OSError as error:
            self._log("wire_not_kept", session=session, turn=turn, why=str(error.strerror or error))

    def read(self, session: str, turn: int) -> Exchanged | None:
        """What is kept of a turn; `None` where nothing is, or nothing that can be read."""
        try:
            head, _, content = self._file(session, turn).read_bytes().partition(b"\n")
            sent = int(json.loads(head)["sent"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return Exchanged(content[:sent], content[sent:])

    def turns(self, session: str) -> list[int]:
        """The turns of a session of which something is kept."""
        found = (path.stem.partition("-")[2] for path in self._folder.glob(f"{_name(session)}-*.wire"))
        return sorted(int(number) for number in found if number.isdecimal())

    def forget(self, session: str, first: int = 0) -> None:
        """Remove what is kept of a session's turns from that one on: they have left it."""
        for turn in self.turns(session):
            if turn >= first:
                with suppress(OSError):
                    self._file(session, turn).unlink()

    def files(self) -> list[Path]:
        """All that is kept, the newest first."""
        return sorted(self._folder.glob("*.wire"), key=_written, reverse=True)

    def _file(self, session: str, turn: int) -> Path:
        return self._folder / f"{_name(session)}-{turn}.wire"

    def _drop_oldest(self) -> None:
        self._since_counted = 0
        if sum(1 for _ in os.scandir(self._folder)) <= KEPT + _SLACK:
            return
        for path in self.files()[KEPT:]:
            path.unlink(missing_ok=True)


def _name(session: str) -> str:
    """A session's id may hold anything (trial T78): what stands in a file's name is made from it."""
    return hashlib.sha256(session.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _opened(path: str, flags: int) -> int:
    try:
        return os.open(path, flags, PRIVATE_FILE)
    except FileNotFoundError:
        make_folder(Path(path).parent)
        return os.open(path, flags, PRIVATE_FILE)


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _bytes(data: str | bytes) -> bytes:
    return data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
