"""`python -m bench`: one table of what a turn costs, at every length of the history, beside a reference of the same run."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from bench.fixture import START, Kind, session, turns
from orchestrator.cli.front import Front
from orchestrator.cli.output import Output
from orchestrator.context.digest import digest_limits, primary_activity, prior_escalation
from orchestrator.history.fit import fit
from orchestrator.history.render import Viewer
from orchestrator.history.scope import scope_of
from orchestrator.memory.inject import recalled_from
from orchestrator.messages import Text
from orchestrator.modes import Flags, Mode, decide, facts_of
from orchestrator.planning.case import Wish
from orchestrator.planning.plan import plan_turn
from orchestrator.routing import Choice
from orchestrator.session import Outcome, Role, Session, Turn, TurnLog, last_escalation_boundary
from orchestrator.settings.limits import Limits
from orchestrator.store import Claim, Store
from orchestrator.tags import TagFilter, neutralise

LENGTHS = (10, 100, 1_000, 10_000, 50_000)
BUDGET = 100_000
TTL = timedelta(seconds=600)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15, help="measurements per figure; the median is printed")
    parser.add_argument("--lengths", type=int, nargs="*", default=LENGTHS, help="entries of the history")
    arguments = parser.parse_args()
    reference = _median(_reference, arguments.runs)
    print(f"reference operation (a JSON round trip of 100,000 characters): {reference * 1000:.3f} ms; every time is followed by its ratio to it\n")
    header = ("fixture", "entries", "store a turn", "bytes written", "decide", "digests", "fit", "the three", "open to plan")
    print(" | ".join(f"{name:>16}" for name in header))
    for kind in ("mixed", "primary"):
        for entries in arguments.lengths:
            with tempfile.TemporaryDirectory() as folder:
                print(" | ".join(f"{cell:>16}" for cell in _row(Path(folder), kind, entries, arguments.runs, reference)))
    print()
    _start_up(arguments.runs)
    _stream_filter(reference)


def _reference() -> None:
    json.loads(json.dumps(["reference text with some words in it " * 27] * 100))


def _row(folder: Path, kind: Kind, entries: int, runs: int, reference: float) -> list[str]:
    front = _front(folder)
    store = front.store()
    header = session(str(folder), f"{kind}-{entries}")
    store.import_session(header, tuple(turns(entries, kind)))
    limits = Limits()

    def decided(log: TurnLog) -> None:
        facts = facts_of(header, log, need=None, state=header.state, agent="strong", keeps_conversation=False, workspace=header.workspace)
        decide(facts, limits, Flags())

    def digested(log: TurnLog) -> None:
        limit = digest_limits(limits.context_budget_chars, BUDGET)
        boundary = last_escalation_boundary(log)
        primary_activity(log, boundary=boundary, nonce=header.nonce, limit=limit, sent=lambda _index: True)
        prior_escalation(log, nonce=header.nonce, limit=limit, sent=lambda _index: True)

    def fitted(log: TurnLog) -> None:
        boundary = last_escalation_boundary(log)
        mode = Mode.RETURNING if kind == "mixed" else Mode.FIRST
        scope = scope_of(mode, keeps_conversation=False, boundary=boundary)
        fit(log, scope, Viewer("strong", clean=neutralise), profile="openai", available=BUDGET, returning_boundary=boundary if mode is Mode.RETURNING else None)

    def all_three(log: TurnLog) -> None:
        decided(log)
        digested(log)
        fitted(log)

    # Each time with a log that has read nothing yet, as in a process that takes one turn.
    times = [_median(lambda step=step: step(store.log(header.id)), runs) for step in (decided, digested, fitted, all_three)]  # type: ignore[misc]
    stored, written = _storing(store, header, folder, runs)
    front.close()
    opened = _median(lambda: _open_to_plan(folder, header.id), max(3, runs // 3))
    return [kind, f"{entries:,}", _cell(stored, reference), f"{written:,}", *(_cell(seconds, reference) for seconds in times), _cell(opened, reference)]


def _front(folder: Path) -> Front:
    config = folder / "bench.toml"
    config.write_text(
        'primary = "local"\nescalation = "strong"\n'
        + "".join(f'[agents.{name}]\nprovider = "openai"\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\n' for name in ("local", "strong"))
    )
    output = Output(interactive=False, color=False, plain=True)
    return Front(environ={"ESCALERA_HOME": str(folder)}, cwd=folder, config_file=config, sets=(), flags={}, output=output)


def _storing(store: Store, header: Session, folder: Path, runs: int) -> tuple[float, int]:
    """Seconds and bytes of one stored turn: opened, one step, closed."""
    claim = store.claim(header.id, "bench", TTL)
    if not isinstance(claim, Claim):
        raise SystemExit("the fixture session is held by somebody")
    index = store.log(header.id).next_index
    times, sizes = [], []
    for number in range(index, index + runs):
        turn = Turn(number, Role.PRIMARY, "local", "p" * 200, outcome=Outcome.OPEN, started_at=START)
        step = Text("a" * 800)
        before = _written(folder)
        began = time.perf_counter()
        store.open_turn(claim, turn, header)
        store.append_step(claim, number, 0, step)
        store.close_turn(claim, replace(turn, outcome=Outcome.COMPLETED, steps=(step,), ended_at=START), header)
        times.append(time.perf_counter() - began)
        sizes.append(_written(folder) - before)
    store.release(claim)
    return statistics.median(times), int(statistics.median(sizes))


def _written(folder: Path) -> int:
    """Bytes this process has handed to the disk so far, where the kernel counts them; else the size of the store's files."""
    io = Path("/proc/self/io")
    if io.exists():
        return int(dict(line.split(": ") for line in io.read_text().splitlines())["wchar"])
    return sum(path.stat().st_size for path in folder.rglob("escalera.db*"))


def _open_to_plan(folder: Path, session_id: str) -> None:
    front = _front(folder)
    store = front.store(read_only=True)
    header = store.find(session_id, str(folder))
    plan_turn(
        header,
        store.log(header.id),
        Wish("what next?", Choice(role=Role.ESCALATION)),
        crew=front.crew(header.workspace),
        expiry=front.expiry,
        templates=front.templates(front.project(header.workspace)),
        memory=recalled_from(()),
        workspace=header.workspace,
        now=START,
    )
    front.close()


def _start_up(runs: int) -> None:
    script = str(Path(sys.executable).with_name("escalera"))
    bare = _median(lambda: _run(sys.executable, "-c", "pass"), runs)
    version = _median(lambda: _run(script, "--version"), runs)
    helped = _median(lambda: _run(script, "--help"), runs)
    print(f"bare Python start {bare * 1000:.1f} ms · escalera --version {version / bare:.2f} × that · escalera --help {helped / bare:.2f} ×")


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _stream_filter(reference: float) -> None:
    prose = ("It rained all night, and in the morning 3 < 4 was still true. " * 400_000)[: 20 << 20]
    chunks = [prose[start : start + 200] for start in range(0, len(prose), 200)]
    began = time.perf_counter()
    tag_filter = TagFilter("benchnonce")
    for chunk in chunks:
        tag_filter.feed(chunk)
    tag_filter.finish()
    seconds = time.perf_counter() - began
    print(f"stream filter on prose in chunks of 200: {len(prose) / seconds / 1e6:.0f} MB/s ({seconds / reference:.0f} × the reference for 20 MiB)")
    quarter, whole = (_unclosed(size) for size in (100_000, 400_000))
    print(f"stream filter on an unclosed tag: 400 kB take {whole / quarter:.1f} × what 100 kB take ({whole * 1000:.1f} ms)")


def _unclosed(size: int) -> float:
    text = "<escalera:need:benchnonce>" + "never closed " * (size // 13)

    def run() -> None:
        tag_filter = TagFilter("benchnonce")
        for start in range(0, len(text), 20):
            tag_filter.feed(text[start : start + 20])
        tag_filter.finish()

    return _median(run, 5)


def _median(action: Callable[[], None], runs: int) -> float:
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        action()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def _cell(seconds: float, reference: float) -> str:
    return f"{seconds * 1000:.3f} ms {seconds / reference:.2f}"


if __name__ == "__main__":
    main()
