from __future__ import annotations

import sys
import threading

import pytest

from orchestrator.aside import Aside, aloud


def test_what_is_printed_within_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    with Aside():
        sys.stdout.write("within\n")
        with Aside():
            sys.stdout.write("deep ")
        sys.stdout.writelines(["still"])
    sys.stdout.write("after\n")

    assert capsys.readouterr() == ("after\n", "within\ndeep still")


def test_another_thread_goes_on_printing_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    other = threading.Thread(target=print, args=("answer",))

    with Aside():
        other.start()
        other.join()
        sys.stdout.write("noise\n")

    assert capsys.readouterr() == ("answer\n", "noise\n")


def test_contexts_of_two_threads_may_end_in_any_order(capsys: pytest.CaptureFixture[str]) -> None:
    before, entered, ended = sys.stdout, threading.Event(), threading.Event()

    def other() -> None:
        with Aside():
            entered.set()
            ended.wait(10)
            sys.stdout.write("noise\n")

    thread = threading.Thread(target=other)
    with Aside():
        thread.start()
        entered.wait(10)
    sys.stdout.write("answer\n")
    ended.set()
    thread.join()

    assert sys.stdout is before
    assert capsys.readouterr() == ("answer\n", "noise\n")


def test_a_function_of_ours_is_heard_within_too(capsys: pytest.CaptureFixture[str]) -> None:
    def ask(name: str) -> str:
        sys.stdout.write(f"{name}?\n")
        return "yes"

    with Aside(), Aside():
        answer = aloud(ask)("sure")
        sys.stdout.write("noise\n")

    assert answer == "yes"
    assert capsys.readouterr() == ("sure?\n", "noise\n")
