"""The end of a program in which a plugin has left a thread behind."""

from __future__ import annotations

import subprocess
import sys

ENDLESS = "import threading; threading.Thread(target=threading.Event().wait).start(); from orchestrator.cli.leaving import leave; "


def test_a_thread_that_never_ends_keeps_neither_the_program_nor_what_it_has_to_say() -> None:
    done = subprocess.run([sys.executable, "-c", ENDLESS + "print('said'); leave(3, grace=0.1)"], check=False, capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stdout, done.stderr) == (3, "said\n", "")


def test_without_one_it_exits_as_any_program() -> None:
    done = subprocess.run([sys.executable, "-c", "from orchestrator.cli.leaving import leave; leave(4)"], check=False, timeout=60)

    assert done.returncode == 4
