"""`python -m bench.soak`: many turns in one process; memory that grows, files or threads that stay, or turns without their answer make it fail."""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, islice
from multiprocessing.connection import Connection
from pathlib import Path

from bench.place import front_with, nobody, served
from orchestrator.cli.front import Front
from orchestrator.dispatch.desk import Shown
from orchestrator.errors import EscaleraError
from orchestrator.escalation import take_turn
from orchestrator.planning.case import Wish
from orchestrator.providers import Cancel
from orchestrator.routing import Choice
from orchestrator.session import Role
from orchestrator.sessions import fresh_session
from orchestrator.testing import bedrock_server
from orchestrator.testing.bedrock_server import BedrockServer
from orchestrator.testing.openai_server import OpenAIServer, chunk, json_reply, reply, sse

WISH = Wish("Say a few words.", Choice(role=Role.ESCALATION))
ANSWER = "a few words that the scripted server streams one by one " * 4
FACT = {"content": "The oven is made of stone."}
CALL = {"index": 0, "id": "c1", "type": "function", "function": {"name": "record_memory", "arguments": '{"content": "The oven is made of stone."}'}}
WARM_UP = 5
"""Turns before anything is counted: what is loaded once."""
GROWTH = 0.05
ANSWERED = 0.6
"""Of the turns, at least: six of nine are given a whole answer."""
AWS = {"AWS_ACCESS_KEY_ID": "AKIDDUMMY0000", "AWS_SECRET_ACCESS_KEY": "dummy-secret", "AWS_EC2_METADATA_DISABLED": "true"}
ENDS_WITHIN = 5.0
"""Seconds for the thread of the last turn to be gone."""
HELD = "held"
"""What an answer says that never ends: its turn is cancelled."""


@dataclass(frozen=True)
class Soaked:
    """What many turns left behind."""

    ends: Counter[str]
    seconds: float
    memory: Sequence[int]
    """Resident bytes after each turn."""
    files: tuple[int, int]
    """Open files before the first and after the last turn."""
    threads: tuple[int, int]

    @property
    def early(self) -> float:
        """Resident bytes in the second fifth of the turns."""
        fifth = len(self.memory) // 5
        return statistics.median(self.memory[fifth : 2 * fifth])

    @property
    def late(self) -> float:
        """Resident bytes in the last fifth."""
        return statistics.median(self.memory[-(len(self.memory) // 5) :])

    @property
    def ok(self) -> bool:
        answered = self.ends["completed"] >= ANSWERED * len(self.memory)
        return answered and self.late <= self.early * (1 + GROWTH) and self.files[1] <= self.files[0] and self.threads[1] <= self.threads[0]


def main() -> None:
    """Print the table; ends with 1 if anything was left behind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=500)
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=list(KINDS))
    arguments = parser.parse_args()
    os.environ |= AWS  # boto3 reads the environment of the process
    header = ("kind", "turns", "how they ended", "seconds", "MB, second fifth", "MB, last fifth", "growth", "files", "threads")
    print(" | ".join(f"{name:>16}" for name in header))
    good = True
    for kind in arguments.kinds:
        table, serve = KINDS[kind]
        with served(serve, arguments.turns + WARM_UP) as url, front_with(table, url) as front:
            soaked = _soak(front, arguments.turns)
        good = good and soaked.ok
        ends = ", ".join(f"{count} {name}" for name, count in sorted(soaked.ends.items()))
        figures = (f"{soaked.seconds:.1f}", f"{soaked.early / 1e6:.1f}", f"{soaked.late / 1e6:.1f}", f"{soaked.late / soaked.early - 1:+.1%}")
        counts = (f"{before} -> {after}" for before, after in (soaked.files, soaked.threads))
        print(" | ".join(f"{cell:>16}" for cell in (kind, str(arguments.turns), ends, *figures, *counts)), flush=True)
    sys.exit(0 if good else 1)


def _soak(front: Front, turns: int) -> Soaked:
    """All turns in one session, which grows as a long talk does."""
    place = front.workplace(front.store(), front.workspace)
    session = fresh_session(front)
    place.store.create(session)
    ends: Counter[str] = Counter()
    memory: list[int] = []
    files = threads = began = 0.0
    for number in range(WARM_UP + turns):
        if number == WARM_UP:
            ends.clear()
            files, threads, began = _files(), threading.active_count(), time.monotonic()
        cancel = Cancel()
        report = take_turn(place, session.id, WISH, cancel=cancel, ask=nobody, watch=partial(_cancelling, cancel))
        ends[report.turn.outcome.value if report.error is None else report.error.type] += 1
        del report
        gc.collect()
        if number >= WARM_UP:
            memory.append(_resident())
    seconds = time.monotonic() - began
    until = time.monotonic() + ENDS_WITHIN
    while threading.active_count() > threads and time.monotonic() < until:
        time.sleep(0.05)
    return Soaked(ends, seconds, memory, (int(files), _files()), (int(threads), threading.active_count()))


def _cancelling(cancel: Cancel, shown: Shown) -> None:
    if shown.type == "text" and HELD in shown.text:
        cancel.set()


def _resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _files() -> int:
    return len(os.listdir("/proc/self/fd"))


# -- the servers ----------------------------------------------------------------------------------


def _openai(pipe: Connection, replies: int) -> None:
    """Answers, tool calls, broken and refused answers, and one that hangs until its turn is cancelled."""
    whole = reply(ANSWER, usage=(100, 40))
    remember = sse(chunk({"tool_calls": [CALL]}), chunk({}, finish_reason="tool_calls"))
    broken, held = replace(whole, writes=whole.writes[:5], reset=True), replace(sse(chunk({"content": HELD}), done=False), hold_open=True)
    refused = json_reply({"error": {"message": "no", "type": "invalid_request_error"}}, status=400)
    script = [whole, whole, whole, remember, whole, broken, whole, refused, whole, held]
    with OpenAIServer(*islice(cycle(script), replies + replies // 5)) as server:
        pipe.send(server.url)
        pipe.recv()


def _bedrock(pipe: Connection, replies: int) -> None:
    """The same for Bedrock."""
    whole = bedrock_server.say(ANSWER, reasoning=("hm", "c2ln"))
    remember = bedrock_server.call("record_memory", FACT)
    broken = replace(whole, writes=whole.writes[:5], broken=True)
    held = replace(bedrock_server.say(f"{HELD} on"), writes=bedrock_server.say(f"{HELD} on").writes[:2], hold_open=True)
    refused = bedrock_server.fail(400, "ValidationException", "no")
    script = [whole, whole, whole, remember, whole, broken, whole, refused, whole, held]
    with BedrockServer(*islice(cycle(script), replies + replies // 5)) as server:
        pipe.send(server.url)
        pipe.recv()


def _http_table(_folder: Path, url: str, *, kind: str) -> str:
    return f'provider = "{kind}"\nbase_url = "{url}"\nmodel = "m"\napi_key = "sk-dummy"\n'


def _bedrock_table(_folder: Path, url: str) -> str:
    return f'provider = "bedrock"\nmodel = "us.anthropic.claude-test-v1:0"\nregion = "us-east-1"\nendpoint_url = "{url}"\n'


KINDS: dict[str, tuple[Callable[[Path, str], str], Callable[[Connection, int], None]]] = {
    "openai": (partial(_http_table, kind="openai"), _openai),
    "openrouter": (partial(_http_table, kind="openrouter"), _openai),
    "bedrock": (_bedrock_table, _bedrock),
}


if __name__ == "__main__":
    try:
        main()
    except EscaleraError as error:
        raise SystemExit(error.message) from error
