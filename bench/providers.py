"""`python -m bench.providers`: what a turn of ours adds to the bare client, or to the bare `claude`, on the same scripted server."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import httpx

from bench.fixture import turns
from bench.place import front_with, nobody, served, unseen
from orchestrator.cli.front import Front
from orchestrator.errors import EscaleraError
from orchestrator.escalation import Workplace, planned, take_turn
from orchestrator.planning.case import Wish
from orchestrator.planning.plan import Plan, started
from orchestrator.providers import Cancel
from orchestrator.routing import Choice
from orchestrator.session import Role
from orchestrator.sessions import fresh_session
from orchestrator.testing.anthropic_server import AnthropicServer
from orchestrator.testing.openai_server import OpenAIServer, reply

ANSWER = "a few words that the scripted server streams one by one " * 4
AT_ONCE = 16
PACE = 0.005
"""Seconds between two words of a paced answer: 200 a second, a fast model's."""
QUIET = ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER", "DISABLE_ERROR_REPORTING")
HISTORY = 40
"""User and assistant messages that a session holds already."""
WISH = Wish("Say a few words.", Choice(role=Role.ESCALATION))


@dataclass(frozen=True)
class Pair:
    """Seconds of each call by the bare client and of each turn of ours, taken in turns."""

    bare: Sequence[float]
    ours: Sequence[float]

    def row(self, name: str, goal: str) -> str:
        """One line of the table: medians and 95th percentiles, and what is added at each."""
        (bare, bare_late), (ours, ours_late) = _median_p95(self.bare), _median_p95(self.ours)
        added, added_late = (ours - bare) * 1000, (ours_late - bare_late) * 1000
        cells = (name, f"{bare * 1000:.1f} / {bare_late * 1000:.1f}", f"{ours * 1000:.1f} / {ours_late * 1000:.1f}", f"{added:+.1f} / {added_late:+.1f}", goal)
        return " | ".join(f"{cell:>24}" for cell in cells)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200, help="HTTP turns one at a time; at 16 at a time it is as many again")
    parser.add_argument("--cli-runs", type=int, default=10, help="turns of `claude`")
    parser.add_argument("--claude", default=os.environ.get("ESCALERA_TEST_CLAUDE") or shutil.which("claude"), help="the real program")
    arguments = parser.parse_args()
    header = ("milliseconds: median / p95", "bare", "a turn of ours", "added", "goal for what is added")
    print(" | ".join(f"{name:>24}" for name in header))
    for name, pace in (("paced", PACE), ("all at once", 0.0)):
        with served(partial(_openai, pace=pace), 4 * arguments.runs + 100) as url, front_with(_openai_table, url) as front:
            print(_http(front, 1, arguments.runs).row(f"HTTP {name}, 1 at a time", "2 median"))
            print(_http(front, AT_ONCE, arguments.runs).row(f"HTTP {name}, {AT_ONCE} at a time", "20 p95"))
    if not arguments.claude:
        print("claude: left out, there is none on PATH and none was named")
        return
    with served(_anthropic, 0) as url, front_with(partial(_claude_table, program=arguments.claude), url) as front:
        print(_cli(front, arguments.cli_runs).row("claude", "50 median"))
    with served(_anthropic, 0) as url, front_with(partial(_claude_table, program=arguments.claude), url) as front:
        print(_kept(front, arguments.cli_runs))


def _http(front: Front, at_once: int, runs: int) -> Pair:
    """Each worker alternates: one bare exchange of the very body that the turn sends, one turn; both in a session with the same history."""
    store = front.store()

    def work(count: int) -> tuple[list[float], list[float]]:
        place = front.workplace(store, front.workspace)
        bare, ours = [], []
        with httpx.Client(trust_env=False, timeout=60) as client:
            for _ in range(count):
                session = _session(front)
                plan = planned(place, session, WISH)
                bare.append(_timed(partial(_bare_http, client, plan, front)))
                ours.append(_timed(partial(_ours, place, session)))
        return bare, ours

    work(3)  # imports, caches
    with ThreadPoolExecutor(at_once) as pool:
        results = list(pool.map(work, [max(1, runs // at_once)] * at_once))
    return Pair([seconds for bare, _ in results for seconds in bare], [seconds for _, ours in results for seconds in ours])


def _bare_http(client: httpx.Client, plan: Plan, front: Front) -> None:
    body = plan.agent.provider.preview(plan.request)["body"]
    url = str(front.settings.agent("strong").options["base_url"]) + "/chat/completions"
    text = []
    with client.stream("POST", url, json=body) as response:
        for line in response.iter_lines():
            if line.startswith("data: {"):
                choices = json.loads(line[6:])["choices"]
                text.append((choices[0]["delta"] or {}).get("content") or "" if choices else "")
    if "".join(text) != ANSWER:
        raise SystemExit("the scripted server answered something else")


def _cli(front: Front, runs: int) -> Pair:
    """Alternating: the bare program with the very arguments, file and input that the turn gives it; the turn."""
    folder = Path(front.workspace)
    place = front.workplace(front.store(), front.workspace)
    environ = {**os.environ, **_claude_environ(folder, str(front.settings.agent("strong").options["env"]["ANTHROPIC_BASE_URL"]))}
    bare, ours = [], []
    for number in range(runs + 1):
        session = _session(front)
        plan = started(planned(place, session, WISH), front.new_id())
        times = (_timed(partial(_bare_claude, plan, folder, environ)), _timed(partial(_ours, place, session)))
        if number:  # the first fills the program's caches
            bare.append(times[0])
            ours.append(times[1])
    return Pair(bare, ours)


def _bare_claude(plan: Plan, folder: Path, environ: dict[str, str]) -> None:
    call = plan.agent.provider.preview(plan.request)
    path = folder / "system-prompt.md"
    path.write_text(call["system_prompt_file"])
    argv = [str(path) if word == "<system-prompt-file>" else word for word in call["argv"]]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ, cwd=folder)
    if process.stdin is None or process.stdout is None:
        raise SystemExit("no pipes")
    process.stdin.write(call["stdin"].encode())
    process.stdin.flush()
    for line in process.stdout:
        if json.loads(line)["type"] == "result":
            break
    process.stdin.close()
    process.wait()


def _kept(front: Front, runs: int) -> str:
    """Alternating in two sessions: a turn with a child of its own; a turn in the child that waits."""
    store = front.store()
    places = {kept: front.workplace(store, front.workspace, long_lived=kept) for kept in (False, True)}
    sessions = {kept: _session(front) for kept in places}
    times: dict[bool, list[float]] = {False: [], True: []}
    for number in range(runs + 1):
        for kept, place in places.items():
            seconds = _timed(partial(_ours, place, sessions[kept]))
            if number:  # the first starts the child that the others find
                times[kept].append(seconds)
    cold, warm = statistics.median(times[False]), statistics.median(times[True])
    return (
        f"a turn of claude, milliseconds at the median: {cold * 1000:.1f} with a child of its own, {warm * 1000:.1f} in one that waits: {cold / warm:.1f} : 1"
    )


def _ours(place: Workplace, session: str) -> None:
    report = take_turn(place, session, WISH, cancel=Cancel(), ask=nobody, watch=unseen)
    if report.error is not None:
        raise report.error


def _timed(action: Callable[[], None]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def _session(front: Front) -> str:
    """A session with a history, as long as many are."""
    session = fresh_session(front)
    front.store().import_session(session, tuple(turns(HISTORY, "mixed")))
    return session.id


def _openai_table(_folder: Path, url: str) -> str:
    return f'provider = "openai"\nbase_url = "{url}/v1"\nmodel = "m"\n'


def _claude_table(folder: Path, url: str, *, program: str) -> str:
    pairs = ", ".join(f'{name} = "{value}"' for name, value in _claude_environ(folder, url).items())
    return f'provider = "claude-cli"\nbin = "{program}"\nmodel = "claude-sonnet-4-5"\nenv = {{ {pairs} }}\n'


def _claude_environ(folder: Path, url: str) -> dict[str, str]:
    home = folder / "home"
    home.mkdir(exist_ok=True)
    apart = {"HOME": str(home), "CLAUDE_CONFIG_DIR": str(home / ".claude"), "ANTHROPIC_API_KEY": "dummy", "ANTHROPIC_BASE_URL": url}
    return apart | dict.fromkeys(QUIET, "1")


def _openai(pipe: Connection, replies: int, *, pace: float) -> None:
    answer = reply(ANSWER, usage=(100, 40))
    paced = replace(answer, writes=[part for write in answer.writes for part in (pace, write)])
    with OpenAIServer(*[paced] * replies) as server:
        pipe.send(server.url.removesuffix("/v1"))
        pipe.recv()


def _anthropic(pipe: Connection, _replies: int) -> None:
    with AnthropicServer() as server:
        pipe.send(server.url)
        pipe.recv()


def _median_p95(times: Sequence[float]) -> tuple[float, float]:
    return statistics.median(times), statistics.quantiles(times, n=20)[-1]


if __name__ == "__main__":
    try:
        main()
    except EscaleraError as error:
        raise SystemExit(error.message) from error
