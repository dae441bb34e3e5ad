"""Keeping artifacts of a turn: what is large enough to be one, and what became of it (page 5)."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

from orchestrator.artifacts import Artifact, ArtifactKind, ArtifactTerms
from orchestrator.errors import StoreError
from orchestrator.messages import Part, Text, ToolCall, ToolResult, well_formed
from orchestrator.store import Store


class Keeper:
    """Keeps the artifacts of one turn. None is worth a turn: what cannot be kept is told, and stays where it is said."""

    def __init__(self, store: Store, terms: ArtifactTerms, session: str, turn: int | None, new_id: Callable[[], str]) -> None:
        self._store, self._terms, self._session, self._turn, self._new_id = store, terms, session, turn, new_id
        self._tools: dict[str, str] = {}
        self._whole: set[str] = set()
        self.kept: list[Artifact] = []
        self.problems: list[str] = []

    def step(self, step: Part) -> None:
        """A step that is about to be stored: an artifact where it is large."""
        if isinstance(step, ToolCall):
            self._tools[step.id] = step.name
        elif isinstance(step, ToolResult) and step.id not in self._whole:
            self._large("tool_result", self._tools.get(step.id), step.content)
        elif isinstance(step, Text):
            self._large("answer", None, step.text)

    def whole(self, call: ToolCall, text: str) -> None:
        """All that a tool gave, of which the step that comes will have head and tail."""
        self._whole.add(call.id)
        self._large("tool_result", call.name, text)

    def file(self, name: str, content: bytes) -> None:
        """A file that goes with the prompt, of any size."""
        self._keep("file", name, content)

    def _large(self, kind: ArtifactKind, name: str | None, text: str) -> None:
        most = self._terms.inline_max
        if most is None or 4 * len(text) <= most:  # no character has more bytes
            return
        body = well_formed(text).encode()
        if len(body) > most:
            self._keep(kind, name, body)

    def _keep(self, kind: ArtifactKind, name: str | None, body: bytes) -> None:
        life = self._terms.life(self._store.now())
        digest = sha256(body).hexdigest()
        artifact = Artifact(self._new_id(), kind, digest, len(body), self._session, self._turn, name, life, not life.explicit)
        try:
            if self._store.add_artifact(artifact, body, self._terms.quota):
                self.kept.append(artifact)
            else:
                self._problem("there is no room for it (artifacts.quota)", kind, name)
        except StoreError as error:
            self._problem(error.message, kind, name)

    def _problem(self, why: str, kind: ArtifactKind, name: str | None) -> None:
        what = "answer" if kind == "answer" else f"{'file' if kind == 'file' else 'result of'} {name or 'a tool'}"
        self.problems.append(f"the {what} is no artifact: {why}")
