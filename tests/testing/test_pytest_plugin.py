"""The fixtures that come with an installed Escalera, and what it costs a run of pytest that uses none of them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta

from orchestrator.messages import Text
from orchestrator.providers import Cancel, MessageDone, Request
from orchestrator.session import Session
from orchestrator.store.sqlite import SqliteStore
from orchestrator.testing.fake_provider import FakeProvider, says
from orchestrator.testing.hand_clock import START, HandClock


def test_a_store_goes_by_the_clock_of_the_test(escalera_store: SqliteStore, escalera_clock: HandClock, escalera_ids: Callable[[], str]) -> None:
    escalera_clock.advance(hours=2)
    escalera_store.create(Session(id=escalera_ids(), workspace="/w", nonce="n", created_at=escalera_clock.now()))

    found = escalera_store.find("id-1", "/w")

    assert found.created_at == START + timedelta(hours=2)
    assert escalera_ids() == "id-2"


def test_a_provider_follows_the_scripts_of_the_test(escalera_provider: FakeProvider) -> None:
    escalera_provider.will(says("a wren"))

    events = list(escalera_provider.run(Request("x", (), ()), cancel=Cancel(), ask=lambda question: None))  # type: ignore[arg-type, return-value]

    assert MessageDone((Text("a wren"),)) in events


def test_a_run_without_them_loads_nothing_but_the_module_itself() -> None:
    script = (
        "import sys, pytest; before = set(sys.modules)\n"
        "import orchestrator.testing.pytest_plugin\n"
        "print(*sorted(name for name in set(sys.modules) - before if not name.startswith('_')))"
    )

    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()

    assert loaded == ["orchestrator", "orchestrator.testing", "orchestrator.testing.pytest_plugin"]
