"""The declaration of an extension: one instruction, from its behaviour to its cycles.

A user's file has a function `declare(config)` that returns an `Extension`. The behaviour is that of
one step, a tensor expression over entries; everything that the machine, the simulator and the
assembler know of the instruction follows from it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike

from vdla.compiler import ir, te
from vdla.compiler.extensions.datapath import read_datapath
from vdla.compiler.extensions.errors import ExtensionError
from vdla.compiler.extensions.operands import StepOperands, operands_of
from vdla.compiler.extensions.step_text import StepText, check_dtypes
from vdla.compiler.te import Stage
from vdla.hardware.config import Config
from vdla.hardware.isa import CLASSES, DECLARED_SIZES, FORMATS, Formula, FormulaError, Opcode, PlugIn, PlugInField

MOST_FIELD_BITS = 31
_TAKEN = tuple(f.name for f in FORMATS[Opcode.GEMM])  # fields that every compute instruction has
_MNEMONICS = tuple(cls.__name__.lower() for cls in CLASSES.values())


@dataclass(frozen=True, eq=False)
class Extension:
    """An instruction that a machine can be given.

    `output` is the behaviour of one step: a tensor expression over placeholders that computes an
    accumulator entry. `scopes` gives where each placeholder and the output lie: "inp", "wgt" or
    "acc", an entry, several of them or a vector of block_out elements by its shape; or "immediate",
    a placeholder of shape (1,) with the name of one of `fields`. A sum (`te.sum`, `te.max`,
    `te.min`) is added to the accumulator's entry; `in_place` names a placeholder that is the old
    value of that entry.

    `fields` are the instruction's own, besides those of the loops and micro-ops that it shares with
    GEMM. A step takes `interval` cycles and its result `latency` more: integers, or formulas of
    fields as text. `wide` allows instructions of 64 bytes where 32 do not suffice.

    `datapath` is the module `ext_<name>` in SystemVerilog that computes a step: its text, or a file
    that ends in .sv, beside the user's file. Without one, the instruction is a what-if.
    """

    name: str
    output: te.Tensor
    scopes: Mapping[str, str]
    doc: str
    in_place: str | None = None
    fields: Sequence[PlugInField] = ()
    interval: int | str = 1
    latency: int | str = 0
    version: int = 1
    wide: bool = False
    datapath: str | PathLike[str] | None = None
    place: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "place", _caller())
        self._check_name()
        self._check_fields()
        self._check_behaviour()

    @property
    def _where(self) -> str:
        return f"{self.place}: extension {self.name}"

    def _check_name(self) -> None:
        rule = f"name must be a lower-case identifier other than {', '.join(_MNEMONICS)}"
        if not isinstance(self.name, str) or not self.name.isidentifier() or self.name != self.name.lower():
            raise ExtensionError(f"{self.place}: extension: {rule}, got {self.name!r}")
        if self.name in _MNEMONICS:
            raise ExtensionError(f"{self.place}: extension: {rule}, got {self.name!r}")
        if not isinstance(self.doc, str) or not self.doc.strip():
            raise ExtensionError(
                f"{self._where}: doc must say in a sentence what the instruction does, got {self.doc!r}"
            )

    def _check_fields(self) -> None:
        names: list[str] = []
        for own in self.fields:
            if not isinstance(own, PlugInField):
                raise ExtensionError(f"{self._where}: fields must be of class vdla.isa.PlugInField, got {own!r}")
            self._check_field(own)
            if own.name in names:
                raise ExtensionError(f"{self._where}: names of fields must differ, got {own.name} twice")
            names.append(own.name)

    def _check_field(self, own: PlugInField) -> None:
        if not own.name.isidentifier() or own.name in (*_TAKEN, "unit", "extension"):
            rule = "name of a field must be an identifier that no compute instruction has as a field"
            raise ExtensionError(f"{self._where}: {rule}, got {own.name!r}")
        named = isinstance(own.width, str) and own.width in _TAKEN
        fixed = isinstance(own.width, int) and not isinstance(own.width, bool) and 1 <= own.width <= MOST_FIELD_BITS
        if not named and not fixed:
            rule = f"width of {own.name} must be an integer from 1 to {MOST_FIELD_BITS} or name a field of loops"
            raise ExtensionError(f"{self._where}: {rule}, got {own.width!r}")

    def _check_behaviour(self) -> None:
        stage = self.output.stage if isinstance(self.output, te.Tensor) else None
        if not isinstance(stage, Stage) or len(stage.names) != 1:
            raise ExtensionError(f"{self._where}: output must be the one tensor of a te.compute, got {self.output!r}")
        computed = ", ".join(tensor.name for tensor in stage.reads if tensor.stage is not None)
        if computed:
            rule = "behaviour must be a single te.compute over placeholders"
            raise ExtensionError(f"{self._where}: {rule}, got {computed}; compute it inside the expression")
        if stage.reduction is not None and stage.reduction.reducer not in (te.sum, te.max, te.min):
            rule = "a reduction must be te.sum, te.max or te.min, as the accumulator continues it"
            raise ExtensionError(f"{self._where}: {rule}, got {stage.reduction.reducer.name}")
        if self.behaviour.scalars:
            found = ", ".join(self.behaviour.scalars)
            raise ExtensionError(f"{self._where}: behaviour must have numbers for extents, got {found}")
        if stage.reduction is not None and self.in_place is not None:
            rule = "in_place must be None for a sum, which is added to the accumulator"
            raise ExtensionError(f"{self._where}: {rule}, got {self.in_place!r}")
        check_dtypes(self._where, self.behaviour)

    @property
    def behaviour(self) -> ir.Function:
        """The behaviour as a loop nest: placeholders first, the output last."""
        assert self.output.stage is not None, "checked when made"
        return te.create_function(self.output.stage.reads, [self.output], self.name)

    def plug_in(self, config: Config) -> PlugIn:
        """What the machine `config` knows of it; ExtensionError where it does not fit."""
        operands = operands_of(self._where, config, self)
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
            place=self.place,
            datapath=read_datapath(self._where, self.place, self.datapath, self.output),
        )
        return replace(plug_in, kernel=self._step(config, plug_in, operands))

    def _formula(self, what: str, given: int | str, least: int) -> Formula:
        if isinstance(given, int) and given < least:
            raise ExtensionError(f"{self._where}: {what} must be at least {least}, got {given}")
        try:
            formula = Formula(str(given))
        except FormulaError as error:
            raise ExtensionError(f"{self._where}: {what} {error}") from None
        known = (*_TAKEN, *(own.name for own in self.fields))
        for name in formula.names:
            if name not in known:
                rule = f"{what} must depend on fields of the instruction only, never on data"
                raise ExtensionError(f"{self._where}: {rule}, got {name}")
        if not formula.names and formula.value(str) < least:
            raise ExtensionError(f"{self._where}: {what} must be at least {least}, got {given}")
        return formula

    def _step(self, config: Config, plug_in: PlugIn, operands: StepOperands) -> str:
        slots = operands.field_limits(config, plug_in)
        fields = {own.name: (number, slots[own.name]) for number, own in enumerate(self.fields)}
        return StepText(self._where, self.behaviour, operands.arguments, fields, operands.narrow(config)).text()


def _caller() -> str:
    """`file:line` of the statement that makes the extension."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename in (__file__, "<string>"):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
