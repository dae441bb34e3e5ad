"""What the user has allowed when a tool asked, for as long as a session or for good: the record of it (docs/tools.md)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from orchestrator.errors import Ambiguous, NotFound
from orchestrator.settings.writing import locked, replace_file
from orchestrator.workspaces import same_workspace

FORMAT = "escalera.grants/1"

MOST_OF_SESSIONS = 1000
"""So many of those that count in one session are kept; the oldest go first."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A rule that allows, for one agent in one workspace."""

    id: str
    agent: str
    workspace: str
    rule: str
    """As it is written in settings, such as `run(git status *)`."""
    session: str | None
    """The session in which it counts; `None` for every one."""
    created: str
    """RFC 3339, in UTC."""

    def counts(self, *, agent: str, workspace: str, session: str) -> bool:
        """Whether it does so there."""
        return self.agent == agent and self.session in (None, session) and same_workspace(self.workspace, workspace)


class GrantStore:
    """All of them, in one file in the state folder: what may be done on this machine is this machine's affair, and in no export or backup of sessions."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def list(self) -> Sequence[Grant]:
        """Oldest first. A record that cannot be read allows nothing."""
        try:
            document = json.loads(self._path.read_bytes())
        except (OSError, ValueError, RecursionError):
            return []
        found = document.get("grants") if isinstance(document, dict) and document.get("format") == FORMAT else None
        return [grant for item in (found if isinstance(found, list) else ()) if (grant := _grant(item)) is not None]

    def add(self, grant: Grant) -> None:
        """Keep it, unless the same is there. Raises `ConfigError` where it cannot be kept."""
        with locked(self._lock):
            before = self.list()
            if not any(_same(grant, other) for other in before):
                self._write([*before, grant])

    def revoke(self, refs: Sequence[str]) -> Sequence[Grant]:
        """Take back those with these ids or unique beginnings of one; all of them or none. Raises `NotFound`, `Ambiguous`, `ConfigError`."""
        with locked(self._lock):
            before = self.list()
            gone = [_one(before, ref) for ref in dict.fromkeys(refs)]
            self._write([grant for grant in before if grant not in gone])
        return list(dict.fromkeys(gone))

    def forget_session(self, session: str) -> None:
        """Take back what counted in a session that is gone: no other of that id shall inherit it."""
        if any(grant.session == session for grant in self.list()):
            with locked(self._lock):
                self._write([grant for grant in self.list() if grant.session != session])

    @property
    def _lock(self) -> Path:
        return self._path.with_suffix(".lock")

    def _write(self, grants: Sequence[Grant]) -> None:
        surplus = max(0, sum(grant.session is not None for grant in grants) - MOST_OF_SESSIONS)
        oldest = [grant for grant in grants if grant.session is not None][:surplus]
        document = {"format": FORMAT, "grants": [asdict(grant) for grant in grants if grant not in oldest]}
        replace_file(self._path, json.dumps(document, indent=1).encode("ascii"), mode=0o600)


def _grant(item: object) -> Grant | None:
    match item:
        case {"id": str(id_), "agent": str(agent), "workspace": str(workspace), "rule": str(rule), "session": str() | None as session, "created": str(created)}:
            return Grant(id_, agent, workspace, rule, session, created)
    return None


def _same(one: Grant, other: Grant) -> bool:
    return one.rule == other.rule and one.session == other.session and other.counts(agent=one.agent, workspace=one.workspace, session=one.session or "")


def _one(grants: Sequence[Grant], ref: str) -> Grant:
    found = [grant for grant in grants if ref and grant.id.startswith(ref)]
    exact = [grant for grant in found if grant.id == ref] or found
    if not exact:
        raise NotFound(f"there is no permission {ref!r}", hint="`escalera permissions list` has them; a rule of the settings is changed there")
    if len(exact) > 1:
        raise Ambiguous(f"{ref!r} is the beginning of {len(exact)} permissions", candidates=[grant.id for grant in exact], hint="give more of the id")
    return exact[0]
