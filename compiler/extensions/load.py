# SPDX-License-Identifier: Apache-2.0
"""Loading of extensions: from a file, an entry point or a function; and machines that have them.

An error in a user's file is reported with the line of that file on which it arose.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from os import PathLike
from pathlib import Path
from types import CodeType
from typing import Any, cast

from vdla.compiler.extensions.behaviour import check_datapath, reducer_of
from vdla.compiler.extensions.emit_stage import EmitStage
from vdla.compiler.extensions.extension import Extension
from vdla.compiler.extensions.formulation import NetworkLayer
from vdla.compiler.extensions.state import ExtensionError, LayerError, State
from vdla.hardware.config import Config, ConfigError
from vdla.hardware.extensions import ENTRY_POINTS, loaded, register
from vdla.hardware.isa import PlugIn, PlugInStage, PlugInUnit
from vdla.support.errors import Error
from vdla.support.file_kind import unreadable
from vdla.support.suggest import did_you_mean

Part = Extension | EmitStage
Declared = Part | Sequence[Part]


@dataclass(frozen=True, slots=True)
class ExtensionUnit:
    """The parts of a declaration; the first gives the unit its name."""

    name: str
    instructions: tuple[Extension, ...]
    stage: EmitStage | None

    def plug_ins(self, config: Config) -> PlugInUnit:
        """What a plain machine gets; ExtensionError where it does not fit."""
        parts: dict[str, PlugIn | PlugInStage] = {}
        for name, declared in self._groups().items():
            instructions = [part for part in declared if isinstance(part, Extension)]
            made = tuple(instruction.plug_in(config, name) for instruction in instructions)
            stages = [part.plug_in_stage(config, name) for part in declared if isinstance(part, EmitStage)]
            unit = _with_datapath(PlugInUnit(made, stages[0] if stages else None), instructions)
            check_datapath(config, unit)
            parts |= {part.name: part for part in unit.parts}
        plug_ins = tuple(part for part in self._in_order(parts) if isinstance(part, PlugIn))
        stage = None if self.stage is None else parts[self.stage.name]
        assert not isinstance(stage, PlugIn), "the stage of a declaration"
        return PlugInUnit(plug_ins, stage)

    def unit_name(self, part: Part) -> str:
        """The name of the unit of a part."""
        return next(name for name, parts in self._groups().items() if part in parts)

    def _in_order(self, parts: Mapping[str, PlugIn | PlugInStage]) -> Iterator[PlugIn | PlugInStage]:
        yield from (parts[instruction.name] for instruction in self.instructions)

    def _groups(self) -> dict[str, list[Part]]:
        """The parts of each unit, by its name. Parts that share no state with those of the first
        unit, and have another datapath, are a unit of their own.
        """
        (first, *others) = _by_shared_state(self._parts)
        result = {self.name: first}
        for parts in others:
            mine, main = ({part.datapath for part in group} - {None} for group in (parts, first))
            apart = mine and main and mine.isdisjoint(main)
            result.setdefault(parts[0].name if apart else self.name, []).extend(parts)
        return result

    @property
    def _parts(self) -> list[Part]:
        """The parts, the first one first."""
        parts: list[Part] = [*self.instructions, *([self.stage] if self.stage is not None else [])]
        return sorted(parts, key=lambda part: part.name != self.name)


def _by_shared_state(parts: Sequence[Part]) -> list[list[Part]]:
    """The parts in groups that share no state, the group of the first part first."""
    result: list[list[Part]] = []
    for part in parts:
        related = [group for group in result if any(_states(part) & _states(other) for other in group)]
        merged = [*(other for group in related for other in group), part]
        at = result.index(related[0]) if related else len(result)
        result = [group for group in result if group not in related]
        result.insert(at, merged)
    return result


def _with_datapath(unit: PlugInUnit, declared: Sequence[Extension]) -> PlugInUnit:
    """The unit with the datapath that one of its parts names in all of them."""
    named = [(part, part.datapath) for part in unit.parts if part.datapath is not None]
    if not named:
        return unit
    (first, datapath), *others = named
    for part, other in others:
        if other.text != datapath.text:
            rule = "the parts of a declaration that share state must have one datapath"
            raise ExtensionError(f"{part.place}: {rule}, got another in {part.name} than in {first.name}")
    plug_ins = tuple(
        replace(plug_in, datapath=replace(datapath, reducer=reducer_of(instruction.output)))
        for plug_in, instruction in zip(unit.plug_ins, declared, strict=True)
    )
    stage = replace(unit.stage, datapath=replace(datapath, reducer="")) if unit.stage is not None else None
    return PlugInUnit(plug_ins, stage)


def unit_of(where: str, declared: Declared) -> ExtensionUnit:
    """The unit of what a user's `declare` returned; ExtensionError where its parts contradict."""
    parts = [declared] if isinstance(declared, Part) else declared
    if not isinstance(parts, Sequence) or not parts or not all(isinstance(part, Part) for part in parts):
        rule = "declare must return a vdla.Extension, a vdla.EmitStage or a list of them"
        got = next((part for part in parts if not isinstance(part, Part)), parts) if isinstance(parts, list) else parts
        raise ExtensionError(f"{where}: {rule}, got {got!r}")
    names = [part.name for part in parts]
    for part in parts:
        if names.count(part.name) > 1:
            raise ExtensionError(f"{part.place}: names in a declaration must differ, got {part.name} twice")
    stages = [part for part in parts if isinstance(part, EmitStage)]
    if len(stages) > 1:
        rule = "a machine can have one stage on the way out"
        raise ExtensionError(f"{stages[1].place}: {rule}, got {stages[0].name} and {stages[1].name}")
    instructions = tuple(part for part in parts if isinstance(part, Extension))
    _check_states(parts, instructions)
    return ExtensionUnit(parts[0].name, instructions, stages[0] if stages else None)


def _check_states(parts: Sequence[Part], instructions: Sequence[Extension]) -> None:
    """Names of states differ, and each state that is read is written somewhere."""
    written = [state for instruction in instructions for state in instruction.updates]
    known: dict[str, State] = {}
    for state in (*written, *(state for part in parts for state in _read(part))):
        if known.setdefault(state.name, state) is not state:
            raise ExtensionError(f"{state.place}: states of a declaration must differ in name, got {state.name} twice")
        if state not in written:
            rule = f"state {state.name} must be written by an instruction of the declaration"
            raise ExtensionError(f"{state.place}: {rule}, got none; add updates={{{state.name}: ...}}")


def _read(part: Part) -> Iterator[State]:
    yield from (scope for scope in part.scopes.values() if isinstance(scope, State))


def _states(part: Part) -> set[State]:
    """The states that a part reads or writes."""
    return {*_read(part), *(part.updates if isinstance(part, Extension) else ())}


Declaration = Callable[[Config], Declared]
Source = str | PathLike[str] | Declaration
_Made = tuple[ExtensionUnit, PlugInUnit]
_MACHINES = 64  # of which an extension keeps what it has made


def extend(config: Config, *sources: Source) -> Config:
    """`config` with the instructions and stages of extensions besides those that it has; each
    source is a file, the name of an entry point, or a function `declare(config)`.

    ExtensionError where a declaration contradicts itself or does not fit the machine.
    """
    for source in sources:
        config = _with(config, load_extension(source).plug_ins(config.plain))
    return config


def _with(config: Config, unit: PlugInUnit) -> Config:
    """A machine with one unit more."""
    parts: list[PlugIn | PlugInStage] = [*unit.plug_ins, *([unit.stage] if unit.stage is not None else [])]
    if config.stage is not None and unit.stage is not None:
        rule = "a machine can have one stage on the way out"
        raise ExtensionError(f"{unit.stage.place}: {rule}, got {config.stage.name} and {unit.stage.name}")
    try:
        return replace(config, extensions=(*config.extensions, *unit.plug_ins), stage=unit.stage or config.stage)
    except ConfigError as error:
        raise ExtensionError(f"{parts[-1].place}: {error}") from None


@dataclass(frozen=True, eq=False)
class LoadedExtension:
    """An extension of this process; `declare` is a user's function, which is asked once for each
    machine: programs and networks name their extensions again and again. To load it anew asks anew.
    """

    declare: Declaration
    _made: dict[Config, _Made | ExtensionError] = field(default_factory=dict, init=False, repr=False)

    def unit(self, config: Config) -> ExtensionUnit:
        """The declaration for a plain configuration; ExtensionError with the line of its fault, or
        where it does not fit.
        """
        return self._outcome(config)[0]

    def plug_ins(self, config: Config) -> PlugInUnit:
        """Its plug-in unit for a machine; ExtensionError as of `unit`."""
        return self._outcome(config)[1]

    def _outcome(self, config: Config) -> _Made:
        if config not in self._made:
            if len(self._made) >= _MACHINES:
                self._made.clear()
            self._made[config] = self._attempt(config)
        outcome = self._made[config]
        if isinstance(outcome, ExtensionError):
            raise outcome.with_traceback(None)
        return outcome

    def _attempt(self, config: Config) -> _Made | ExtensionError:
        try:
            unit = unit_of(_place_of(self.declare), _guarded(self.declare, config))
            return unit, unit.plug_ins(config)
        except ExtensionError as error:
            return error


def declared_for(source: Source, target: Any) -> ExtensionUnit:  # noqa: ANN401  what `declare` takes
    """What a source declares for a CPU's target; ExtensionError with the line of its fault."""
    declare = _declare_of(source)
    return unit_of(_place_of(declare), _guarded(declare, target))


def load_extension(source: Source) -> LoadedExtension:
    """Make an extension known to this process, which can then read what names it: programs and
    configurations.
    """
    result = LoadedExtension(_declare_of(source))
    register(source if callable(source) else str(source), result.plug_ins)
    return result


def extension_of(config: Config, plug_in: PlugIn) -> Extension:
    """The declaration of a plug-in of a machine; ExtensionError where it is not loaded here."""
    for unit in _units(config, plug_in.name):
        for extension in unit.instructions:
            if extension.name == plug_in.name and extension.plug_in(config.plain, unit.unit_name(extension)) == plug_in:
                return extension
    raise _not_loaded(plug_in)


def unit_with_stage(config: Config, stage: PlugInStage) -> ExtensionUnit:
    """The declaration of the stage of a machine; ExtensionError where it is not loaded here."""
    for unit in _units(config, stage.name):
        if unit.stage is not None and unit.stage.plug_in_stage(config.plain, unit.unit_name(unit.stage)) == stage:
            return unit
    raise _not_loaded(stage)


def program_of(extension: Extension) -> Callable[[Any, Config], Any] | None:
    """What writes the programs of an extension; its errors are ExtensionErrors with the line."""
    given = extension.program
    if given is None:
        return None
    write = given if callable(given) else _in_file(extension, Path(given), "program")
    _require_parameters(write, "program", _LAYER_TAKES)

    def written(layer: Any, config: Config) -> Any:  # noqa: ANN401  of rooms above this one
        return _guarded(write, layer, config)

    return written


def formulation_of(extension: Extension) -> Callable[[NetworkLayer, Config], Any]:
    """What formulates layers; its errors are ExtensionErrors with the line."""
    given = extension.formulation
    assert given is not None, "asked of extensions that have one"
    write = given if callable(given) else _in_file(extension, Path(given), "formulation")
    _require_parameters(write, "formulation", _LAYER_TAKES)
    return lambda layer, config: _guarded(write, layer, config)


def _in_file(extension: Extension, given: Path, name: str) -> Callable[[Any, Config], Any]:
    """The function `name` of a file beside the user's."""
    path = extension.beside(given)
    where = f"{extension.place}: extension {extension.name}"
    if path.suffix != ".py" or not path.is_file():
        rule = f"{name} must be a function, or a readable file that ends in .py"
        raise ExtensionError(f"{where}: {rule}, got {given}")
    function = getattr(_guarded(_module, path), name, None)
    if not callable(function):
        raise ExtensionError(f"{where}: file {given} must have a function {name}(layer, config), got none")
    return cast("Callable[[Any, Config], Any]", function)


def _units(config: Config, name: str) -> Iterator[ExtensionUnit]:
    """The loaded declarations that a machine can have, of those with a part of this name."""
    for declare in loaded():
        owner = getattr(declare, "__self__", None)
        unit = _fitting_unit(owner, config.plain) if isinstance(owner, LoadedExtension) else None
        if unit is not None and any(
            part is not None and part.name == name for part in (*unit.instructions, unit.stage)
        ):
            yield unit


def _fitting_unit(extension: LoadedExtension, config: Config) -> ExtensionUnit | None:
    """The declaration for a plain machine, None if the machine cannot have it."""
    try:
        return extension.unit(config)
    except ExtensionError:
        return None


def _not_loaded(part: PlugIn | PlugInStage) -> ExtensionError:
    rule = "must be loaded, with vdla.load_extension or --extension FILE"
    return ExtensionError(f"{part.place}: extension {part.label} {rule}")


_SHIPPED = Path(__file__).parents[1] / "plug_ins"


def shipped() -> tuple[str, ...]:
    """The names of the plug-ins that come with the toolkit; their instructions begin with them."""
    return tuple(sorted(path.stem for path in _SHIPPED.glob("*.py") if path.stem != "__init__"))


def _declare_of(source: Source) -> Declaration:
    """The function that declares, which takes a machine."""
    if not callable(source):
        return _declaration(str(source))
    _require_parameters(source, "declare", _DECLARE_TAKES)
    return source


def _declaration(source: str) -> Declaration:
    """The function `declare` of a file, or that of the plug-in or the entry point of this name."""
    for entry in entry_points(group=ENTRY_POINTS, name=source):
        return _of_entry_point(entry)
    if source in shipped():
        return _declaration(str(_SHIPPED / f"{source}.py"))
    path = Path(source)
    if path.suffix != ".py":
        names = sorted([*shipped(), *(entry.name for entry in entry_points(group=ENTRY_POINTS))])
        rule = f"source must be a file that ends in .py or one of {', '.join(names)}"
        raise ExtensionError(f"extension: {rule}, got {source}{did_you_mean(source, names)}")
    if not path.is_file():
        raise ExtensionError(f"extension: {unreadable(path, FileNotFoundError())}")
    module = _guarded(_module, path)
    declare = getattr(module, "declare", None)
    if not callable(declare):
        raise ExtensionError(f"{source}:1: file must have a function declare(config), got none")
    _require_parameters(declare, "declare", _DECLARE_TAKES)
    return cast("Declaration", declare)


_DECLARE_TAKES = ("the configuration of a machine",)
_LAYER_TAKES = ("a layer", "the configuration of a machine")


def _require_parameters(run: Callable[..., Any], name: str, takes: Sequence[str]) -> None:
    """A user's function takes these arguments by position; one without a signature takes any."""
    try:
        signature = inspect.signature(run)
    except ValueError:  # of C
        return
    try:
        signature.bind(*takes)
    except TypeError as error:
        rule = f"{name} must take {' and '.join(takes)} and nothing else"
        raise ExtensionError(f"{_place_of(run)}: {rule}, got {name}{signature} ({error})") from None


def _of_entry_point(entry: EntryPoint) -> Declaration:
    """The function of an entry point, whose package is a user's."""
    where = f"extension {entry.name}: entry point {entry.value}"
    try:
        declare = entry.load()
    except Exception as error:
        raise ExtensionError(f"{where} must load, got {type(error).__name__}: {error}") from error
    if not callable(declare):
        raise ExtensionError(f"{where} must be a function declare(config), got {declare!r}")
    _require_parameters(declare, "declare", _DECLARE_TAKES)
    return cast("Declaration", declare)


# --- the user's code ------------------------------------------------------------------------------


def _module(path: Path) -> Any:  # noqa: ANN401  a module with names of the user's
    spec = importlib.util.spec_from_file_location(f"vdla_extension_{path.stem}", path)
    assert spec is not None and spec.loader is not None, "a path that ends in .py has a loader"
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _guarded(run: Callable[..., Any], *arguments: Any) -> Any:  # noqa: ANN401  of a file or a machine
    """The result of a user's code; its exceptions become an ExtensionError with the line."""
    home = str(arguments[0]) if isinstance(arguments[0], Path) else _file_of(run)
    try:
        return run(*arguments)
    except (ExtensionError, LayerError):
        raise
    except SyntaxError as error:
        raise ExtensionError(
            f"{error.filename}:{error.lineno}: file must be Python, got a syntax error: {error.msg}"
        ) from None
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == home]
        text = str(error) if isinstance(error, Error) else f"{type(error).__name__}: {error}{_suggestion(error)}"
        raise ExtensionError(f"{home}:{lines[-1] if lines else 1}: {text}") from error


def _suggestion(error: Exception) -> str:
    """A known name close to the one that an object lacks."""
    if not isinstance(error, AttributeError):
        return ""
    return did_you_mean(error.name, (name for name in dir(error.obj) if not name.startswith("_")))


def _code_of(run: Callable[..., Any]) -> CodeType | None:
    """The code of a function, or of what a partial or an object calls."""
    while isinstance(run, partial):
        run = run.func
    code: CodeType | None = getattr(run, "__code__", None) or getattr(type(run).__call__, "__code__", None)
    return code


def _place_of(run: Callable[..., Any]) -> str:
    code = _code_of(run)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else "extension"


def _file_of(run: Callable[..., Any]) -> str:
    code = _code_of(run)
    return code.co_filename if code is not None else "extension"
