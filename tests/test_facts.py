"""What an agent would be told, and why not, when it keeps a conversation of its own: as its next turn has it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.context.delivery import delivered_marks
from orchestrator.escalation import planned
from orchestrator.facts import explained
from orchestrator.messages import Text
from orchestrator.percepts import Percept
from orchestrator.planning.case import Wish
from orchestrator.premises import Premises
from orchestrator.routing import Choice
from orchestrator.session import ExternalSession, Role, Session, Turn
from orchestrator.store import Store

CONFIG = """
primary = "local"
escalation = "strong"
[agents.local]
provider = "openai"
base_url = "http://127.0.0.1:9/v1"
model = "m"
[agents.strong]
provider = "claude-cli"
bin = "/nowhere/claude"
"""
PROMPT = "Where does the service listen?"
BEFORE = Turn(0, Role.ESCALATION, "strong", "hi", steps=(Text("hello"),), mode="first")


@pytest.fixture
def premises(tmp_path: Path) -> Iterator[Premises]:
    (tmp_path / "home" / "config").mkdir(parents=True)
    (tmp_path / "home" / "config" / "config.toml").write_text(CONFIG)
    made = Premises(environ={"ESCALERA_HOME": str(tmp_path / "home")}, cwd=tmp_path, config_file=None, sets=(), flags={}, tell=lambda _: None)
    yield made
    made.close()


@pytest.fixture
def store(premises: Premises) -> Store:
    """The strong agent was told one of two facts in its conversation."""
    store = premises.store()
    for identity, content in (("told", "the service listens on port 80"), ("new", "the service does not listen at night")):
        store.learn(Percept(identity, content, "user", scope="global"))
    marks = delivered_marks({}, primary_activity="", prior_escalation="", percepts=["told"])
    external = ExternalSession("strong", "c-1", premises.workspace, turn_index=0, system_text="You help.", delivered=marks)
    session = Session(id="s1", workspace=premises.workspace, nonce="nonce234", external_sessions=(external,))
    store.import_session(session, [BEFORE])
    return store


@pytest.mark.parametrize(("agent", "sent"), [("strong", {"new"}), ("local", {"told", "new"})])
def test_a_conversation_that_goes_on_is_told_only_what_is_new(premises: Premises, store: Store, agent: str, sent: set[str]) -> None:
    told = explained(premises, store, PROMPT, agent=agent, ref="s1")

    assert {percept.id for percept, _ in told.sent} == sent
    assert [(percept.id, why) for percept, why in told.withheld] == [("told", "already told")] * (agent == "strong")
    assert _planned(premises, store, agent) == sent


def test_one_that_comes_back_or_begins_afresh_is_told_all(premises: Premises, store: Store) -> None:
    session, turns = store.find("s1", premises.workspace), [BEFORE, Turn(1, Role.PRIMARY, "local", "and?", steps=(Text("so"),), mode="default")]
    for identity, kept in (("back", session.external_sessions), ("lost", ())):
        store.import_session(Session(id=identity, workspace=session.workspace, nonce="nonce234", external_sessions=kept), turns)

        told = explained(premises, store, PROMPT, agent="strong", ref=identity)

        assert {percept.id for percept, _ in told.sent} == {"told", "new"} == _planned(premises, store, "strong", identity)
        assert told.withheld == ()


def _planned(premises: Premises, store: Store, agent: str, session: str = "s1") -> set[str]:
    role = Role.ESCALATION if agent == "strong" else Role.PRIMARY
    place = premises.workplace(store, premises.workspace)
    return {percept.id for percept in planned(place, session, Wish(PROMPT, Choice(role=role))).texts.told}
