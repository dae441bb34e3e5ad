"""What tests of whole turns share: a place with a real store, scripted agents and a clock that is set by hand."""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from orchestrator.crew import Crew
from orchestrator.dispatch.desk import Shown
from orchestrator.escalation import Workplace, planned, take_turn
from orchestrator.lease import held
from orchestrator.messages import Part, ToolCall, ToolResult
from orchestrator.percepts import Percept
from orchestrator.planning.case import Additions, Expiry, Wish
from orchestrator.planning.plan import NO_ADDITIONS, Plan
from orchestrator.providers import Answer, Ask, Cancel, Capabilities, Question, Request
from orchestrator.recording import Report
from orchestrator.routing import Choice
from orchestrator.session import Reason, Role, Session, Turn
from orchestrator.settings.paths import Paths
from orchestrator.settings.resolution import load_settings
from orchestrator.store.sqlite import SqliteStore, open_store
from orchestrator.tags import TagKind
from orchestrator.tags import tag as tag_of
from orchestrator.templates import Templates
from orchestrator.testing import hand_clock
from orchestrator.testing.fake_provider import FakeProvider, Script, fake_kind
from orchestrator.testing.hand_clock import HandClock

from .sites import Site

NONCE = "nonce234"
START = hand_clock.START
TOOLS = Capabilities(takes_tools=True)
OWN = Capabilities(keeps_conversation=True, profile="none")
"""An agent with a conversation of its own."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def nobody(question: Question) -> Answer:
    return Answer("decline", by="nobody")


@dataclass
class Scene:
    """One session in one workspace, worked on by one process after the other."""

    folder: Path
    templates: Templates
    clock: HandClock = field(default_factory=HandClock)
    workspace: str = "/work/a"
    agents: dict[str, FakeProvider] = field(default_factory=dict)
    roles: dict[str, str] = field(default_factory=lambda: {"primary": "local", "escalation": "strong"})
    config: str = ""
    """More of the configuration file: limits, tables of agents' own."""
    expiry: Expiry = field(default_factory=Expiry)
    session_wait: float = 30.0
    additions: Additions = NO_ADDITIONS
    shown: list[Shown] = field(default_factory=list)
    _ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _stores: list[SqliteStore] = field(default_factory=list)
    _place: Workplace | None = None

    def cast(self, **agents: FakeProvider) -> None:
        """Name the agents, each with its provider; whoever was there before goes. A new process."""
        self.agents = dict(agents)
        self.restart()

    def restart(self) -> None:
        """Go on as another process would: with a store opened anew and nothing remembered."""
        self._place = None

    @property
    def place(self) -> Workplace:
        if self._place is None:
            self._place = self._new_place()
        return self._place

    @property
    def store(self) -> SqliteStore:
        assert self.place
        return self._stores[-1]

    @property
    def session(self) -> Session:
        return self.store.find("s1", self.workspace)

    @property
    def turns(self) -> list[Turn]:
        return list(reversed(list(self.store.log("s1").newest_first(outcomes=None))))

    def save(self, **fields: object) -> None:
        """Change the session's header as a command between two turns would."""
        with held(self.store, "s1", "test", clock=self.clock, wait=0, cancel=Cancel()) as claim:
            self.store.save(claim, replace(self.session, **fields))  # type: ignore[arg-type]  # fields of a session

    def remember(self, content: str, **fields: object) -> Percept:
        """A global fact that the user asked to keep, so that it is told whatever the prompt is."""
        values = {"core": True, "created_at": self.clock.now(), "updated_at": self.clock.now(), **fields}
        percept = Percept(id=f"p{next(self._ids)}", content=content, producer="user", **values)  # type: ignore[arg-type]  # fields of a percept
        return self.store.learn(percept)[0]

    def wish(
        self,
        prompt: str = "do it",
        *,
        escalate: bool = False,
        primary: bool = False,
        agent: str | None = None,
        fresh: bool = False,
        reason: str | None = None,
    ) -> Wish:
        role = Role.ESCALATION if escalate else Role.PRIMARY if primary else None
        return Wish(prompt, Choice(role, agent), reason=reason, fresh=fresh)

    def plan(self, prompt: str = "do it", **choice: object) -> Plan:
        return planned(self.place, "s1", self.wish(prompt, **choice))  # type: ignore[arg-type]  # as `wish` takes them

    def ask(self, prompt: str = "do it", *, cancel: Cancel | None = None, ask: Ask = nobody, **choice: object) -> Report:
        """One turn of the session; what was shown of it is in `shown`."""
        self.shown.clear()
        wish = self.wish(prompt, **choice)  # type: ignore[arg-type]  # as `wish` takes them
        return take_turn(self.place, "s1", wish, cancel=cancel or Cancel(), ask=ask, watch=self.shown.append)

    def seen(self, kind: str) -> list[str]:
        """The texts of everything of one kind that the last turn showed."""
        return [shown.text for shown in self.shown if shown.type == kind]

    def close(self) -> None:
        for store in self._stores:
            store.close()

    def _new_place(self) -> Workplace:
        self._stores.append(open_store(self.folder / "data", clock=self.clock))
        store = self._stores[-1]
        if not store.list(None):
            store.create(Session(id="s1", workspace=self.workspace, nonce=NONCE, created_at=self.clock.now()))
        return Workplace(
            store=store,
            crew=crew_of(self.folder, self.agents, roles=self.roles, more=self.config, workspace=self.workspace),
            templates=self.templates,
            clock=self.clock,
            workspace=self.workspace,
            owner=f"process-{next(self._ids)}",
            expiry=self.expiry,
            session_wait=self.session_wait,
            new_id=lambda: f"id-{next(self._ids)}",
            jitter=random.Random(1),
            additions=self.additions,
        )


def crew_of(folder: Path, agents: dict[str, FakeProvider], *, roles: dict[str, str], more: str = "", workspace: str = "/work/a", **options: object) -> Crew:
    """A crew from a real configuration file, whose agents follow scripts."""
    file = folder / "config.toml"
    tables = "".join(f'[agents.{name}]\nprovider = "fake"\n' for name in agents)
    file.write_text("".join(f'{role} = "{name}"\n' for role, name in roles.items()) + tables + more)
    paths = Paths(folder / "config", folder / "data", folder / "state", folder / "cache")
    settings = load_settings(environ={}, workspace=folder, paths=paths, config_file=file)
    return Crew(settings, {"fake": fake_kind(agents)}, environ={}, workspace=workspace, **options)  # type: ignore[arg-type]  # as `Crew` takes them


@pytest.fixture(scope="session")
def templates() -> Templates:
    """Compiled once: they hold no state."""
    return Templates()


@pytest.fixture
def scene(tmp_path: Path, templates: Templates) -> Iterator[Scene]:
    made = Scene(tmp_path, templates)
    yield made
    made.close()
    assert not any(provider.running for provider in made.agents.values()), "a provider was not let go"


def local(*scripts: Script, capabilities: Capabilities | None = None) -> FakeProvider:
    return FakeProvider(*scripts, capabilities=capabilities, model="local-1")


def strong(*scripts: Script, capabilities: Capabilities | None = None, config_dir: str | None = None) -> FakeProvider:
    return FakeProvider(*scripts, capabilities=capabilities, model="strong-1", config_dir=config_dir)


def tag(kind: TagKind, body: str) -> str:
    """A tag of this session."""
    return tag_of(kind, body, NONCE)


def system(request: Request) -> str:
    """Everything in the request that is no message: system texts, or an own conversation's system text and context block."""
    conversation = request.conversation
    own = () if conversation is None else (conversation.system_text, conversation.context_block)
    return "\n".join((*(block.text for block in request.system), *own))


def texts(request: Request) -> list[str]:
    """The text of every message, with its role in front."""
    return [f"{message.role}: " + "|".join(map(_text, message.parts)) for message in request.messages]


def rules(reasons: Sequence[Reason]) -> list[str]:
    return [reason.rule for reason in reasons]


def _text(part: Part) -> str:
    return f"{part.name}()" if isinstance(part, ToolCall) else part.content if isinstance(part, ToolResult) else part.text


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    before = set(sys.modules)
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    yield Site(folder)
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(folder) in str(sys.modules[name].__file__):
            del sys.modules[name]
