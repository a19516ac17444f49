# SPDX-License-Identifier: Apache-2.0
"""The intrinsic of an extension: what schedules tensorize with, lowered to its instruction.

The operands are those of the declaration, so that nothing is said twice. An instruction with an
operand index that is neither made of whole axes nor depends on data has no intrinsic. Nor has an
instruction with private state: what it computes is not a function of its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from vdla.compiler.codegen.vdla import ComputeFields, LoweringError, fold_compute
from vdla.compiler.codegen.vdla.macro_op import MacroOp
from vdla.compiler.codegen.vdla.nest import TensorizedNest
from vdla.compiler.extensions.digits import with_digits
from vdla.compiler.extensions.extension import CPU_SCOPES, Extension
from vdla.compiler.extensions.load import Source, declared_for, extension_of
from vdla.compiler.extensions.state import ExtensionError
from vdla.compiler.ir.by_identity import Same
from vdla.compiler.ir.literals import integer
from vdla.compiler.target import Target, host
from vdla.compiler.tensorize import Intrinsic, IntrinsicError, StepCycles
from vdla.hardware import isa
from vdla.hardware.config import Config
from vdla.hardware.isa import OldSum, PlugIn, isa_of
from vdla.hardware.timing import ISSUE_DELAY, extension_step

Make = Callable[[Config, dict[str, Any]], isa.Instruction]
"""Makes an instruction of a machine from the fields of loops, micro-ops and immediates."""


def step_intrinsic(declared: Extension, config: Config, make: Make, **more: Any) -> Intrinsic:  # noqa: ANN401
    """The intrinsic of a step that computes an accumulator entry, without private state.

    `more` are further arguments of `Intrinsic`.

    Raises:
        IntrinsicError: an index of an operand is neither one axis nor depends on data.
        ExtensionError: the declaration does not fit the machine.
    """
    assert declared.output is not None, "a step without an output has no intrinsic"
    ports = declared.operands(config)
    src, wgt = (port.operand if port else "" for port in (ports.src, ports.wgt))
    operands = ComputeFields(declared.output.name, src, wgt)

    def lower(nest: TensorizedNest) -> Iterator[MacroOp]:
        values = {name: integer(value) for name, value in nest.match.immediates.items()}
        return fold_compute(nest, operands, lambda fields: make(nest.config, {**fields, **values}))

    return Intrinsic(
        name=declared.name,
        output=with_digits(declared.output),
        scopes={name: scope for name, scope in declared.scopes.items() if isinstance(scope, str)},
        lower=lower,
        in_place=declared.in_place,
        **more,
    )


def extension_intrinsic(extension: Extension, config: Config) -> Intrinsic:
    """The intrinsic of an extension on a machine that has it.

    Raises:
        IntrinsicError: an operand is indexed by more than whole axes, or is private state.
        ExtensionError: the declaration does not fit the machine.
    """
    return _intrinsic(Same(extension), config)


@lru_cache(maxsize=256)
def _intrinsic(key: Same[Extension], config: Config) -> Intrinsic:
    """One object for each declaration and machine, by whose identity its matches are kept."""
    extension = key.node
    ports = extension.operands(config).states
    if ports or extension.output is None:
        states = ", ".join(port.state.name for port in ports)
        raise IntrinsicError(f"extension {extension.name}: an intrinsic must have no private state, got {states}")
    plug_in = extension.plug_in(config)
    if plug_in.writes_inputs:
        rule = "an intrinsic must compute sums, got results in inp; write programs for layers, with program="
        raise IntrinsicError(f"extension {extension.name}: {rule}")

    def instruction(machine: Config, fields: dict[str, Any]) -> isa.Instruction:
        begins = {} if plug_in.old is OldSum.ACCUMULATE else {"init": 0}
        return _class_of(machine, plug_in)(**{**fields, **begins})

    return step_intrinsic(
        extension,
        config,
        instruction,
        ranges=extension.ranges(config),
        cycles=partial(_cycles, plug_in),
        skips_padding=plug_in.skips_zeros,
    )


def _cycles(plug_in: PlugIn, immediates: Mapping[str, int]) -> StepCycles:
    """The cycles of a step; of fields that are not known yet, those of the loops are 1, else 0."""
    values = {**{field.name: 0 for field in plug_in.fields}, **immediates}

    def value(name: str) -> int:
        return values.get(name, 1)

    return StepCycles(int(extension_step(plug_in, value)), int(plug_in.latency.value(value)) + ISSUE_DELAY)


def machine_intrinsics(config: Config) -> list[Intrinsic]:
    """The intrinsics of the plug-ins of a machine; a plug-in that can have none is left out.

    ExtensionError where the extension of a plug-in is not loaded.
    """
    result = []
    for plug_in in config.extensions:
        try:
            result.append(extension_intrinsic(extension_of(config, plug_in), config.plain))
        except IntrinsicError:
            continue
    return result


def _class_of(config: Config, plug_in: PlugIn) -> type[isa.Instruction]:
    """The class of the plug-in's instructions; LoweringError where the machine lacks it."""
    result = isa_of(config).format_named(plug_in.name)
    if result is None or result.plug_in is None or replace(plug_in, unit=result.plug_in.unit) != result.plug_in:
        got = ", ".join(extension.label for extension in config.extensions) or "none"
        raise LoweringError(f"extension {plug_in.name}: machine must have {plug_in.label}, got {got}; extend it first")
    return result.cls


# --- instructions of CPUs -------------------------------------------------------------------------

# Instructions of CPUs, declared in a file as those of machines are: operands in memory, and the
# lowering of a step to LLVM.
#
# An instruction without a lowering is a what-if: schedules match it, and its behaviour runs.


def cpu_intrinsics(source: Source, target: Target | None = None) -> list[Intrinsic]:
    """The intrinsics of a file, an entry point or a function `declare(target)`, by default for the
    CPU that this runs on.

    ExtensionError, with the line of the declaration, where it contradicts itself.
    """
    unit = declared_for(source, host() if target is None else target)
    return [cpu_intrinsic(extension) for extension in unit.instructions]


def cpu_intrinsic(extension: Extension) -> Intrinsic:
    """The intrinsic of an instruction of a CPU; ExtensionError where it is one of a machine."""
    where = f"{extension.place}: extension {extension.name}"
    if not extension.on_cpu or extension.output is None:
        got = ", ".join(sorted({str(scope) for scope in extension.scopes.values()}))
        raise ExtensionError(f"{where}: scopes must be one of {', '.join(CPU_SCOPES)}, got {got}")
    what_if = (f"the extension {extension.name}",)  # a feature that no CPU has
    try:
        return Intrinsic(
            name=extension.name,
            output=extension.output,
            scopes={name: str(scope) for name, scope in extension.scopes.items()},
            lower=_nothing if extension.lower is None else extension.lower,
            in_place=extension.in_place,
            target="cpu",
            requires=what_if if extension.lower is None else tuple(extension.requires),
        )
    except IntrinsicError as error:
        raise ExtensionError(f"{extension.place}: {error}") from None


def _nothing(emit: object) -> None:
    """The lowering of a what-if, which no CPU runs."""
    raise AssertionError("a what-if requires a feature that no CPU has")
