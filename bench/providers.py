"""`python -m bench.providers`: what a turn of ours adds to the bare client, or to the bare `claude`, on the same scripted server."""

from __future__ import annotations

import argparse
import gc
import json
import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import boto3
import httpx
from botocore.config import Config

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
from orchestrator.testing.bedrock_server import BedrockServer, say
from orchestrator.testing.openai_server import OpenAIServer, reply

ANSWER = "a few words that the scripted server streams one by one " * 4
AT_ONCE = 16
EACH = 4
"""Calls that a worker makes in one round."""
WARM_UP = 3
AWS = {"AWS_ACCESS_KEY_ID": "dummy", "AWS_SECRET_ACCESS_KEY": "dummy", "AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/dev/null"}
PACE = 0.005
"""Seconds between two words of a paced answer: 200 a second, a fast model's."""
QUIET = ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER", "DISABLE_ERROR_REPORTING")
HISTORY = 40
"""User and assistant messages that a session holds already."""
WISH = Wish("Say a few words.", Choice(role=Role.ESCALATION))


Call = Callable[[Mapping[str, Any]], None]
"""Sends a body by the bare client, and reads the answer."""


@dataclass(frozen=True)
class Kind:
    """A kind of provider: its part of the configuration, its scripted server, and its bare client."""

    name: str
    table: Callable[[Path, str], str]
    serve: Callable[..., None]
    bare: Callable[[Front], Call]


@dataclass
class Side:
    """Seconds of each call, and those of CPU that this process spent on all of them."""

    times: list[float] = field(default_factory=list)
    cpu: float = 0.0

    def add(self, calls: Callable[[], Iterable[float]]) -> None:
        """Make those calls, which give their seconds."""
        began = time.process_time()
        self.times += calls()
        self.cpu += time.process_time() - began

    @property
    def each(self) -> float:
        """Seconds of CPU for one call."""
        return self.cpu / len(self.times)


@dataclass(frozen=True)
class Pair:
    """The calls by the bare client and the turns of ours, taken in turns."""

    bare: Side
    ours: Side

    def row(self, name: str, goal: str) -> str:
        """One line of the table: medians and 95th percentiles, and what is added at each."""
        (bare, bare_late), (ours, ours_late) = _median_p95(self.bare.times), _median_p95(self.ours.times)
        added, added_late = (ours - bare) * 1000, (ours_late - bare_late) * 1000
        cpu = f"{self.bare.each * 1000:.1f}, {self.ours.each * 1000:.1f}"
        latency = (f"{bare * 1000:.1f} / {bare_late * 1000:.1f}", f"{ours * 1000:.1f} / {ours_late * 1000:.1f}", f"{added:+.1f} / {added_late:+.1f}")
        return " | ".join(f"{cell:>26}" for cell in (name, *latency, cpu, goal))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=192, help="turns in each row, and as many calls of the bare client")
    parser.add_argument("--cli-runs", type=int, default=10, help="turns of `claude`")
    parser.add_argument("--claude", default=os.environ.get("ESCALERA_TEST_CLAUDE") or shutil.which("claude"), help="the real program")
    arguments = parser.parse_args()
    os.environ |= AWS  # boto3 reads the environment of the process
    header = ("milliseconds: median / p95", "bare", "a turn of ours", "added", "CPU: bare, ours", "goal for what is added")
    print(" | ".join(f"{name:>26}" for name in header))
    for kind in (OPENAI, BEDROCK):
        for name, pace in (("paced", PACE), ("all at once", 0.0)):
            with served(partial(kind.serve, pace=pace), 4 * arguments.runs + 200) as url, front_with(kind.table, url) as front:
                for at_once, goal in ((1, "2 median"), (AT_ONCE, "20 p95")):
                    pair = _measured(front, kind, at_once, arguments.runs)
                    print(pair.row(f"{kind.name} {name}, {at_once} at a time", goal), flush=True)
    if not arguments.claude:
        print("claude: left out, there is none on PATH and none was named")
        return
    with served(_anthropic, 0) as url, front_with(partial(_claude_table, program=arguments.claude), url) as front:
        print(_cli(front, arguments.cli_runs).row("claude", "50 median"))
    with served(_anthropic, 0) as url, front_with(partial(_claude_table, program=arguments.claude), url) as front:
        print(_kept(front, arguments.cli_runs))


def _measured(front: Front, kind: Kind, at_once: int, runs: int) -> Pair:
    """Rounds in turns: `EACH` calls of the bare client by each worker, then as many turns by each.

    So each side has only its own kind beside it. All that is not of the call or the turn itself is made ready before: sessions
    with the same history, and the very body that the turn will send. The workers of a round begin one after the other, spread
    over the time of one call: those who use a server do not begin in the same millisecond.
    """
    store = front.store()
    place = front.workplace(store, front.workspace)
    rounds = max(1, runs // (at_once * EACH))
    sessions = [_session(front) for _ in range(rounds * at_once * EACH)]
    calls = [kind.bare(front) for _ in range(at_once)]
    bodies = [_body(place, session) for session in sessions]
    for _ in range(WARM_UP):
        alone = _timed(partial(calls[0], bodies[0]))
        _ours(place, _session(front))
    pair = Pair(Side(), Side())
    with ThreadPoolExecutor(at_once) as pool:
        for number in range(rounds):
            first = number * at_once * EACH
            mine = [range(first + worker * EACH, first + (worker + 1) * EACH) for worker in range(at_once)]
            bare = [[partial(call, bodies[index]) for index in indexes] for call, indexes in zip(calls, mine, strict=True)]
            ours = [[partial(_ours, place, sessions[index]) for index in indexes] for indexes in mine]
            for side, work in ((pair.bare, bare), (pair.ours, ours)):
                gc.collect()
                side.add(partial(_round, pool, work, apart=alone / at_once))
    return pair


def _round(pool: ThreadPoolExecutor, work: Sequence[Sequence[Callable[[], None]]], *, apart: float) -> Iterator[float]:
    """Each worker makes its calls."""

    def worked(worker: int) -> list[float]:
        time.sleep(worker * apart)
        return [_timed(call) for call in work[worker]]

    return chain.from_iterable(pool.map(worked, range(len(work))))


def _body(place: Workplace, session: str) -> Mapping[str, Any]:
    """What a turn in that session sends."""
    plan = planned(place, session, WISH)
    body: Mapping[str, Any] = plan.agent.provider.preview(plan.request)["body"]
    return body


def _bare_openai(front: Front) -> Call:
    client = httpx.Client(trust_env=False, timeout=60)
    url = str(front.settings.agent("strong").options["base_url"]) + "/chat/completions"

    def call(body: Mapping[str, Any]) -> None:
        text = []
        with client.stream("POST", url, json=body) as response:
            for line in response.iter_lines():
                if line.startswith("data: {"):
                    choices = json.loads(line[6:])["choices"]
                    text.append((choices[0]["delta"] or {}).get("content") or "" if choices else "")
        _require("".join(text))

    return call


def _bare_bedrock(front: Front) -> Call:
    options = front.settings.agent("strong").options
    config = Config(retries={"total_max_attempts": 1})
    client = boto3.client("bedrock-runtime", region_name=options["region"], endpoint_url=options["endpoint_url"], config=config)

    def call(body: Mapping[str, Any]) -> None:
        text = []
        for event in client.converse_stream(modelId=options["model"], **body)["stream"]:
            if "contentBlockDelta" in event:
                text.append(event["contentBlockDelta"]["delta"].get("text", ""))
        _require("".join(text))

    return call


def _require(text: str) -> None:
    if text != ANSWER:
        raise SystemExit("the scripted server answered something else")


def _cli(front: Front, runs: int) -> Pair:
    """Alternating: the bare program with the very arguments, file and input that the turn gives it; the turn."""
    folder = Path(front.workspace)
    place = front.workplace(front.store(), front.workspace)
    environ = {**os.environ, **_claude_environ(folder, str(front.settings.agent("strong").options["env"]["ANTHROPIC_BASE_URL"]))}
    pair, caches = Pair(Side(), Side()), Pair(Side(), Side())
    for number in range(runs + 1):
        session = _session(front)
        plan = started(planned(place, session, WISH), front.new_id())
        into = pair if number else caches  # the first fills those of the program
        into.bare.add(lambda plan=plan: [_timed(partial(_bare_claude, plan, folder, environ))])
        into.ours.add(lambda session=session: [_timed(partial(_ours, place, session))])
    return pair


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


def _bedrock_table(_folder: Path, url: str) -> str:
    return f'provider = "bedrock"\nmodel = "us.anthropic.claude-test-v1:0"\nregion = "us-east-1"\nendpoint_url = "{url}"\n'


def _claude_table(folder: Path, url: str, *, program: str) -> str:
    pairs = ", ".join(f'{name} = "{value}"' for name, value in _claude_environ(folder, url).items())
    return f'provider = "claude-cli"\nbin = "{program}"\nmodel = "claude-sonnet-4-5"\nenv = {{ {pairs} }}\n'


def _claude_environ(folder: Path, url: str) -> dict[str, str]:
    home = folder / "home"
    home.mkdir(exist_ok=True)
    apart = {"HOME": str(home), "CLAUDE_CONFIG_DIR": str(home / ".claude"), "ANTHROPIC_API_KEY": "dummy", "ANTHROPIC_BASE_URL": url}
    return apart | dict.fromkeys(QUIET, "1")


def _openai(pipe: Connection, replies: int, *, pace: float) -> None:
    answer = reply(ANSWER, usage=(100, 40), model="m")
    paced = replace(answer, writes=[part for write in answer.writes for part in (pace, write)])
    with OpenAIServer(*[paced] * replies) as server:
        pipe.send(server.url.removesuffix("/v1"))
        pipe.recv()


def _bedrock(pipe: Connection, replies: int, *, pace: float) -> None:
    answer = say(ANSWER, usage={"inputTokens": 100, "outputTokens": 40})
    paced = replace(answer, writes=[part for write in answer.writes for part in (pace, write)])
    with BedrockServer(*[paced] * replies) as server:
        pipe.send(server.url)
        pipe.recv()


def _anthropic(pipe: Connection, _replies: int) -> None:
    with AnthropicServer() as server:
        pipe.send(server.url)
        pipe.recv()


def _median_p95(times: Sequence[float]) -> tuple[float, float]:
    return statistics.median(times), statistics.quantiles(times, n=20)[-1]


OPENAI = Kind("HTTP", _openai_table, _openai, _bare_openai)
BEDROCK = Kind("Bedrock", _bedrock_table, _bedrock, _bare_bedrock)


if __name__ == "__main__":
    try:
        main()
    except EscaleraError as error:
        raise SystemExit(error.message) from error
