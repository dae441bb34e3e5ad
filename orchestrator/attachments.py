"""Files that go with a prompt: in its text, told apart from it, and only named where the turn is history."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from orchestrator.quoting import fenced, one_line

_EMPTY = "(empty)"
_HEAD = re.compile(
    r"^File (?P<name>[^\n]{1,300}) \((?P<size>[\d,]{1,12}) bytes, sha256 (?P<sha256>[0-9a-f]{16})\):\n(?:(?P<fence>~{3,})\n|\(empty\)$)", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file as it is named in a prompt."""

    name: str
    size: str
    sha256: str
    """The first 16 digits."""


def with_attachments(prompt: str, files: Sequence[tuple[str, bytes, str]]) -> str:
    """The prompt, and behind it each file under its name, size and hash, fenced so that its end is clear: (name, content, text)."""
    return "\n\n".join([prompt, *(_set_in(name, content, text) for name, content, text in files)])


def without_attachments(prompt: str) -> str:
    """What the user said, without the files that go with it."""
    return "".join(part for part in _parts(prompt) if isinstance(part, str)).rstrip("\n")


def referenced(prompt: str) -> str:
    """The prompt with a line in each file's place, which names it: how it stands in the history. The text stays with its turn."""
    return "".join(part if isinstance(part, str) else _reference(part) for part in _parts(prompt))


def _set_in(name: str, content: bytes, text: str) -> str:
    sha256 = hashlib.sha256(content).hexdigest()[:16]
    return f"File {one_line(name, 300)} ({len(content):,} bytes, sha256 {sha256}):\n{fenced(text) or _EMPTY}"


def _reference(file: Attachment) -> str:
    return f"(The file {file.name}, {file.size} bytes, sha256 {file.sha256}, was attached here; its text is not repeated.)"


def _parts(prompt: str) -> Iterator[str | Attachment]:
    """The texts and the files, in order. Whoever writes such a block by hand has it taken for one, which reveals nothing and hides nothing."""
    if "File " not in prompt:  # nearly always
        yield prompt
        return
    start, ends = 0, _Ends(prompt)
    while (head := _HEAD.search(prompt, start)) is not None:
        end = head.end() if head["fence"] is None else ends.behind(head["fence"], head.end())
        yield prompt[start : head.start() if end is not None else head.end()]
        if end is not None:
            yield Attachment(head["name"], head["size"], head["sha256"])
        start = head.end() if end is None else end
    yield prompt[start:]


class _Ends:
    """Where fences end. One that was looked for in vain is not looked for again, so that the work stays linear, whatever the text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._missing: set[str] = set()

    def behind(self, fence: str, start: int) -> int | None:
        if fence in self._missing:
            return None
        found = re.compile(f"^{fence}$", re.MULTILINE).search(self._text, start)
        if found is None:
            self._missing.add(fence)
            return None
        return found.end()
