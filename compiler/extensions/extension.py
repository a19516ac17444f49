# SPDX-License-Identifier: Apache-2.0
"""The declaration of an instruction of an extension, from its behaviour to its cycles.

A user's file has a function `declare(config)` that returns an `Extension`, or a list of several
that share state. The behaviour is that of one step, a tensor expression over entries; everything
that the machine, the simulator and the assembler know of the instruction follows from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

from vdla.compiler import ir, te
from vdla.compiler.extensions.behaviour import (
    behaviour_of,
    check_behaviour,
    check_datapath,
    read_datapath,
    single_stage,
    vanishes,
)
from vdla.compiler.extensions.formulation import Formulation, NetworkLayer
from vdla.compiler.extensions.operands import StepOperands, field_limits, operands_of
from vdla.compiler.extensions.state import ExtensionError, State, caller
from vdla.compiler.extensions.step_text import StepText
from vdla.compiler.te import Stage
from vdla.hardware.config import Config
from vdla.hardware.isa import (
    CLASSES,
    DECLARED_SIZES,
    FORMATS,
    Formula,
    FormulaError,
    Opcode,
    PlugIn,
    PlugInField,
    PlugInUnit,
)
from vdla.support.keywords import checked_keywords

MOST_FIELD_BITS = 31
_COMMON = tuple(f.name for f in FORMATS[Opcode.GEMM])  # fields that every compute instruction has
_MNEMONICS = tuple(cls.__name__.lower() for cls in CLASSES.values())
CPU_SCOPES = ("memory", "immediate", "condition")
"""Where the operands of an instruction of a CPU lie."""
NAME_RULE = f"name must be a lower-case identifier other than {', '.join(_MNEMONICS)}"


def is_name(name: object) -> bool:
    """Whether an instruction of an extension can have this name."""
    return isinstance(name, str) and name.isidentifier() and name == name.lower() and name not in _MNEMONICS


@checked_keywords(ExtensionError, caller)
@dataclass(frozen=True, eq=False, kw_only=True)
class Extension:
    """An instruction to add to a machine.

    `output` is the behaviour of one step: a tensor expression over placeholders that computes an
    accumulator entry, or an entry of the input buffer. `scopes` gives where each placeholder and
    the output lie: "inp", "wgt" or "acc", an entry, several of them or a vector of block_out
    elements by its shape; or "immediate", a placeholder of shape (1,) with the name of one of
    `fields`. A sum (`te.sum`, `te.max`, `te.min`) is added to the accumulator's entry; `in_place`
    names a placeholder that is the old value of that entry.

    A scope may be a `State`; the operand is then one of its rows, or all rows. `updates` has the
    new rows of states, computed from values before the step; a step with updates may have no
    output.

    `fields` are the instruction's own, besides those of the loops and micro-ops that it shares with
    GEMM. A step takes `interval` cycles and its result `latency` more: integers, or formulas of
    fields as text. `wide` allows instructions of 64 bytes where 32 do not suffice.

    `datapath` is the module in SystemVerilog that computes a step: its text, or a file that ends in
    .sv, beside the user's file. Instructions that share state have one module, named `ext_` and the
    first of them, and one of them names its file. Without a datapath, the instruction is a what-if.
    With `array`, the module has a port to the array of multipliers (`vdla.array_port`), which it
    uses from a step of the instruction to its result.

    What an instruction with private state computes depends on the steps before, so the mapper has
    no use for it. `program` writes programs instead: a function of a layer (a `Definition`)
    and the machine, or a Python file beside the user's with a function `program`. It returns a
    `LayerProgram`, or several for the fastest to be used, or raises `LayerError` with the reason
    why it has none.

    The mapper looks for an instruction without state in the layers of networks as they are.
    `formulation` is a function of a `NetworkLayer` and the machine, or a Python file beside the
    user's with a function `formulation`. It returns a `Formulation`, the layer in the terms of the
    instruction, or raises `LayerError`.

    An instruction of a CPU has its operands in "memory", or as "immediate" or "condition"; `lower`
    emits a step with an `IntrinsicEmitter`, and `requires` are the features that it needs, by
    LLVM's names. Without a `lower` it is a what-if. The options of instructions of machines do not
    apply to it.
    """

    name: str
    output: te.Tensor | None = None
    scopes: Mapping[str, str | State]
    doc: str
    updates: Mapping[State, te.Tensor] = field(default_factory=dict)
    in_place: str | None = None
    fields: Sequence[PlugInField] = ()
    interval: int | str = 1
    latency: int | str = 0
    version: int = 1
    wide: bool = False
    datapath: str | PathLike[str] | None = None
    array: bool = False
    program: Callable[[Any, Config], Any] | str | PathLike[str] | None = None
    formulation: Callable[[NetworkLayer, Config], Formulation] | str | PathLike[str] | None = None
    lower: Callable[[Any], Any] | None = None
    requires: Sequence[str] = ()
    place: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "place", caller())
        self._check_name()
        self._check_kinds()
        self._check_fields()
        self._check_target()
        self._check_behaviour()

    @property
    def _where(self) -> str:
        return f"{self.place}: extension {self.name}"

    def _check_name(self) -> None:
        if not is_name(self.name) and self.name not in _MNEMONICS:  # those of the machine's own are checked later
            raise ExtensionError(f"{self.place}: extension: {NAME_RULE}, got {self.name!r}")
        if not isinstance(self.doc, str) or not self.doc.strip():
            raise ExtensionError(
                f"{self._where}: doc must say in a sentence what the instruction does, got {self.doc!r}"
            )

    def _check_kinds(self) -> None:
        """Refuses arguments that are no collection, function or file where one is asked for."""
        for name in ("scopes", "updates"):
            given: object = getattr(self, name)
            if not isinstance(given, Mapping):
                raise ExtensionError(f"{self._where}: {name} must be a dictionary by operand, got {given!r}")
        given = self.fields
        if not isinstance(given, Sequence) or isinstance(given, str):
            raise ExtensionError(f"{self._where}: fields must be a list of vdla.isa.PlugInField, got {given!r}")
        for name in ("program", "formulation"):
            given = getattr(self, name)
            if given is not None and not callable(given) and not isinstance(given, str | PathLike):
                raise ExtensionError(f"{self._where}: {name} must be a function or a Python file, got {given!r}")

    def _check_fields(self) -> None:
        names: list[str] = []
        for declared in self.fields:
            if not isinstance(declared, PlugInField):
                raise ExtensionError(f"{self._where}: fields must be of class vdla.isa.PlugInField, got {declared!r}")
            self._check_field(declared)
            if declared.name in names:
                raise ExtensionError(f"{self._where}: names of fields must differ, got {declared.name} twice")
            names.append(declared.name)

    def _check_field(self, field: PlugInField) -> None:
        if not field.name.isidentifier() or field.name in (*_COMMON, "unit", "extension"):
            rule = "name of a field must be an identifier that no compute instruction has as a field"
            raise ExtensionError(f"{self._where}: {rule}, got {field.name!r}")
        named = isinstance(field.width, str) and field.width in _COMMON
        fixed = (
            isinstance(field.width, int) and not isinstance(field.width, bool) and 1 <= field.width <= MOST_FIELD_BITS
        )
        if not named and not fixed:
            rule = f"width of {field.name} must be an integer from 1 to {MOST_FIELD_BITS} or name a field of loops"
            raise ExtensionError(f"{self._where}: {rule}, got {field.width!r}")

    @property
    def on_cpu(self) -> bool:
        """Whether it is an instruction of a CPU."""
        return "memory" in self.scopes.values()

    def _check_target(self) -> None:
        """Refuse what is of a machine in an instruction of a CPU, and the reverse."""
        of_machine = {
            "updates": self.updates, "fields": self.fields, "interval": self.interval != 1,
            "latency": self.latency != 0, "wide": self.wide, "datapath": self.datapath is not None,
            "array": self.array, "program": self.program is not None,
            "formulation": self.formulation is not None,
        }  # fmt: skip
        of_cpu = {"lower": self.lower is not None, "requires": self.requires}
        used = [name for name, given in (of_machine if self.on_cpu else of_cpu).items() if given]
        if used:
            owner = "a CPU" if self.on_cpu else "a machine"
            rule = f"{', '.join(used)} must be left out in an instruction of {owner}"
            raise ExtensionError(f"{self._where}: {rule}, got {'it' if len(used) == 1 else 'them'}")
        for name, scope in self.scopes.items() if self.on_cpu else ():
            if scope not in CPU_SCOPES:
                raise ExtensionError(
                    f"{self._where}: scope of {name} must be one of {', '.join(CPU_SCOPES)}, got {scope!r}"
                )

    def _check_behaviour(self) -> None:
        if self.output is not None or not self.updates:
            stage = single_stage(self._where, "output", self.output)
            if self.on_cpu:
                return
            if stage.reduction is not None and stage.reduction.reducer not in (te.sum, te.max, te.min):
                rule = "a reduction must be te.sum, te.max or te.min, as the accumulator continues it"
                raise ExtensionError(f"{self._where}: {rule}, got {stage.reduction.reducer.name}")
            if stage.reduction is not None and self.in_place is not None:
                rule = "in_place must be None for a sum, which is added to the accumulator"
                raise ExtensionError(f"{self._where}: {rule}, got {self.in_place!r}")
        elif self.in_place is not None:
            raise ExtensionError(f"{self._where}: in_place must be None without an output, got {self.in_place!r}")
        for state, tensor in self.updates.items():
            if not isinstance(state, State):
                raise ExtensionError(f"{self._where}: updates must be of class vdla.State, got {state!r}")
            single_stage(self._where, f"update of {state.name}", tensor)
        check_behaviour(self._where, self.behaviour)

    def beside(self, path: str | PathLike[str]) -> Path:
        """The path of a file that the declaration names, from the folder of the user's file."""
        return Path(self.place.rpartition(":")[0]).parent / path

    @cached_property
    def behaviour(self) -> ir.Function:
        """The behaviour as a loop nest: placeholders first, then the output, then the updates."""
        outputs = [*([self.output] if self.output is not None else []), *self.updates.values()]
        return behaviour_of(outputs, self.name)

    def plug_in(self, config: Config, unit: str | None = None) -> PlugIn:
        """Its plug-in for the machine `config`; ExtensionError where it does not fit.

        `unit` is the name of its declaration, by default that of the instruction alone.
        """
        if self.name in _MNEMONICS:
            raise ExtensionError(f"{self.place}: extension: {NAME_RULE}, got {self.name!r}")
        made = self.described(config, unit or self.name)
        if unit is None:
            check_datapath(config, PlugInUnit((made,)))
        return made

    def operands(self, config: Config, unit: str | None = None) -> StepOperands:
        """Where the operands of a step lie; ExtensionError where they do not fit the machine."""
        return operands_of(self._where, config, self, unit or self.name)

    def described(self, config: Config, unit: str) -> PlugIn:
        """The instruction in the terms of the hardware, be it the machine's own."""
        operands = self.operands(config, unit)
        plug_in = PlugIn(
            name=self.name,
            doc=self.doc,
            version=self.version,
            sizes=tuple((name, getattr(config, name)) for name in DECLARED_SIZES),
            fields=tuple(self.fields),
            old=operands.old,
            src=operands.src,
            wgt=operands.wgt,
            interval=self._formula("interval", self.interval, least=1),
            latency=self._formula("latency", self.latency, least=0),
            kernel="",
            wide=self.wide,
            unit=unit,
            states=operands.states,
            skips_zeros=self._skips_zeros(operands),
            array=self.array,
            place=self.place,
            datapath=read_datapath(self._where, self.place, self.datapath, self.output),
            writes_inputs=operands.writes_inputs,
        )
        self._require_used(plug_in)
        return replace(plug_in, kernel=self._step(config, plug_in, operands))

    def _require_used(self, plug_in: PlugIn) -> None:
        """Each field changes what a step computes or how long it takes."""
        used = (*self.scopes, *plug_in.interval.names, *plug_in.latency.names)
        for declared in self.fields:
            if declared.name not in used:
                rule = f"field {declared.name} must be an operand in scope immediate, or part of interval or latency"
                raise ExtensionError(f"{self._where}: {rule}, got neither; remove it")

    def _skips_zeros(self, operands: StepOperands) -> bool:
        """Whether an input of zeros adds nothing to a sum."""
        stage = None if self.output is None else self.output.stage
        if not isinstance(stage, Stage) or stage.reduction is None or operands.src is None or operands.states:
            return False
        return stage.reduction.reducer is te.sum and vanishes(stage.value.expr, operands.src.operand)

    def _formula(self, what: str, given: int | str, least: int) -> Formula:
        if isinstance(given, int) and given < least:
            raise ExtensionError(f"{self._where}: {what} must be at least {least}, got {given}")
        try:
            formula = Formula(str(given))
        except FormulaError as error:
            raise ExtensionError(f"{self._where}: {what} {error}") from None
        known = (*_COMMON, *(field.name for field in self.fields))
        for name in formula.names:
            if name not in known:
                rule = f"{what} must depend on fields of the instruction only, never on data"
                raise ExtensionError(f"{self._where}: {rule}, got {name}")
        if not formula.names and formula.value(str) < least:
            raise ExtensionError(f"{self._where}: {what} must be at least {least}, got {given}")
        return formula

    def ranges(self, config: Config) -> dict[str, tuple[int, int]]:
        """The least and the greatest value of each of its fields that stand for an operand."""
        limits = field_limits(config, self.plug_in(config))
        return {name: limits[name] for name, scope in self.scopes.items() if scope == "immediate"}

    def _step(self, config: Config, plug_in: PlugIn, operands: StepOperands) -> str:
        slots = field_limits(config, plug_in)
        fields = {field.name: (number, slots[field.name]) for number, field in enumerate(self.fields)}
        text = StepText(self._where, self.behaviour, operands.arguments, fields, operands.narrow(config))
        return text.text(operands.signature)
