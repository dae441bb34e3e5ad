"""Starts the program many times without loading it each time: a process that has imported it forks once for every run.

Each run is a process of its own, as if the program had been started, with its own arguments, environment, folder and streams; only what the imports
cost is paid once. What a test must see from the very start (what is loaded, how fast, signals, other encodings) starts the program itself.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

PROGRAM = str(Path(sys.executable).with_name("escalera"))
PACKAGES = ("orchestrator", "escalera_claude_cli", "escalera_openrouter", "escalera_embedded", "escalera_bedrock")
LIBRARIES = ("boto3", "httpx", "httpx_sse", "jinja2", "pydantic", "rich.markdown", "prompt_toolkit", "sqlite3", "tenacity", "uuid")


class Starter:
    """The process that has everything loaded. `run` may be called from many threads."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="starter")
        self._address = f"{self._folder.name}/socket"
        self._process = subprocess.Popen([sys.executable, __file__, self._address], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def run(self, command: Sequence[str], cwd: Path, environ: Mapping[str, str], stdin: bytes, timeout: float) -> subprocess.CompletedProcess[bytes]:
        """As `subprocess.run` would with its output captured; raises `TimeoutExpired` alike."""
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            given.write(stdin)
            given.seek(0)
            code = self.begin(command, cwd, environ, (given.fileno(), out.fileno(), err.fileno())).wait(timeout)
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(command, code, out.read(), err.read())

    def begin(self, command: Sequence[str], cwd: Path, environ: Mapping[str, str], streams: tuple[int, int, int]) -> Running:
        """A run with these three streams, which the caller may close when this returns; it is to be waited for."""
        wanted = json.dumps({"arguments": list(command), "cwd": str(cwd), "environ": dict(environ)}).encode()
        call = socket.socket(socket.AF_UNIX)
        call.connect(self._address)
        socket.send_fds(call, [len(wanted).to_bytes(4, "big")], streams)
        call.sendall(wanted)
        return Running(int.from_bytes(_exactly(call, 4), "big"), call)

    def __enter__(self) -> Starter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()


class Running:
    """One run: its process, and the line on which its code comes."""

    def __init__(self, pid: int, call: socket.socket) -> None:
        self.pid, self._call = pid, call

    def wait(self, timeout: float) -> int:
        """The code, negative for the signal that ended it; a run that takes longer is killed and raises `TimeoutExpired`."""
        with self._call:
            self._call.settimeout(timeout)
            try:
                return int.from_bytes(_exactly(self._call, 4), "big", signed=True)
            except TimeoutError as error:
                os.kill(self.pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(PROGRAM, timeout) from error


def _exactly(call: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        found += (more := call.recv(count - len(found)))
        if not more:
            raise ConnectionError("the starter has gone")
    return found


# -- the process that forks ----------------------------------------------------------------------


def serve(address: str) -> None:
    """Answer calls until standard input ends, one fork for each."""
    _load()
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        print("ready", flush=True)  # noqa: T201  # what the other side waits for
        while True:
            call, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _keep(call)
            call.close()


def _load() -> None:
    sys.path[0] = str(Path(sys.executable).parent)
    for name in LIBRARIES:
        importlib.import_module(name)
    for name in PACKAGES:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not module.name.endswith("__main__") and ".testing" not in module.name:
                with suppress(ImportError):
                    importlib.import_module(module.name)


def _keep(call: socket.socket) -> None:
    """Start one run, wait for it, and tell its code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    first, streams, _, _ = socket.recv_fds(call, 4, 3)
    wanted = json.loads(_exactly(call, int.from_bytes(first, "big")))
    number = os.fork()
    if number == 0:
        call.close()
        _become(wanted, streams)
    call.sendall(number.to_bytes(4, "big"))
    code = os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
    with suppress(OSError):  # nobody waits for it any more
        call.sendall(code.to_bytes(4, "big", signed=True))
    os._exit(0)


def _become(wanted: dict[str, object], streams: list[int]) -> None:
    """This process is the program from here on."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, 256)
    os.chdir(str(wanted["cwd"]))
    os.environ.clear()
    os.environ.update(wanted["environ"])
    sys.path[1:1] = os.environ.get("PYTHONPATH", "").split(":") if "PYTHONPATH" in os.environ else []
    sys.argv = list(wanted["arguments"])
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.FileIO(0, closefd=False), "utf-8")
    sys.stdout = sys.__stdout__ = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)), "utf-8")
    sys.stderr = sys.__stderr__ = io.TextIOWrapper(io.BufferedWriter(io.FileIO(2, "w", closefd=False)), "utf-8", "backslashreplace", line_buffering=True)
    os._exit(_code())


def _code() -> int:
    from orchestrator.cli import main

    code = 0
    try:
        main()
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException:  # as the interpreter does with what nobody caught
        traceback.print_exc()
        code = 1
    threading._shutdown()  # what the interpreter does at its end
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except AttributeError:
            pass  # somebody took it away
        except (OSError, ValueError):
            code = 120
    return code


if __name__ == "__main__":
    serve(sys.argv[1])
