"""Secrets in agents' options: given by reference or as text, resolved late (page 5). What is shown of them, `hiding` says."""

from __future__ import annotations

import importlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from orchestrator.errors import SecretMissing
from orchestrator.settings.values import shown

MASK = "***"
_SECRET_NAME = re.compile(r"(^|[_-])(api_?key|key|token|secret|password|passwd|passphrase|pwd|pat|credentials?|bearer|authorization|cookie)$", re.IGNORECASE)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
CARRIERS = ("headers", "env")
"""Tables of free names whose values may be secrets, whatever they are called."""
_EXPECTED = 'expected a text, { env = "NAME" }, { cmd = ["program", "argument"] } or { keyring = "service/name" }'
_CMD_SECONDS = 30


@dataclass(frozen=True, slots=True)
class SecretRef:
    """Where a secret is to be had; not the secret, so it may be shown."""

    kind: Literal["env", "cmd", "keyring"]
    env: str = ""
    cmd: tuple[str, ...] = ()
    keyring: str = ""
    folder: str = field(default="", compare=False)
    """Where the command runs: the folder of the file that gives it, else the working directory."""

    def __str__(self) -> str:
        return f"{{ {self.kind} = {shown(list(self.cmd) if self.kind == 'cmd' else getattr(self, self.kind))} }}"


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret that was written out; its text is in no representation."""

    text: str = field(repr=False)

    def __str__(self) -> str:
        return MASK


def is_secret_name(name: str) -> bool:
    """Whether an option, a header or a variable of this name holds a secret."""
    return _SECRET_NAME.search(_CAMEL.sub("_", name)) is not None


def with_secrets(name: str, value: object) -> object:
    """An option's value with every secret in it as `Secret` or `SecretRef`; raises `ValueError` for a malformed reference.

    Deep in a table of the provider's own only what can be a secret is taken for one: under the same name there may be anything.
    """
    if name in CARRIERS and isinstance(value, Mapping):
        return {key: _carried(key, item) for key, item in value.items()}
    if is_secret_name(name):
        return _secret(value)
    return {key: _within(key, item) for key, item in value.items()} if isinstance(value, Mapping) else value


def has_secret(value: object) -> bool:
    """Whether there is one anywhere in the value."""
    return any(isinstance(leaf, Secret | SecretRef) for leaf in _leaves(value))


def resolve(value: object, *, environ: Mapping[str, str], path: str) -> Any:
    """The value with every secret in it as plain text, for handing to a provider's options and nothing else.

    Raises `SecretMissing` that names `path` and what was missing.
    """
    if isinstance(value, Secret):
        return value.text
    if isinstance(value, SecretRef):
        return _RESOLVERS[value.kind](value, environ, path)
    if isinstance(value, Mapping):
        return {key: resolve(item, environ=environ, path=f"{path}.{key}") for key, item in value.items()}
    if isinstance(value, list):
        return [resolve(item, environ=environ, path=path) for item in value]
    return value


def secret_texts(value: object, *, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The secrets in a value as far as they are at hand: written out or in the environment. Runs nothing."""
    found = (leaf.text if isinstance(leaf, Secret) else environ.get(leaf.env, "") for leaf in _leaves(value) if isinstance(leaf, Secret | SecretRef))
    return tuple(filter(None, found))


def secret_variables(value: object) -> tuple[str, ...]:
    """The environment variables that a value names as the place of a secret."""
    return tuple(leaf.env for leaf in _leaves(value) if isinstance(leaf, SecretRef) and leaf.env)


def _leaves(value: object) -> Iterator[object]:
    if isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _leaves(item)
    else:
        yield value


def _carried(name: str, value: object) -> object:
    if value is False:  # takes the variable away
        return value
    if isinstance(value, Mapping) or is_secret_name(name):
        return _secret(value)
    return value


def _within(name: str, value: object) -> object:
    """Deep in a table: a secret where it can be one, under a name of secrets."""
    if is_secret_name(name) and ((isinstance(value, str) and value) or reference_of(value) is not None):
        return _secret(value)
    if isinstance(value, Mapping):
        return {key: _within(key, item) for key, item in value.items()}
    return [_within("", item) for item in value] if isinstance(value, list) else value


def _secret(value: object) -> Secret | SecretRef:
    secret = Secret(value) if isinstance(value, str) and value else reference_of(value)
    if secret is None:
        raise ValueError(f"is not usable as a secret; {_EXPECTED}")
    return secret


def reference_of(value: object) -> SecretRef | None:
    if isinstance(value, Mapping) and len(value) == 1:
        kind, argument = next(iter(value.items()))
        if kind == "env" and isinstance(argument, str) and argument:
            return SecretRef("env", env=argument)
        if kind == "cmd" and isinstance(argument, list) and argument and all(isinstance(part, str) for part in argument):
            return SecretRef("cmd", cmd=tuple(argument))
        if kind == "keyring" and isinstance(argument, str) and "/" in argument:
            return SecretRef("keyring", keyring=argument)
    return None


def _from_env(ref: SecretRef, environ: Mapping[str, str], path: str) -> str:
    value = environ.get(ref.env, "")
    if not value:
        raise SecretMissing(f"{path}: the environment variable {ref.env} is {'empty' if ref.env in environ else 'not set'}", hint=f"export {ref.env}=…")
    return value


def _from_cmd(ref: SecretRef, environ: Mapping[str, str], path: str) -> str:
    """The first thing the command prints. Neither its output nor its errors are repeated: they may hold the secret."""
    try:
        code, output = _said(ref.cmd, environ, ref.folder or None)
    except subprocess.TimeoutExpired:
        raise SecretMissing(f"{path}: the command {ref.cmd[0]!r} gave no secret within {_CMD_SECONDS} s") from None
    except (OSError, ValueError) as error:
        raise SecretMissing(f"{path}: the command {ref.cmd[0]!r} cannot be run: {getattr(error, 'strerror', None) or error}") from None
    secret = output.decode("utf-8", errors="replace").strip()
    if code != 0 or not secret:
        outcome = f"ended with exit code {code}" if code else "printed nothing"
        raise SecretMissing(f"{path}: the command {ref.cmd[0]!r} {outcome}", hint="run it by hand to see why")
    return secret


def _said(command: Sequence[str], environ: Mapping[str, str], folder: str | None) -> tuple[int, bytes]:
    """Exit code and output. Whatever cuts it short – the time, an interrupt – ends the command and all it has started."""
    process = None
    try:
        nothing, pipe = subprocess.DEVNULL, subprocess.PIPE
        process = subprocess.Popen(command, cwd=folder, env=dict(environ), stdin=nothing, stdout=pipe, stderr=pipe, start_new_session=True)
        output, _ = process.communicate(timeout=_CMD_SECONDS)
    except BaseException:
        if process is not None:
            _kill(process)
            process.communicate()
        raise
    return process.returncode, output


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)


def _from_keyring(ref: SecretRef, _: Mapping[str, str], path: str) -> str:
    try:
        keyring = importlib.import_module("keyring")
    except ImportError:
        raise SecretMissing(f"{path}: a keyring is named, and the package `keyring` is not installed", hint="pip install keyring") from None
    except (Exception, SystemExit) as error:  # strangers' code, which may be anything that is called so
        raise SecretMissing(f"{path}: the package `keyring` cannot be loaded: {type(error).__name__}", hint="pip install --force-reinstall keyring") from None
    service, name = ref.keyring.rsplit("/", 1)
    try:
        secret = keyring.get_password(service, name)
    except (Exception, SystemExit) as error:  # whichever of its many backends it is: each raises what it likes
        raise SecretMissing(f"{path}: the keyring does not answer: {type(error).__name__}") from None
    if not secret:
        raise SecretMissing(f"{path}: the keyring has nothing for {ref.keyring!r}", hint=f"keyring set {service} {name}")
    return str(secret)


_RESOLVERS = {"env": _from_env, "cmd": _from_cmd, "keyring": _from_keyring}
