# SPDX-License-Identifier: Apache-2.0
"""The extensions that this process has loaded, and the plug-ins and the stage of a configuration.

Files and other processes refer to them by name and digest, never by their code: a program runs only
with extensions that the user of this process has loaded, or has installed with an entry point.
`register` is therefore the one piece of state in this package, and is called by the loader alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import PurePath
from typing import Any

from vdla.hardware.checks import ConfigError
from vdla.hardware.isa.formats import plug_in_misfit
from vdla.hardware.isa.plug_in import DECLARED_SIZES, MOST_PLUG_INS, PlugIn, PlugInStage, PlugInUnit
from vdla.support.errors import Error


class MissingExtensionError(ConfigError):
    """An extension that is not loaded here; `label` names it, `reasons` say what is."""

    def __init__(self, label: str, reasons: Sequence[str]) -> None:
        self.label, self.reasons = label, tuple(reasons)
        super().__init__(f"config: {self.text()}")

    def text(self, files: Mapping[str, str] | None = None) -> str:
        """What must be loaded; `files` has the file of each extension by name, if known."""
        file = (files or {}).get(self.label.partition("#")[0])
        whose = f" of {file}" if file else ""
        rule = f"must be loaded, with vdla.load_extension or --extension {file or 'FILE'}"
        return f"extension {self.label}{whose} {rule}; {'; '.join(self.reasons)}"


Declare = Callable[[Any], PlugInUnit]  # of a plain `Config`, whose module imports this one

ENTRY_POINTS = "vdla.extensions"
"""The group of entry points of installed extensions."""
_LOADED: dict[Hashable, Declare] = {}


def register(source: Hashable, declare: Declare) -> None:
    """Make an extension known by its source; `declare` makes its unit for a plain machine."""
    _LOADED.pop(source, None)
    _LOADED[source] = declare


def loaded() -> tuple[Declare, ...]:
    """What makes the units of the extensions that are loaded, the last one first."""
    return tuple(reversed(_LOADED.values()))


def find_plug_in(label: str, config: Any) -> PlugIn:  # noqa: ANN401  a plain configuration
    """The plug-in of a label, `name` or `name#digest`, for a plain configuration; of several
    extensions with one name, the one loaded last.

    ConfigError where its extension is not loaded, or only another version of it.
    """
    result: PlugIn = _find(label, config, lambda unit: unit.plug_ins)
    return result


def find_stage(label: str, config: Any) -> PlugInStage:  # noqa: ANN401  a plain configuration
    """The stage of a label, as `find_plug_in` finds plug-ins."""
    result: PlugInStage = _find(label, config, lambda unit: (unit.stage,) if unit.stage is not None else ())
    return result


def _find(label: str, config: Any, parts: Callable[[PlugInUnit], tuple[Any, ...]]) -> Any:  # noqa: ANN401  as above
    """The part that a label names, of a loaded unit or else of an installed one."""
    name, problems = label.partition("#")[0], list[str]()
    part, told = _loaded_part(label, config, parts)
    for entry in _entry_points(name) if part is None else ():
        try:
            _load(entry)
        except Error as error:
            problems.append(str(error))
            continue
        part, told = _loaded_part(label, config, parts)
        if part is not None:
            break
    if part is None and _loads_shipped(name):
        part, _ = _loaded_part(label, config, parts)
    if part is not None:
        return part
    raise MissingExtensionError(label, [*told, *problems] or ["none is loaded"])


def extension_files(config: Any) -> dict[str, str]:  # noqa: ANN401  a configuration
    """The names of the files that declare the extensions of a machine, without folders."""
    parts = (*config.extensions, *([config.stage] if config.stage is not None else []))
    files = {part.name: PurePath(part.place.rpartition(":")[0]).name for part in parts}
    return {name: file for name, file in files.items() if file.endswith(".py")}


def _loaded_part(label: str, config: Any, parts: Callable[[PlugInUnit], tuple[Any, ...]]) -> tuple[Any, list[str]]:  # noqa: ANN401  as above
    """The part of a loaded unit that a label names; else None, and the parts that are loaded."""
    name, _, digest = label.partition("#")
    problems: list[str] = []
    others: list[str] = []
    for part in _loaded_parts(config, parts, problems):
        if part.name != name:
            others.append(part.name)
        elif digest in ("", part.digest):
            return part, []
        else:
            got = f"{part.digest} from {part.place}"
            problems.append(f"extension {name} must have digest {digest}, got {got}")
    return None, [*([f"loaded: {', '.join(others)}"] if others else []), *problems]


def _entry_points(name: str) -> list[str]:
    """The installed extensions that are not loaded, that of this name first."""
    names = {entry.name for entry in entry_points(group=ENTRY_POINTS)} - {*map(str, _LOADED)}
    return sorted(names, key=lambda entry: (entry != name, entry))


def _load(entry: str) -> None:
    """Load an installed extension, where the compiler is installed, which a board lacks."""
    loader = _loader()
    if loader is not None:
        loader.load_extension(entry)


def _loads_shipped(name: str) -> bool:
    """Load the extension that comes with the toolkit and has an instruction of this name."""
    loader = _loader()
    known = [] if loader is None else [entry for entry in loader.shipped() if f"{name}_".startswith(f"{entry}_")]
    if loader is None or not known or max(known, key=len) in _LOADED:
        return False
    loader.load_extension(max(known, key=len))
    return True


def _loader() -> Any:  # noqa: ANN401  a module above this one
    """What loads extensions; None on a board."""
    try:
        return import_module("vdla.compiler.extensions.load")
    except ModuleNotFoundError:
        return None


def _loaded_parts(
    config: Any,  # noqa: ANN401  as above
    parts: Callable[[PlugInUnit], tuple[Any, ...]],
    problems: list[str],
) -> Iterator[Any]:
    for declare in loaded():
        try:
            yield from parts(declare(config))
        except Error as error:  # perhaps of another extension, which this machine cannot have
            problems.append(str(error))


def require_plug_ins(where: str, config: Any) -> None:  # noqa: ANN401  a configuration that is being made
    """ConfigError unless the plug-ins and the stage of a configuration fit it and each other."""
    plug_ins, stage = config.extensions, config.stage
    if not isinstance(plug_ins, tuple) or not all(isinstance(part, PlugIn) for part in plug_ins):
        raise ConfigError(
            f"{where}: extensions must be a tuple of plug-ins as vdla.extend makes them, got {plug_ins!r}"
        )
    if stage is not None and not isinstance(stage, PlugInStage):
        raise ConfigError(f"{where}: stage must be one as vdla.extend makes it, got {stage!r}")
    if len(plug_ins) > MOST_PLUG_INS:
        raise ConfigError(f"{where}: extensions must be at most {MOST_PLUG_INS}, got {len(plug_ins)}")
    parts = (*plug_ins, *([stage] if stage is not None else []))
    names = [part.name for part in parts]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{where}: names of extensions must differ, got {name} twice")
    _require_sizes(where, config, parts)
    _require_written(where, plug_ins, parts)


def _require_sizes(where: str, config: Any, parts: tuple[PlugIn | PlugInStage, ...]) -> None:  # noqa: ANN401  as above
    for part in parts:
        sizes = {name: getattr(config, name) for name in DECLARED_SIZES}
        for name, declared in part.sizes:
            if declared != sizes[name]:
                rule = f"extension {part.name} must be declared for {name}={sizes[name]}"
                raise ConfigError(f"{where}: {rule}, got {declared}; extend the final configuration")


def _require_written(where: str, plug_ins: tuple[PlugIn, ...], parts: tuple[PlugIn | PlugInStage, ...]) -> None:
    """A state that no instruction writes would be undefined for ever."""
    written = {state for plug_in in plug_ins for state in plug_in.written_states}
    for part in parts:
        for port in part.states:
            if port.state not in written:
                rule = f"extension {part.name} must have an instruction that writes its state {port.state.name}"
                raise ConfigError(f"{where}: {rule}, got none; Config.plain is the machine without extensions")


def require_formats(where: str, config: Any) -> None:  # noqa: ANN401  as above
    """ConfigError unless the instructions of all plug-ins fit their words."""
    problem = plug_in_misfit(config)
    if problem is not None:
        plug_in, text = problem
        raise ConfigError(f"{where}: extension {plug_in.name}: {text}")
