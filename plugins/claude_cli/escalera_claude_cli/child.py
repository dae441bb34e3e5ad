"""One `claude` child: its pipes, each with a thread of its own, its orientation file, and its end."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from enum import Enum
from typing import IO, Literal

from escalera_claude_cli import processes
from escalera_claude_cli.command import command_line, conversation_of, json_line, program_path
from escalera_claude_cli.environment import CONVERSATION_MARK, log_variables
from escalera_claude_cli.lines import Line, LineReader, Noise, Skipped
from escalera_claude_cli.options import ClaudeOptions
from escalera_claude_cli.prompt_file import SystemPromptFile
from escalera_claude_cli.repeat_log import RepeatLog
from escalera_claude_cli.timing import Timing
from orchestrator.errors import InvalidRequest
from orchestrator.messages import well_formed
from orchestrator.providers import NO_WIRE, Request, Wire

STDERR_TAIL = 64 * 1024
CHUNK = 256 * 1024

PIPE_GRACE = 0.5
"""Seconds that a pipe may stay open behind a child that has gone: something it started may hold it for ever."""

INSTALL_HINT = "install Claude Code (npm install -g @anthropic-ai/claude-code), or name the program in the agent's `bin`"


class Silence(Enum):
    """What stands for no output."""

    END = "end"
    NOTHING = "nothing"


EndOfOutput: Literal[Silence.END] = Silence.END
Nothing: Literal[Silence.NOTHING] = Silence.NOTHING
Output = Line | Noise | Skipped | Literal[Silence.END]


class Child:
    """A started child. `next_output` gives what it says; `end` leaves neither it nor anything it started behind.

    One that `stays` holds its input open behind a good result: it may be sent the message of another turn.
    """

    def __init__(
        self,
        options: ClaudeOptions,
        request: Request,
        *,
        environ: Mapping[str, str],
        marks: Mapping[str, str],
        timing: Timing,
        stays: bool = False,
        platform: str = sys.platform,
    ) -> None:
        self._on_windows = platform == "win32"
        self._marks = marks
        self._timing = timing
        conversation = conversation_of(request)
        self._file = SystemPromptFile(conversation.system_text)
        try:
            argv = command_line(options, request, program=program_path(options.bin, platform), system_prompt_file=self._file.path)
            self._process = _start(argv, request.workspace, {**environ, **log_variables(environ, self._file.log), **marks})
            self._call = json_line({"argv": argv, "system_prompt_file": well_formed(conversation.system_text)})
        except BaseException:
            self._file.remove()
            raise
        self._output: queue.SimpleQueue[Output] = queue.SimpleQueue()
        self._input: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._stderr = bytearray()
        self._family: set[processes.Process] = set()
        self._helpers: set[processes.Process] = set()
        self._questions = _Questions()
        self._stays = stays
        self._wire = NO_WIRE
        self._resulted = False
        self.repeats = RepeatLog(self._file.log)
        self.result: Line | None = None
        """The result line of the turn before: what it counted counts on in the next."""
        self._ending = threading.Lock()
        self._ended = False
        _in_thread(self._write, self._process.stdin)
        _in_thread(self._read, self._process.stdout)
        self._drainer = _in_thread(self._drain, self._process.stderr)

    def begin(self, message: str, wire: Wire = NO_WIRE) -> None:
        """Begin a turn, with its message; what standard error told before belongs to earlier ones. `wire` is told of both pipes."""
        self._wire = wire
        wire.begin()
        wire.sent(self._call)
        if self._resulted:
            self._stderr.clear()
        self._resulted = False
        self.repeats.begin()
        self.send(message)

    def send(self, line: str) -> None:
        """Put a line on the child's standard input; never blocks, and is for nothing once the child has gone."""
        self._wire.sent(line)
        self._input.put(line.encode("ascii"))

    def close_input(self) -> None:
        """Tell the child that nothing more comes: it goes when it is done."""
        self._stays = False
        self._input.put(None)

    @property
    def stays(self) -> bool:
        """Whether it would take another turn."""
        return self._stays

    def is_ready(self) -> bool:
        """Whether it waits for another turn: it is there, and has said nothing since the last."""
        return self._stays and self._output.empty() and self.wait(0) is None

    def is_alone(self) -> bool:
        """Whether all that its turn started has gone, but for the servers that were there before the turn asked anything."""
        started = processes.family(self._process.pid) | processes.marked({CONVERSATION_MARK: self._marks[CONVERSATION_MARK]})
        return {process for process in started - self._helpers if process.pid != self._process.pid} == set()

    def next_output(self, timeout: float) -> Output:
        """The next thing on standard output, `EndOfOutput` behind the last. Raises `queue.Empty` when nothing came."""
        return self._output.get(timeout=timeout)

    def withdrawal(self, request_id: str) -> threading.Event:
        """What is set when the child no longer waits for the answer to this request."""
        return self._questions.withdrawal(request_id)

    def stderr(self) -> str:
        """The last 64 KB of standard error; all of it up to there once the child has gone."""
        if self.wait(0) is not None:
            self._drainer.join(PIPE_GRACE)
        return bytes(self._stderr).decode("utf-8", "replace")

    def wait(self, timeout: float) -> int | None:
        """The exit code, `None` while the child is there; negative for the signal that ended it."""
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None

    def finish(self) -> None:
        """End it after its turn: it goes by itself, or is made to."""
        self.close_input()
        self.wait(self._timing.after_result)
        self.end()

    def end(self) -> None:
        """Interrupt, SIGINT, then TERM and KILL to the child and all it started; returns when they have gone.

        May be called from several threads: the first does it, the others wait.
        """
        self._questions.withdraw_all()
        with self._ending:
            if self._ended:
                return
            self._stays = False  # before the look at the result: the reading thread does both in the other order
            if self._resulted:
                self.close_input()
            self._remember_family()
            if self.wait(0) is None:
                self._ask_to_stop()
            self._sweep()
            self._file.remove()
            self._ended = True

    def end_soon(self) -> None:
        """Begin to end it, in a thread: for whoever cancels, who may be a signal handler."""
        threading.Thread(target=self.end, daemon=False).start()

    def _ask_to_stop(self) -> None:
        self.send(json_line({"type": "control_request", "request_id": "escalera-interrupt", "request": {"subtype": "interrupt"}}))
        if self.wait(self._timing.after_interrupt) is not None:
            return
        if self._on_windows:
            return  # there is no signal that only this child would get
        self._remember_family()
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)
        self.wait(self._timing.after_sigint)

    def _sweep(self) -> None:
        """TERM, then KILL, to what is left; a second look finds what was started meanwhile."""
        self.close_input()
        if self._on_windows:
            processes.end_tree(self._process.pid)
        self._remember_family()
        deadline = self._timing.monotonic() + self._timing.after_term
        self._process.terminate()
        processes.end(self._family | processes.of_turn(self._marks), grace=self._timing.after_term)
        self.wait(max(0.0, deadline - self._timing.monotonic()))
        self._remember_family()
        self._process.kill()
        processes.end(self._family | processes.of_turn(self._marks), grace=0.0)
        self.wait(1.0)

    def _remember_family(self) -> None:
        """Note what the child has started so far: once a process has gone, nothing tells whose its children were."""
        if self.wait(0) is None:
            self._family.update(processes.family(self._process.pid))

    def _write(self, pipe: IO[bytes]) -> None:
        with contextlib.suppress(OSError, ValueError), pipe:
            while (data := self._input.get()) is not None:
                pipe.write(data)
                pipe.flush()

    def _read(self, pipe: IO[bytes]) -> None:
        reader = LineReader()
        with pipe:
            while data := os.read(pipe.fileno(), CHUNK):
                self._wire.received(data)
                for item in reader.feed(data):
                    self._pass_on(item)
        for item in reader.rest():
            self._pass_on(item)
        self._questions.withdraw_all()
        self._output.put(EndOfOutput)

    def _pass_on(self, item: Line | Noise | Skipped) -> None:
        """Queue it; what must not wait for the turn's own thread – it may be asking the user – is done here."""
        if isinstance(item, dict):
            self._act_at_once(item)
        self._output.put(item)

    def _act_at_once(self, line: Line) -> None:
        if line.get("type") == "control_cancel_request":
            self._questions.withdrawal(str(line.get("request_id"))).set()
        if line.get("type") == "system" and line.get("subtype") == "init" and self._stays:
            self._helpers = processes.family(self._process.pid)
        if line.get("type") == "result":
            self._remember_family()
            self._resulted = True
            if not self._stays:
                self.close_input()

    def _drain(self, pipe: IO[bytes]) -> None:
        with pipe:
            while data := os.read(pipe.fileno(), CHUNK):
                self._stderr += data
                del self._stderr[:-STDERR_TAIL]


class _Questions:
    """What the child asked, by request, and whether it still waits for the answer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._withdrawn: dict[str, threading.Event] = {}
        self._over = False

    def withdrawal(self, request_id: str) -> threading.Event:
        with self._lock:
            event = self._withdrawn.setdefault(request_id, threading.Event())
            if self._over:
                event.set()
            return event

    def withdraw_all(self) -> None:
        """Nobody waits any more, also not for what is still to be asked."""
        with self._lock:
            self._over = True
            for event in self._withdrawn.values():
                event.set()


def _start(argv: list[str], cwd: str, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            argv,
            cwd=cwd or None,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise start_failure(argv[0], cwd, error) from error


def start_failure(program: str, cwd: str, error: Exception) -> InvalidRequest:
    """Why a program did not start, told apart from everything it could have said itself."""
    if cwd and not os.path.isdir(cwd):
        return InvalidRequest(f"claude was not started: the workspace {cwd} is no folder", hint="run in a folder that exists")
    if isinstance(error, FileNotFoundError):
        return InvalidRequest(f"claude was not started: there is no program {program!r}", hint=INSTALL_HINT)
    return InvalidRequest(f"claude was not started: {program!r}: {error}", hint="check the agent's `bin`, `env` and `extra_args`")


def _in_thread(work: Callable[[IO[bytes]], None], pipe: IO[bytes] | None) -> threading.Thread:
    thread = threading.Thread(target=work, args=(pipe,), daemon=True)
    thread.start()
    return thread
