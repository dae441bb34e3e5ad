"""A sample of the benchmarks that prove something, as they are run from a checkout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.proof, pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory and open files are read in /proc")]


def bench(module: str, *arguments: str) -> list[dict[str, str]]:
    """The rows of the table that it prints."""
    result = subprocess.run([sys.executable, "-m", module, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    table, *_ = result.stdout.split("\n\n")
    head, *rows = [[cell.strip() for cell in line.split("|")] for line in table.splitlines()]
    return [dict(zip(head, row, strict=True)) for row in rows]


@pytest.mark.long
def test_many_turns_leave_nothing_behind() -> None:
    rows = bench("bench.soak", "--turns", "40")
    assert [row["kind"] for row in rows] == ["openai", "openrouter", "bedrock"]
    threads = [[int(count) for count in row["threads"].split(" -> ")] for row in rows]
    assert all(after <= before for before, after in threads), rows
    assert all("completed" in row["how they ended"] and "Cancelled" in row["how they ended"] for row in rows)


def test_the_reader_of_server_sent_events_keeps_up_with_the_usual_one() -> None:
    rows = [row for row in bench("bench.wire", "--runs", "5", "--events", "4000") if row["reader"] == "our reader" and row["stream"].startswith("SSE")]
    assert len(rows) == 4
    assert all(float(row["of httpx-sse"]) > 0.5 for row in rows), rows


def test_the_memory_is_measured_and_ranks_ten_times_as_many_in_far_less_than_a_hundred_times_the_time() -> None:
    rows = bench("bench.memory", "--sizes", "100", "1000", "--runs", "5")
    assert [row["percepts"] for row in rows] == ["100", "1,000"]
    few, many = (float(row["gate and rank"].split()[0]) for row in rows)
    assert many < 100 * few


def test_sweeps_of_five_knobs_find_every_recorded_decision_again_with_two_processes() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "bench.tune", "--sessions", "12", "--most-turns", "60"], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "12 sessions, 415 turns" in result.stdout
    assert "self-test: 0 of 415 decisions wrong, tokens off by 0.0000 %" in result.stdout
