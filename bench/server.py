"""`python -m bench.server`: what a completion through `escalera serve` adds to the bare upstream, beside LiteLLM's proxy in the same run."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import httpx

from bench.place import served

AT_ONCE = (1, 16, 64)
ANSWER = "a few words of an answer that is neither short nor long " * 4
KEY = "a-key-of-this-bench-alone"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "escalera-bench"
LITELLM = "litellm[proxy]>=1.100"
STARTS_WITHIN = 120.0


@dataclass(frozen=True)
class Way:
    """One way to the upstream's answer."""

    name: str
    url: str
    headers: dict[str, str]
    model: str
    process: int | None = None
    """Whose memory is looked at."""


@dataclass(frozen=True)
class Figures:
    """Of one way at one number of requests at once."""

    median: float
    p95: float
    per_second: float
    cpu: float | None
    """Seconds of processor time that the server spent on each request."""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=300, help="of each way at each number at once, after a warm-up")
    parser.add_argument("--rounds", type=int, default=3, help="in how many turns the ways take them, one after the other")
    parser.add_argument("--litellm", type=Path, default=CACHE / "litellm", help="a venv with LiteLLM's proxy, made there if there is none")
    parser.add_argument("--without-litellm", action="store_true")
    arguments = parser.parse_args()
    with served(_upstream, 0) as url, ExitStack() as stack:
        ways = [Way("upstream", f"{url}/v1/chat/completions", {}, "m"), stack.enter_context(_escalera(url))]
        program = None if arguments.without_litellm else _litellm_program(arguments.litellm)
        if program is not None:
            ways.append(stack.enter_context(_litellm(url, program)))
        idle = {way.name: _memory(way) for way in ways}
        for at_once in AT_ONCE:
            _print(at_once, _measured(ways, at_once, arguments.requests, arguments.rounds))
        print(f"\n{'memory, MB':>12} | {'at start':>10} | {'in the end':>10}")
        for way in ways[1:]:
            print(f"{way.name:>12} | {idle[way.name]:>10.1f} | {_memory(way):>10.1f}")


def _measured(ways: list[Way], at_once: int, requests: int, rounds: int) -> dict[str, Figures]:
    """The ways take turns, so that what else the machine does meets all of them."""
    times: dict[str, list[float]] = {way.name: [] for way in ways}
    spans: dict[str, float] = dict.fromkeys(times, 0.0)
    worked: dict[str, float] = dict.fromkeys(times, 0.0)
    for number in range(rounds + 1):
        for way in ways:
            count = 2 * at_once if number == 0 else max(at_once, requests // rounds)
            before = _worked(way)
            took, span = asyncio.run(_load(way, at_once, count))
            if number:  # the first warms up
                times[way.name] += took
                spans[way.name] += span
                worked[way.name] += _worked(way) - before
    return {name: _figures(took, spans[name], worked[name]) for name, took in times.items()}


def _figures(times: list[float], span: float, worked: float) -> Figures:
    return Figures(statistics.median(times), statistics.quantiles(times, n=20)[18], len(times) / span, worked / len(times) or None)


async def _load(way: Way, at_once: int, requests: int) -> tuple[list[float], float]:
    """Each of so many users has one request after the other: the seconds of each, and of all together."""
    times: list[float] = []
    limits = httpx.Limits(max_connections=at_once, max_keepalive_connections=at_once)
    async with httpx.AsyncClient(headers=way.headers, limits=limits, timeout=60, trust_env=False) as client:

        async def user(count: int) -> None:
            body = {"model": way.model, "messages": [{"role": "user", "content": "Say a few words."}]}
            for _ in range(count):
                began = time.perf_counter()
                response = await client.post(way.url, json=body)
                times.append(time.perf_counter() - began)
                if response.status_code != 200 or response.json()["choices"][0]["message"]["content"].strip() != ANSWER.strip():
                    raise SystemExit(f"{way.name} answered {response.status_code}: {response.text[:500]}")

        began = time.perf_counter()
        await asyncio.gather(*(user(max(1, requests // at_once)) for _ in range(at_once)))
        return times, time.perf_counter() - began


def _print(at_once: int, figures: dict[str, Figures]) -> None:
    bare = figures["upstream"]
    print(f"\n{at_once} at once, ms | {'median':>8} | {'p95':>8} | {'added median':>12} | {'requests/s':>10} | {'CPU ms each':>11}")
    for name, one in figures.items():
        cpu = "" if one.cpu is None else f"{one.cpu * 1000:.1f}"
        median, p95, added = (seconds * 1000 for seconds in (one.median, one.p95, one.median - bare.median))
        print(f"{name:>15} | {median:>8.1f} | {p95:>8.1f} | {added:>12.1f} | {one.per_second:>10.1f} | {cpu:>11}")
    if "litellm" in figures:
        ours, theirs = (figures[name].median - bare.median for name in ("escalera", "litellm"))
        print(f"added by ours : by LiteLLM's = {ours / theirs:.2f} : 1" + ("   (goal: at most 0.33)" if at_once < 64 else ""))


# -- the ways ------------------------------------------------------------------------------------


def _upstream(pipe: Connection, _replies: int) -> None:
    """A model's server as quick as can be: each connection is read and answered in one thread, without an HTTP library."""
    import json
    import threading

    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m"}
    usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
    deltas = [{**chunk, "choices": [{"index": 0, "delta": {"role": "assistant", "content": ANSWER}, "finish_reason": None}]}]
    deltas += [{**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}, {**chunk, "choices": [], "usage": usage}]
    stream = b"".join(f"data: {json.dumps(one)}\n\n".encode() for one in deltas) + b"data: [DONE]\n\n"
    message = {"index": 0, "message": {"role": "assistant", "content": ANSWER}, "finish_reason": "stop"}
    whole = json.dumps({"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [message], "usage": usage}).encode()
    answers = {kind: _response(body, kind) for body, kind in ((stream, "text/event-stream"), (whole, "application/json"))}

    def serve(connection: socket.socket) -> None:
        data = b""
        with connection:
            while True:
                while b"\r\n\r\n" not in data:
                    more = connection.recv(65536)
                    if not more:
                        return
                    data += more
                head, _, data = data.partition(b"\r\n\r\n")
                length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
                while len(data) < length:
                    data += connection.recv(65536)
                body, data = data[:length], data[length:]
                streams = b'"stream":true' in body.replace(b" ", b"")
                connection.sendall(answers["text/event-stream" if streams else "application/json"])

    listening = socket.create_server(("127.0.0.1", 0), backlog=256)
    pipe.send(f"http://127.0.0.1:{listening.getsockname()[1]}")

    def accept() -> None:
        while True:
            connection, _ = listening.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    pipe.recv()


def _response(body: bytes, kind: str) -> bytes:
    return f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


@contextmanager
def _escalera(url: str) -> Iterator[Way]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "config.toml").write_text(f'primary = "local"\n[agents.local]\nprovider = "openai"\nbase_url = "{url}/v1"\nmodel = "m"\n')
        port = _free_port()
        command = [sys.executable, "-m", "orchestrator", "--config", str(folder / "config.toml"), "serve", "--port", str(port)]
        environ = {name: value for name, value in os.environ.items() if not name.startswith("ESCALERA_")} | {"ESCALERA_HOME": str(folder / "home")}
        with _running(command, environ, port, folder / "log") as process:
            token = next((folder / "home").rglob("server-token")).read_text().strip()
            yield Way("escalera", f"http://127.0.0.1:{port}/v1/chat/completions", {"authorization": f"Bearer {token}"}, "escalera", process)


@contextmanager
def _litellm(url: str, program: Path) -> Iterator[Way]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = f"  - model_name: m\n    litellm_params:\n      model: openai/m\n      api_base: {url}/v1\n      api_key: none\n"
        (folder / "config.yaml").write_text(f"model_list:\n{model}general_settings:\n  master_key: {KEY}\nlitellm_settings:\n  telemetry: false\n")
        port = _free_port()
        command = [str(program), "--config", str(folder / "config.yaml"), "--host", "127.0.0.1", "--port", str(port)]
        environ = {**os.environ, "LITELLM_LOG": "ERROR", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        with _running(command, environ, port, folder / "log") as process:
            yield Way("litellm", f"http://127.0.0.1:{port}/v1/chat/completions", {"authorization": f"Bearer {KEY}"}, "m", process)


def _litellm_program(folder: Path) -> Path | None:
    """LiteLLM's own command, in a venv of its own; nothing where it cannot be had."""
    program = folder / "bin" / "litellm"
    if program.exists():
        return program
    print(f"installing {LITELLM} into {folder} …")
    folder.mkdir(parents=True, exist_ok=True)  # and installed from in there: this project's own constraints are not LiteLLM's
    uv = shutil.which("uv")
    steps = (
        [[uv, "venv", "-q", str(folder)], [uv, "pip", "install", "-q", "--python", str(folder / "bin" / "python"), LITELLM]]
        if uv
        else [[sys.executable, "-m", "venv", str(folder)], [str(folder / "bin" / "pip"), "install", "-q", LITELLM]]
    )
    if any(subprocess.run(step, check=False, cwd=folder).returncode for step in steps) or not program.exists():
        print("LiteLLM cannot be installed here: it is left out")
        return None
    return program


@contextmanager
def _running(command: list[str], environ: dict[str, str], port: int, log: Path) -> Iterator[int]:
    """The server, once it takes connections: its process."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environ, cwd=log.parent, stdout=output, stderr=output)
        try:
            until = time.monotonic() + STARTS_WITHIN
            while not _answers(port):
                if process.poll() is not None or time.monotonic() > until:
                    raise SystemExit(f"{command[0]} did not start:\n{log.read_text(errors='replace')[-2000:]}")
                time.sleep(0.1)
            yield process.pid
        finally:
            process.terminate()
            process.wait(30)


def _answers(port: int) -> bool:
    try:
        httpx.get(f"http://127.0.0.1:{port}/", timeout=5, trust_env=False)
    except httpx.HTTPError:
        return False
    return True


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def _memory(way: Way) -> float:
    """Megabytes that the process and its children hold in memory, as Linux counts them."""
    if way.process is None:
        return 0.0
    children = Path(f"/proc/{way.process}/task/{way.process}/children").read_text().split()
    return sum(_resident(int(process)) for process in [way.process, *children])


def _worked(way: Way) -> float:
    """Seconds of processor time that the process has used so far: what it takes whatever else the machine does."""
    if way.process is None:
        return 0.0
    fields = Path(f"/proc/{way.process}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident(process: int) -> float:
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:")), 0.0)


if __name__ == "__main__":
    main()
