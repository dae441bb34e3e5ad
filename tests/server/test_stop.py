"""A server that ends lets its turns end, or ends them cleanly; the program itself, from outside."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest

from orchestrator.errors import ServerBusy, UsageError
from orchestrator.planning.case import Wish
from orchestrator.server import service as service_module
from orchestrator.server.running import listen
from orchestrator.server.service import Order
from orchestrator.testing.fake_provider import UNTIL_CANCELLED, says
from orchestrator.testing.openai_server import OpenAIServer, reply

from .conftest import TOKEN, Home


def test_a_turn_that_runs_is_answered_before_the_server_ends(home: Home) -> None:
    begun, go_on = threading.Event(), threading.Event()
    home.local.will([begun.set, lambda: go_on.wait(10), *says("Done.")])
    path = f"/v1/sessions/{home.begin().id}/turns"
    answers: list[httpx.Response] = []
    with home.served() as url:
        headers = {"authorization": f"Bearer {TOKEN}"}
        asking = threading.Thread(target=lambda: answers.append(httpx.post(url + path, json={"prompt": "go"}, headers=headers, timeout=20, trust_env=False)))
        asking.start()
        assert begun.wait(10)
        threading.Timer(0.2, go_on.set).start()  # when the server has begun to stop
    asking.join(10)

    assert answers[0].json()["answer"] == "Done."


def test_a_turn_that_does_not_end_in_time_is_ended_and_kept_as_cancelled(home: Home) -> None:
    begun = threading.Event()
    home.local.will([begun.set, UNTIL_CANCELLED])
    session = home.begin()
    run = home.service.take(session, Order(Wish("go")))
    assert begun.wait(10)

    home.service.stop(0)

    assert run.ended.is_set()
    assert home.get(f"/v1/sessions/{session.id}").json()["turns"][0]["outcome"] == "cancelled"
    refused = home.post(f"/v1/sessions/{session.id}/turns", {"prompt": "more"})
    assert (refused.status_code, refused.json()["title"]) == (503, "ServerBusy")


def test_one_thread_renews_the_leases_of_all_turns(home: Home, tmp_path: Path) -> None:
    """It outlives a turn by a while: one for each would be hundreds in a busy server."""
    with home.service.place(home.service.premises.workspace) as here, home.service.place(str(tmp_path)) as there:
        assert here.renewals is there.renewals is home.service.premises.renewals


def test_no_more_turns_run_at_once_than_are_taken(home: Home) -> None:
    home.local.will(*[[UNTIL_CANCELLED] for _ in range(service_module.MOST_TURNS)])
    session = home.begin()
    for _ in range(service_module.MOST_TURNS):
        home.service.take(session, Order(Wish("go")))

    with pytest.raises(ServerBusy):
        home.service.take(session, Order(Wish("one more")))
    home.service.stop(0)


# -- the program ---------------------------------------------------------------------------------


def serve(folder: Path, url: str, *flags: str) -> subprocess.Popen[str]:
    (folder / "work").mkdir(exist_ok=True)
    (folder / "config.toml").write_text(f'primary = "local"\n[agents.local]\nprovider = "openai"\nbase_url = "{url}"\nmodel = "fake"\n')
    command = [sys.executable, "-m", "orchestrator", "--config", str(folder / "config.toml"), *flags, "serve", "--port", "0"]
    environ = {**os.environ, "ESCALERA_HOME": str(folder / "home")}
    return subprocess.Popen(command, cwd=folder / "work", env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_the_program_says_where_it_is_and_ends_properly_on_a_signal(tmp_path: Path) -> None:
    with OpenAIServer(reply("Hello.")) as model, serve(tmp_path, model.url) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        file = tmp_path / "home" / "data" / "server-token"
        assert file.stat().st_mode & 0o777 == 0o600

        token = file.read_text().strip()
        body = {"model": "escalera", "messages": [{"role": "user", "content": "Hi"}]}
        answer = httpx.post(f"{url}/chat/completions", json=body, headers={"authorization": f"Bearer {token}"}, timeout=20, trust_env=False)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=20)

    assert answer.json()["choices"][0]["message"]["content"] == "Hello."
    assert (process.returncode, str(file) in said, token in said, "Traceback" in said) == (0, True, False, False)


def test_the_program_ends_by_itself_when_nobody_uses_it(tmp_path: Path) -> None:
    with OpenAIServer() as model, serve(tmp_path, model.url, "--server-idle-exit=100ms") as process:
        process.communicate(timeout=30)

    assert process.returncode == 0


def test_a_port_that_is_taken_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(UsageError, match="cannot listen on"):
        listen("127.0.0.1", taken.getsockname()[1])
