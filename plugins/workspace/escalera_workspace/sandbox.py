"""Commands inside bubblewrap: they see the system, and change the workspace and nothing else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

PROGRAM = "bwrap"
SHELL = "/bin/sh"
_PROBE_SECONDS = 10.0
_MAX_SAID = 200


@dataclass(frozen=True, slots=True)
class Sandbox:
    """Bubblewrap as it is to be had here, for one workspace."""

    program: str
    root: str
    off_limits: tuple[str, ...]

    def command(self, command: str, *, network: bool, status: int) -> list[str]:
        """The program with all its arguments; it tells `status`, a descriptor, how the command ended, if that was ever begun."""
        return [self.program, *_walls(self.root, self.off_limits, network=network), "--json-status-fd", str(status), "--", SHELL, "-c", command]


def sandbox_of(root: str, off_limits: tuple[str, ...], environ: Mapping[str, str], *, network: bool) -> Sandbox | str:
    """The sandbox, tried with a command that does nothing; or why there is none."""
    program = _found(root, environ)
    if program is None:
        return "bubblewrap is not installed"
    sandbox = Sandbox(program, root, off_limits)
    why_not = _tried(sandbox, environ, network=network)
    return sandbox if why_not is None else f"bubblewrap cannot start here: {why_not}"


def was_begun(said: bytes) -> bool:
    """Whether the command itself ran, from what bubblewrap tells by its status: it names an exit code only then."""
    return any("exit-code" in item for item in _items(said))


def _walls(root: str, off_limits: Sequence[str], *, network: bool) -> Iterator[str]:
    yield from ("--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
    yield from () if network else ("--unshare-net",)
    yield from ("--die-with-parent", "--new-session", "--cap-drop", "ALL")
    # Sockets below /run and /tmp lead out of the sandbox, whatever may be written there.
    yield from ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--tmpfs", "/run")  # noqa: S108  # in the sandbox
    yield from ("--ro-bind-try", "/run/systemd/resolve", "/run/systemd/resolve") if network else ()
    yield from ("--ro-bind-try", "/run/current-system", "/run/current-system")
    hidden = [folder for folder in off_limits if os.path.isdir(folder)]
    yield from (word for folder in hidden if not _is_in(folder, root) for word in ("--tmpfs", folder))
    yield from ("--bind", root, root)
    yield from (word for folder in hidden if _is_in(folder, root) for word in ("--tmpfs", folder))
    yield from ("--chdir", root)


def _found(root: str, environ: Mapping[str, str]) -> str | None:
    """The program on PATH; not one that the workspace brings."""
    folders = [folder for folder in environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(folder)]
    for folder in folders:
        program = shutil.which(PROGRAM, path=folder)
        if program is not None and not _is_in(os.path.realpath(program), root):
            return program
    return None


def _tried(sandbox: Sandbox, environ: Mapping[str, str], *, network: bool) -> str | None:
    """Why it does not work; `None` where it does."""
    ours, theirs = os.pipe()
    try:
        argv = sandbox.command(":", network=network, status=theirs)
        tried = subprocess.run(
            argv,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=[theirs],
            timeout=_PROBE_SECONDS,
            check=False,
        )
        os.set_blocking(ours, False)
        said = _available(ours)
    except subprocess.TimeoutExpired:
        return f"it did not end within {_PROBE_SECONDS:g} s"
    except OSError as error:
        return error.strerror or str(error)
    finally:
        os.close(ours)
        os.close(theirs)
    if tried.returncode == 0 and was_begun(said):
        return None
    words = " ".join(tried.stderr.decode("utf-8", "replace").split())
    return words[:_MAX_SAID].removeprefix(f"{PROGRAM}: ") or f"exit code {tried.returncode}"


def _available(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except BlockingIOError:
        return b""


def _items(said: bytes) -> Iterator[Mapping[str, object]]:
    for line in said.splitlines():
        try:
            item = json.loads(line)
        except ValueError:
            continue
        if isinstance(item, dict):
            yield item


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
