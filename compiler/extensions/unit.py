"""What one declaration makes: instructions, and at most one stage on the way out, with state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from vdla.compiler.extensions.behaviour import check_datapath, reducer_of
from vdla.compiler.extensions.emit_stage import EmitStage
from vdla.compiler.extensions.extension import Extension
from vdla.compiler.extensions.state import ExtensionError, State
from vdla.hardware.config import Config
from vdla.hardware.isa import PlugInUnit

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
        made = tuple(each.plug_in(config, self.name) for each in self.instructions)
        stage = self.stage.plug_in_stage(config, self.name) if self.stage is not None else None
        unit = self._with_datapath(PlugInUnit(made, stage))
        check_datapath(config, unit)
        return unit

    def _with_datapath(self, unit: PlugInUnit) -> PlugInUnit:
        """The unit with the datapath that one of its parts names in all of them."""
        named = [(part, part.datapath) for part in unit.parts if part.datapath is not None]
        if not named:
            return unit
        (first, datapath), *others = named
        for part, other in others:
            if other.text != datapath.text:
                rule = "the parts of a declaration must have one datapath"
                raise ExtensionError(f"{part.place}: {rule}, got another in {part.name} than in {first.name}")
        plug_ins = tuple(
            replace(plug_in, datapath=replace(datapath, reducer=reducer_of(each.output)))
            for plug_in, each in zip(unit.plug_ins, self.instructions, strict=True)
        )
        stage = replace(unit.stage, datapath=replace(datapath, reducer="")) if unit.stage is not None else None
        return PlugInUnit(plug_ins, stage)


def unit_of(where: str, declared: Declared) -> ExtensionUnit:
    """The unit of what a user's `declare` returned; ExtensionError where its parts contradict."""
    parts = [declared] if isinstance(declared, Part) else declared
    if not isinstance(parts, Sequence) or not parts or not all(isinstance(part, Part) for part in parts):
        rule = "declare must return a vdla.Extension, a vdla.EmitStage or a list of them"
        raise ExtensionError(f"{where}: {rule}, got {declared!r}")
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
    written = [state for each in instructions for state in each.updates]
    known: dict[str, State] = {}
    for state in (*written, *(state for part in parts for state in _read(part))):
        if known.setdefault(state.name, state) is not state:
            raise ExtensionError(f"{state.place}: states of a declaration must differ in name, got {state.name} twice")
        if state not in written:
            rule = f"state {state.name} must be written by an instruction of the declaration"
            raise ExtensionError(f"{state.place}: {rule}, got none; add updates={{{state.name}: ...}}")


def _read(part: Part) -> Iterator[State]:
    yield from (scope for scope in part.scopes.values() if isinstance(scope, State))
