"""Secrets in agents' options: given by reference or as text, resolved late, never shown (page 5)."""

from __future__ import annotations

import importlib
import json
import math
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, time
from typing import Any, Literal

from orchestrator.errors import SecretMissing
from orchestrator.settings.values import shown

MASK = "***"

_SECRET_NAME = re.compile(r"(^|[_-])(api_?key|key|token|secret|password|passwd|authorization|cookie)$", re.IGNORECASE)
_CARRIERS = ("headers", "env")
"""Tables of free names whose values may be secrets, whatever they are called."""
_URL_SECRET = re.compile(r"(?<=://)[^/@\s]*@|(?<=[?&])([^=&\s]*(?:key|token|secret|password|sig)[^=&\s]*=)[^&\s#]*", re.IGNORECASE)
_EXPECTED = 'expected a text, { env = "NAME" }, { cmd = ["program", "argument"] } or { keyring = "service/name" }'
_CMD_SECONDS = 30


@dataclass(frozen=True, slots=True)
class SecretRef:
    """Where a secret is to be had; not the secret, so it may be shown."""

    kind: Literal["env", "cmd", "keyring"]
    env: str = ""
    cmd: tuple[str, ...] = ()
    keyring: str = ""

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
    return _SECRET_NAME.search(name) is not None


def with_secrets(name: str, value: object) -> object:
    """An option's value with every secret in it as `Secret` or `SecretRef`; raises `ValueError` for a malformed reference."""
    if name in _CARRIERS and isinstance(value, Mapping):
        return {key: _carried(key, item) for key, item in value.items()}
    return _secret(value) if is_secret_name(name) else value


def has_secret(value: object) -> bool:
    """Whether there is one anywhere in the value."""
    if isinstance(value, Mapping):
        return any(has_secret(item) for item in value.values())
    return isinstance(value, Secret | SecretRef)


def has_written_secret(name: str, value: object) -> bool:
    """Whether a raw value holds a secret that is written out, at any depth: under a name of secrets, or in a URL."""
    if isinstance(value, Mapping):
        # Under a name of secrets a table is a reference to one.
        return (name in _CARRIERS or not is_secret_name(name)) and any(has_written_secret(key, item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return any(has_written_secret(name, item) for item in value)
    return isinstance(value, str) and (is_secret_name(name) or _URL_SECRET.search(value) is not None)


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
    return value


def secret_texts(value: object, *, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The secrets in a value as far as they are at hand: written out or in the environment. Runs nothing."""
    if isinstance(value, Mapping):
        return tuple(text for item in value.values() for text in secret_texts(item, environ=environ))
    if isinstance(value, Secret):
        return (value.text,)
    if isinstance(value, SecretRef) and environ.get(value.env):
        return (environ[value.env],)
    return ()


def secret_variables(value: object) -> tuple[str, ...]:
    """The environment variables that a value names as the place of a secret."""
    if isinstance(value, Mapping):
        return tuple(name for item in value.values() for name in secret_variables(item))
    return (value.env,) if isinstance(value, SecretRef) and value.env else ()


def masked(name: str, value: object) -> Any:
    """A value as it may be shown: secrets as `***`, references as what they are, URLs without what is secret in them.

    Works on raw values too, for files that are not trusted yet.
    """
    if isinstance(value, SecretRef):
        return str(value)
    if isinstance(value, Secret):
        return MASK
    if isinstance(value, Mapping):
        return {key: masked("authorization" if name == "headers" and isinstance(item, str) else key, item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_masked_word(name, before, item) for before, item in zip((None, *value), value, strict=False)]
    if isinstance(value, str):
        return MASK if is_secret_name(name) else _masked_text(name, value)
    return value


def showable(name: str, value: object) -> Any:
    """As `masked`, and as JSON can carry it: TOML's dates and times, `inf` and `nan` become texts."""
    return _plain(masked(name, value))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, date | time):
        return value.isoformat()
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _masked_word(name: str, before: object, word: object) -> Any:
    """One of a list, which may be a command line: `--api-key=…`, and what stands behind `--api-key`."""
    if isinstance(word, str) and isinstance(before, str) and before.startswith("-") and is_secret_name(before):
        return MASK
    if isinstance(word, str) and word.startswith("-"):
        flag, given, _ = word.partition("=")
        return f"{flag}={MASK}" if given and is_secret_name(flag) else masked(name, word)
    return masked(name, word)


def _masked_text(name: str, text: str) -> str:
    """A text without the secrets of a URL, or of the JSON object that it is."""
    if text.lstrip().startswith("{"):
        with suppress(ValueError, RecursionError):
            value = json.loads(text)
            clear = masked(name, value)
            return text if clear == value else json.dumps(clear, ensure_ascii=False)
    return _URL_SECRET.sub(lambda match: (match[1] or "") + MASK + ("" if match[1] else "@"), text)


def _carried(name: str, value: object) -> object:
    if isinstance(value, Mapping) or is_secret_name(name):
        return _secret(value)
    return value


def _secret(value: object) -> Secret | SecretRef:
    if isinstance(value, str) and value:
        return Secret(value)
    if isinstance(value, Mapping) and len(value) == 1:
        kind, argument = next(iter(value.items()))
        if kind == "env" and isinstance(argument, str) and argument:
            return SecretRef("env", env=argument)
        if kind == "cmd" and isinstance(argument, list) and argument and all(isinstance(part, str) for part in argument):
            return SecretRef("cmd", cmd=tuple(argument))
        if kind == "keyring" and isinstance(argument, str) and "/" in argument:
            return SecretRef("keyring", keyring=argument)
    raise ValueError(f"is not usable as a secret; {_EXPECTED}")


def _from_env(ref: SecretRef, environ: Mapping[str, str], path: str) -> str:
    value = environ.get(ref.env, "")
    if not value:
        raise SecretMissing(f"{path}: the environment variable {ref.env} is {'empty' if ref.env in environ else 'not set'}", hint=f"export {ref.env}=…")
    return value


def _from_cmd(ref: SecretRef, environ: Mapping[str, str], path: str) -> str:
    """The first thing the command prints. Neither its output nor its errors are repeated: they may hold the secret."""
    try:
        code, output = _said(ref.cmd, environ)
    except subprocess.TimeoutExpired:
        raise SecretMissing(f"{path}: the command {ref.cmd[0]!r} gave no secret within {_CMD_SECONDS} s") from None
    except (OSError, ValueError) as error:
        raise SecretMissing(f"{path}: the command {ref.cmd[0]!r} cannot be run: {getattr(error, 'strerror', None) or error}") from None
    secret = output.decode("utf-8", errors="replace").strip()
    if code != 0 or not secret:
        outcome = f"ended with exit code {code}" if code else "printed nothing"
        raise SecretMissing(f"{path}: the command {ref.cmd[0]!r} {outcome}", hint="run it by hand to see why")
    return secret


def _said(command: Sequence[str], environ: Mapping[str, str]) -> tuple[int, bytes]:
    """Exit code and output. Whatever cuts it short – the time, an interrupt – ends the command and all it has started."""
    process = None
    try:
        nothing, pipe = subprocess.DEVNULL, subprocess.PIPE
        process = subprocess.Popen(command, env=dict(environ), stdin=nothing, stdout=pipe, stderr=pipe, start_new_session=True)
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
    service, name = ref.keyring.rsplit("/", 1)
    try:
        secret = keyring.get_password(service, name)
    except keyring.errors.KeyringError as error:
        raise SecretMissing(f"{path}: the keyring does not answer: {type(error).__name__}") from None
    if not secret:
        raise SecretMissing(f"{path}: the keyring has nothing for {ref.keyring!r}", hint=f"keyring set {service} {name}")
    return str(secret)


_RESOLVERS = {"env": _from_env, "cmd": _from_cmd, "keyring": _from_keyring}
