"""The plugin manager: every entry point loaded on its own, so that a bad plugin is a report and not the end (page 7)."""

from __future__ import annotations

import importlib.metadata
import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import Distribution, EntryPoint
from types import MappingProxyType
from typing import Any, cast

import pluggy

from orchestrator import __version__, hookspecs
from orchestrator.errors import PluginError
from orchestrator.hookspecs import API_LEVEL, PROJECT
from orchestrator.providers import ProviderKind
from orchestrator.settings.problems import did_you_mean, nearest

HOST = "escalera"

DISTRIBUTIONS = MappingProxyType(
    {
        "claude-cli": "escalera-claude-cli",
        "bedrock": "escalera-bedrock",
        "openrouter": "escalera-openrouter",
        "openai": "escalera-openrouter",
        "embedded": "escalera-embedded",
    }
)
"""Which distribution brings a kind of ours, for saying how to install it."""

BUILT_IN: tuple[str, ...] = ("orchestrator.sensors",)
"""Plugins that are part of the core, as import strings (`module` or `module:object`); loaded like any other, before them."""


@dataclass(frozen=True, slots=True)
class PluginReport:
    """One plugin as it was found: what it brings, or what is wrong with it. A plugin with a problem may still be loaded."""

    name: str
    distribution: str
    version: str
    loaded: bool = False
    kinds: tuple[str, ...] = ()
    problem: str | None = None
    blocked: bool = False
    hooks: tuple[str, ...] = ()
    """The hooks that it implements, by name."""

    @property
    def label(self) -> str:
        """Which plugin of which distribution, for messages."""
        return f"plugin {self.name} ({self.distribution} {self.version})"

    def __str__(self) -> str:
        return f"{self.label}: {self.problem or 'loaded'}"


@dataclass(frozen=True, slots=True)
class Implementation:
    """One plugin's part in one hook, called on its own."""

    plugin: PluginReport
    function: Callable[..., object]
    parameters: tuple[str, ...]

    def __call__(self, **arguments: object) -> object:
        """Hand on those arguments that it takes; it may raise anything."""
        return self.function(*(arguments[name] for name in self.parameters))


class PluginManager:
    """The loaded plugins and what they registered. Built once, in a front end, and handed down."""

    def __init__(self) -> None:
        self._manager = pluggy.PluginManager(PROJECT)
        self._manager.add_hookspecs(hookspecs)
        self._kinds: dict[str, ProviderKind] = {}
        self._owners: dict[str, PluginReport] = {}
        self._reports: list[PluginReport] = []
        self._loaded: list[tuple[object, PluginReport]] = []

    @classmethod
    def load(cls, entry_points: Iterable[EntryPoint], *, built_in: Iterable[str] = (), blocked: Collection[str] = (), strict: bool = False) -> PluginManager:
        """Load what is built in (`BUILT_IN`, in the program), then plugins in the order of their distributions' names, whatever order they were found in.

        `blocked` are names of plugins or distributions. With `strict` the first problem raises `PluginError`.
        """
        manager = cls()
        seen: set[tuple[str, str]] = set()
        for entry in (*map(_built_in, built_in), *sorted(entry_points, key=_order)):
            identity = (_normal(_distribution(entry)), entry.value)
            if identity in seen:
                continue
            seen.add(identity)
            report = manager._load(entry, blocked)
            if report is None:
                continue
            manager._reports.append(report)
            if strict and report.problem and not report.blocked:
                raise PluginError(str(report), hint="plugins.strict is on; `escalera plugins list` shows all of them")
        return manager

    def implementations(self, hook: str) -> tuple[Implementation, ...]:
        """Each plugin's part in a hook, in loading order, whatever order its author asked for."""
        found = {id(item.plugin): item for item in getattr(self._manager.hook, hook).get_hookimpls()}
        return tuple(Implementation(report, found[id(plugin)].function, found[id(plugin)].argnames) for plugin, report in self._loaded if id(plugin) in found)

    def reports(self) -> tuple[PluginReport, ...]:
        """Every plugin that was found, in loading order."""
        return tuple(self._reports)

    def kinds(self) -> Mapping[str, ProviderKind]:
        """The registered provider kinds by name."""
        return MappingProxyType(self._kinds)

    def kind(self, name: str) -> ProviderKind:
        """A provider kind; `PluginError` says which distribution brings it, why it did not load, or which name was probably meant."""
        if name in self._kinds:
            return self._kinds[name]
        raise missing_kind(name, self._kinds, self._reports)

    def _load(self, entry: EntryPoint, blocked: Collection[str]) -> PluginReport | None:
        """The report, or nothing when the same plugin is there already under another name."""
        report = PluginReport(entry.name, _distribution(entry), _version(entry))
        if entry.name in blocked or _normal(report.distribution) in {_normal(name) for name in blocked}:
            return replace(report, problem="blocked by the setting plugins.blocked", blocked=True)
        try:
            if EntryPoint.pattern.match(entry.value) is None:
                raise _Refused(f"its entry point {entry.value!r} is none; expected module or module:object")
            _check_host_version(entry)
            plugin = entry.load()
            if plugin is None:
                raise _Refused(f"{entry.value} is None")
            if self._manager.is_registered(plugin):
                return None
            _check_api_level(entry, plugin)
            self._register(plugin, f"{report.distribution}:{entry.value}")
        # Importing a plugin runs code of strangers, which may raise anything; only what the user presses goes through.
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return replace(report, problem=_reason(error, entry))
        report = self._take_kinds(plugin, replace(report, hooks=tuple(sorted(item.name for item in self._hooks_of(plugin) if item.has_spec()))))
        if report.loaded:
            self._loaded.append((plugin, report))
        return report

    def _register(self, plugin: object, name: str) -> None:
        """All of the plugin's hooks or none of them."""
        try:
            self._manager.register(plugin, name=name)
            wrappers = [hook.name for hook in self._hooks_of(plugin) for item in hook.get_hookimpls() if item.plugin is plugin and _wraps(item)]
            if wrappers:
                raise _Refused(f"implements {', '.join(wrappers)} as a wrapper; each plugin's part in a hook is called on its own")
        except BaseException:
            if self._manager.is_registered(plugin):
                self._manager.unregister(plugin)
            raise

    def _hooks_of(self, plugin: object) -> list[pluggy.HookCaller]:
        return self._manager.get_hookcallers(plugin) or []

    def _take_kinds(self, plugin: object, report: PluginReport) -> PluginReport:
        """Register what the plugin's hook gives: all of it or nothing, but for names that others have already."""
        try:
            offered = self._offered(plugin)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # strangers' code, as above
            self._manager.unregister(plugin)
            return replace(report, hooks=(), problem=f"{hookspecs.escalera_provider_kinds.__name__} failed: {_reason(error)}")
        problems = self._unknown_hooks(plugin)
        problems += [_taken(kind.name, self._owners[kind.name]) for kind in offered if kind.name in self._owners]
        fresh = [kind for kind in offered if kind.name not in self._owners]
        report = replace(report, loaded=True, kinds=tuple(kind.name for kind in fresh), problem="; ".join(problems) or None)
        for kind in fresh:
            self._kinds[kind.name] = kind
            self._owners[kind.name] = report
        return report

    def _offered(self, plugin: object) -> list[ProviderKind]:
        implementations = [item for item in self._manager.hook.escalera_provider_kinds.get_hookimpls() if item.plugin is plugin]
        kinds: list[Any] = [kind for item in implementations for kind in cast("Iterable[Any] | None", item.function()) or ()]
        for kind in kinds:
            _check_kind(kind)
        names = [kind.name for kind in kinds]
        if len(set(names)) < len(names):
            raise _Refused(f"the same kind twice: {', '.join(names)}")
        return kinds

    def _unknown_hooks(self, plugin: object) -> list[str]:
        """Hooks that are never called: names that do not exist, and functions that nothing marks as a hook."""
        known = [name for name in vars(self._manager.hook) if getattr(self._manager.hook, name).has_spec()]
        problems = []
        for hook in self._hooks_of(plugin):
            optional = any(item.optionalhook for item in hook.get_hookimpls() if item.plugin is plugin)
            if not hook.has_spec() and not optional:
                problems.append(f"implements the unknown hook {hook.name}, which is never called{did_you_mean(nearest(hook.name, known))}")
        implemented = {hook.name for hook in self._hooks_of(plugin)}
        unmarked = [name for name in known if name not in implemented and _defines(plugin, name)]
        return problems + [f"defines {name} without @hookimpl, so it is never called" for name in unmarked]


def installed_entry_points(distributions: Iterable[Distribution] | None = None) -> Sequence[EntryPoint]:
    """The plugins of this environment, or of those distributions; of several with one name the first has it, as it has its modules.

    Each is read on its own: one whose entry points cannot be read is a plugin that does not load, if it has any for us.
    """
    found: dict[str, Sequence[EntryPoint]] = {}
    for distribution in importlib.metadata.distributions() if distributions is None else distributions:
        entries = _entries_of(distribution)
        if entries:
            found.setdefault(_normal(_distribution(entries[0])), entries)
    return tuple(entry for entries in found.values() for entry in entries)


def missing_kind(name: str, kinds: Collection[str], reports: Iterable[PluginReport] = ()) -> PluginError:
    """The error for a provider kind that nothing registered."""
    broken = [report for report in reports if report.problem]
    distribution = DISTRIBUTIONS.get(name)
    if distribution is None:
        known = {*kinds, *DISTRIBUTIONS}
        unloaded = ", ".join(report.label for report in broken if not report.loaded)
        text = f"there is no provider kind {name!r}{did_you_mean(nearest(name, known))}" + (f"; not loaded: {unloaded}" if unloaded else "")
        return PluginError(text, hint=f"known kinds: {', '.join(sorted(known))}; `escalera plugins list` says why a plugin is not loaded")
    failed = next((report for report in broken if _normal(report.distribution) == distribution), None)
    if failed is not None:
        return PluginError(f"the provider kind {name!r} is not there: {failed}", hint="`escalera plugins list` shows all plugins")
    return PluginError(f"the provider kind {name!r} is not installed: {distribution} brings it", hint=f"escalera plugins install {distribution}")


class _Refused(Exception):
    """A plugin that breaks a rule of ours; the text says which."""


class _Unreadable(EntryPoint):
    """Stands for the entry points of a distribution that cannot be read."""

    def load(self) -> Any:  # what an entry point loads may be anything; this one is nothing
        raise _Refused("its entry_points.txt cannot be read; was the package built rightly?")


def _entries_of(distribution: Distribution) -> Sequence[EntryPoint]:
    try:
        return [entry for entry in distribution.entry_points if entry.group == PROJECT]
    except Exception:  # whoever built it: the module that reads this raises whatever it meets
        return [_of(distribution, _Unreadable("entry_points.txt", "unreadable", PROJECT))] if _is_meant_for_us(distribution) else []


def _is_meant_for_us(distribution: Distribution) -> bool:
    try:
        return re.search(rf"^\s*\[\s*{PROJECT}\s*\]", distribution.read_text("entry_points.txt") or "", re.MULTILINE) is not None
    except (OSError, ValueError):
        return False


def _of(distribution: Distribution, entry: EntryPoint) -> EntryPoint:
    vars(entry).update(dist=distribution)  # as the module itself does it: there is no other way
    return entry


def _built_in(target: str) -> EntryPoint:
    return _OfTheCore(target.partition(":")[0].rpartition(".")[2], target, PROJECT)


class _OfTheCore(EntryPoint):
    """What is built in comes with no metadata of its own: it is the core's."""


def _wraps(item: pluggy.HookImpl) -> bool:
    return item.wrapper or item.hookwrapper


def _defines(plugin: object, name: str) -> bool:
    """Whether it is the plugin's own function, and not one of ours that it imported."""
    function = inspect.getattr_static(plugin, name, None)
    return inspect.isfunction(function) and function is not getattr(hookspecs, name)


def _order(entry: EntryPoint) -> tuple[str, str, str]:
    return (_normal(_distribution(entry)), entry.name, entry.value)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _distribution(entry: EntryPoint) -> str:
    return _metadata(entry, "Name")


def _version(entry: EntryPoint) -> str:
    return _metadata(entry, "Version")


def _metadata(entry: EntryPoint, key: str) -> str:
    if isinstance(entry, _OfTheCore):
        return {"Name": HOST, "Version": __version__}[key]
    try:
        metadata = entry.dist.metadata if entry.dist is not None else None
        return str(metadata[key]) if metadata is not None and key in metadata else "unknown"
    except (TypeError, OSError, ValueError):
        # A half-removed package has an entry point and no metadata; what that raises differs between versions of Python.
        return "unknown"


def _check_host_version(entry: EntryPoint) -> None:
    """Refuse a plugin that was installed in spite of asking for another version of us."""
    requires = entry.dist.requires if entry.dist is not None and _version(entry) != "unknown" else None
    wanted = [text for text in requires or () if re.match(rf"{HOST}(?![\w.-])", text, re.IGNORECASE)]
    if not any(re.search(r"[<>=!~]", text.partition(";")[0]) for text in wanted):
        return
    from packaging.requirements import Requirement

    for requirement in map(Requirement, wanted):
        applies = requirement.marker is None or requirement.marker.evaluate()
        if applies and not requirement.specifier.contains(__version__, prereleases=True):
            raise _Refused(f"wants {HOST} {requirement.specifier}, and this is {HOST} {__version__}")


def _check_api_level(entry: EntryPoint, plugin: object) -> None:
    module = sys.modules.get(entry.module)
    level = getattr(plugin, "ESCALERA_API_LEVEL", getattr(module, "ESCALERA_API_LEVEL", API_LEVEL))
    if level != API_LEVEL:
        newer = isinstance(level, int) and level > API_LEVEL
        what = f"upgrade {HOST}" if newer else f"upgrade {_distribution(entry)}"
        raise _Refused(f"was made for plugin API level {level!r}, and this is level {API_LEVEL}: {what}, or remove the plugin")


def _check_kind(kind: object) -> None:
    from pydantic import BaseModel

    if not isinstance(kind, ProviderKind):
        raise _Refused(f"gave {type(kind).__name__} instead of ProviderKind")
    if not isinstance(kind.name, str) or not re.fullmatch(r"[a-z][a-z0-9_-]{0,63}", kind.name):
        raise _Refused(f"{kind.name!r} is no name for a kind: lower-case letters, digits, `-` and `_`")
    if not (isinstance(kind.options, type) and issubclass(kind.options, BaseModel)):
        raise _Refused(f"the options of {kind.name} are no pydantic model")
    if not kind.options.__pydantic_complete__:
        kind.options.model_rebuild()  # raises where it names a type that is not there
    if not callable(kind.factory):
        raise _Refused(f"the factory of {kind.name} cannot be called")
    if not isinstance(kind.summary, str):
        raise _Refused(f"the summary of {kind.name} is no text")
    if not (isinstance(kind.environment, tuple) and all(isinstance(name, str) for name in kind.environment)):
        raise _Refused(f"the environment of {kind.name} is no tuple of names")


def _taken(name: str, owner: PluginReport) -> str:
    return f"the kind {name} is taken by {owner.distribution} {owner.version} (the first by distribution name has it)"


def _reason(error: BaseException, entry: EntryPoint | None = None) -> str:
    """One line on why a plugin does not load."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        own = entry is not None and (entry.module == error.name or entry.module.startswith(error.name + "."))
        return f"its module {error.name} is not there; was the package removed?" if own else f"needs the module {error.name}, which is not installed"
    text = _text_of(error)
    if isinstance(error, _Refused):
        return text
    if isinstance(error, SystemExit):
        return f"tried to end the program (SystemExit {text})"
    return f"{type(error).__name__}: {text[:500]}" if text else type(error).__name__


def _text_of(error: BaseException) -> str:
    """What it says, on one line; it may break in saying so."""
    try:
        return " ".join(str(error).split())
    except KeyboardInterrupt:
        raise
    except BaseException:  # strangers' code, as above
        return ""
