"""How the program was installed, and by which command a plugin comes to stand beside it, or goes: each way has one that survives its upgrades."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit
from urllib.request import url2pathname

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from orchestrator.errors import PluginError, UsageError
from orchestrator.settings.hiding import masked

HOST = "escalera"
Way = Literal["uv tool", "pipx", "venv", "system"]

Which = Callable[[str], str | None]
"""Where a program is on PATH, as `shutil.which` says it."""


@dataclass(frozen=True, slots=True)
class Installation:
    """Where the program runs: its Python, and the tool that keeps that environment."""

    way: Way
    python: str
    prefix: Path
    tool: str | None
    """The program that changes it, where it is not this Python's own pip: uv or pipx, if it is on PATH."""
    has_pip: bool = True
    managed: bool = False
    """Whether the system's package manager owns this Python."""


@dataclass(frozen=True, slots=True)
class Command:
    """What changes the installation; `why_not` says why it is for the user to run."""

    argv: Sequence[str]
    why_not: str | None = None

    def __str__(self) -> str:
        return shlex.join(self.argv)


@dataclass(frozen=True, slots=True)
class Missing:
    """A plugin that is wanted and is not there as wanted."""

    requirement: str
    distribution: str
    problem: str
    can_be_had: bool = True
    """Whether it is a requirement at all; nothing else is given to a tool that installs."""

    @property
    def shown(self) -> str:
        """The requirement without the secrets in its address."""
        return _shown(self.requirement)


def installation(*, prefix: Path, base_prefix: Path, standard_library: Path, python: str, has_pip: bool, which: Which) -> Installation:
    """How this program was installed, told by what each tool leaves in the environments that it keeps."""
    if (prefix / "uv-receipt.toml").is_file():
        return Installation("uv tool", python, prefix, which("uv"), has_pip)
    if (prefix / "pipx_metadata.json").is_file():
        return Installation("pipx", python, prefix, which("pipx"), has_pip)
    if prefix != base_prefix:
        return Installation("venv", python, prefix, which("uv"), has_pip)
    return Installation("system", python, prefix, which("uv"), has_pip, managed=(standard_library / "EXTERNALLY-MANAGED").is_file())


def adding(place: Installation, requirements: Sequence[str]) -> Command:
    """The command that installs these beside the program. Raises `PluginError` where the tool's own record cannot be read."""
    match place.way:
        case "uv tool":
            return _uv_tool(place, add=requirements, drop=())
        case "pipx":
            return _by(place, "pipx", ["inject", place.prefix.name, *requirements])
        case _:
            return _by_pip(place, "install", requirements)


def removing(place: Installation, distributions: Sequence[str]) -> Command:
    """The command that removes these. Raises `PluginError` as `adding`, and for what came as a part of the program."""
    match place.way:
        case "uv tool":
            return _uv_tool(place, add=(), drop=distributions)
        case "pipx":
            return _by(place, "pipx", ["uninject", place.prefix.name, *distributions])
        case _:
            return _by_pip(place, "uninstall", distributions)


def requirement_of(text: str, folder: Path) -> str:
    """What is to be installed, in the form that is kept: a requirement, or a wheel or a project's folder by its whole path.

    Raises `UsageError`.
    """
    text = text.strip()
    path = folder / Path(text).expanduser()
    if ("/" in text or text.endswith(".whl")) and "@" not in text:
        if not path.exists():
            raise UsageError(f"there is no {path}", hint="give a distribution's name, a wheel, or a project's folder")
        return f"{_name_at(path)} @ {path.resolve().as_uri()}"
    try:
        return str(Requirement(text))
    except InvalidRequirement as error:
        raise UsageError(
            f"{_shown(text)!r} is no requirement: {_shown(str(error).partition(chr(10))[0])}", hint="as in: escalera plugins install escalera-acme"
        ) from error


def distribution_of(requirement: str) -> str:
    """The name of the distribution, in its one normal form. Raises `UsageError`."""
    try:
        return canonicalize_name(Requirement(requirement).name)
    except InvalidRequirement as error:
        raise UsageError(f"{_shown(requirement)!r} is no requirement") from error


def names(requirement: str, distribution: str) -> bool:
    """Whether a text is a requirement of that distribution."""
    try:
        return canonicalize_name(Requirement(requirement).name) == distribution
    except InvalidRequirement:
        return False


def missing(wanted: Iterable[str], versions: Mapping[str, str]) -> list[Missing]:
    """Those of the wanted that are not installed as wanted; `versions` by distribution, in normal form."""
    found = []
    for text in wanted:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            found.append(Missing(text, _shown(text), "is no requirement", can_be_had=False))
            continue
        name = canonicalize_name(requirement.name)
        version = versions.get(name)
        if version is None:
            found.append(Missing(text, name, "is not installed"))
        elif not requirement.specifier.contains(version, prereleases=True):
            found.append(Missing(text, name, f"is installed as {version}"))
    return found


def _shown(text: str) -> str:
    return str(masked("", [text])[0])


def _name_at(path: Path) -> str:
    """The distribution that a wheel or a project's folder makes."""
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    try:
        if path.is_dir():
            return str(tomllib.loads((path / "pyproject.toml").read_text("utf-8"))["project"]["name"])
        return str(parse_wheel_filename(path.name)[0])
    except (OSError, ValueError, KeyError, TypeError, InvalidWheelFilename) as error:
        raise UsageError(f"{path} is neither a wheel nor a folder with a pyproject.toml that names its project") from error


# -- each way -------------------------------------------------------------------------------------


def _by(place: Installation, tool: str, arguments: Sequence[str]) -> Command:
    return Command([place.tool or tool, *arguments], None if place.tool else f"{tool} is not on PATH")


def _by_pip(place: Installation, verb: Literal["install", "uninstall"], names: Sequence[str]) -> Command:
    yes = ["--yes"] if verb == "uninstall" and place.has_pip else []
    argv = [place.python, "-m", "pip", verb, *yes, *names]
    if place.managed:
        return Command(["uv", "tool", "install", HOST, *(part for name in names for part in ("--with", name))], _MANAGED)
    if place.has_pip:
        return Command(argv)
    if place.tool is None:
        return Command(argv, "this Python has no pip, and uv is not on PATH")
    return Command([place.tool, "pip", verb, "--python", place.python, *names])


_MANAGED = "this Python belongs to the system's package manager; install escalera by a tool that gives it an environment of its own"


def _uv_tool(place: Installation, *, add: Sequence[str], drop: Sequence[str]) -> Command:
    """uv keeps the list of what a tool was installed with; a new list takes the old one's place."""
    main, beside = _receipt(place.prefix / "uv-receipt.toml")
    changed = {*map(distribution_of, add), *map(canonicalize_name, drop)}
    if unknown := [name for name in drop if canonicalize_name(name) not in {distribution_of(text) for text, _ in beside}]:
        raise PluginError(f"{', '.join(unknown)} was not installed beside escalera by uv", hint="it may belong to one of escalera's extras")
    kept = [word for text, editable in beside if distribution_of(text) not in changed for word in _words(text, editable, "--with-editable", "--with")]
    return _by(place, "uv", ["tool", "install", *main, *kept, *(word for text in add for word in ("--with", text))])


def _words(text: str, editable: bool, option: str, other: str | None = None) -> Sequence[str]:
    if editable:
        return (option, url2pathname(urlsplit(Requirement(text).url or "").path))
    return (text,) if other is None else (other, text)


def _receipt(path: Path) -> tuple[Sequence[str], Sequence[tuple[str, bool]]]:
    """The words that name the program itself; what it was installed with, and whether that is editable."""
    try:
        entries = [_entry(entry) for entry in tomllib.loads(path.read_text("utf-8"))["tool"]["requirements"]]
    except (OSError, ValueError, KeyError, TypeError, InvalidRequirement) as error:
        raise PluginError(f"{path} cannot be read: {error}", hint="uv tool install escalera --with …, with all that you want beside it") from error
    own = [(text, editable) for text, editable in entries if distribution_of(text) == HOST]
    beside = [(text, editable) for text, editable in entries if distribution_of(text) != HOST]
    if len(own) != 1:
        raise PluginError(f"{path} does not name escalera once", hint="uv tool install escalera --with …")
    return _words(*own[0], "--editable"), beside


def _entry(entry: Mapping[str, Any]) -> tuple[str, bool]:
    """A requirement of the receipt, and whether it is editable. `ValueError` for a form that is not known."""
    unknown = set(entry) - {"name", "extras", "specifier", "directory", "editable", "path", "url"}
    if unknown:
        raise ValueError(f"{entry['name']} was installed from {', '.join(sorted(unknown))}")
    extras = f"[{','.join(entry['extras'])}]" if entry.get("extras") else ""
    local = entry.get("editable") or entry.get("directory") or entry.get("path")
    url = Path(local).as_uri() if local else entry.get("url")
    text = f"{entry['name']}{extras} @ {url}" if url else f"{entry['name']}{extras}{entry.get('specifier', '')}"
    return str(Requirement(text)), "editable" in entry
