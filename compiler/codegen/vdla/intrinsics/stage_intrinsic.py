# SPDX-License-Identifier: Apache-2.0
"""The intrinsic of a stage on the way out: an epilogue that requantises, then does what it does.

A state of the stage is an operand in the weight buffer, from where an instruction of the same
declaration copies it row by row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from vdla.compiler import ir, te
from vdla.compiler.codegen.vdla import LoweringError
from vdla.compiler.codegen.vdla.intrinsics.requantise import requantise
from vdla.compiler.codegen.vdla.macro_op import BufferTile, MacroOp
from vdla.compiler.codegen.vdla.nest import EntryAccess, TensorizedNest
from vdla.compiler.extensions.emit_stage import EmitStage
from vdla.compiler.extensions.extension import Extension
from vdla.compiler.extensions.load import ExtensionUnit, unit_with_stage
from vdla.compiler.extensions.state import State
from vdla.compiler.te import Stage
from vdla.compiler.te.expr import axis_name, merge_unique
from vdla.compiler.tensorize import Intrinsic, IntrinsicError
from vdla.hardware.config import Config
from vdla.hardware.isa import Instruction, MicroOp, isa_of


def stage_intrinsic(config: Config) -> Intrinsic:
    """The epilogue of a machine with a stage; its operands are those of `requantise`, and states.

    Raises:
        IntrinsicError: the machine has no stage, or nothing copies its state from weights.
        ExtensionError: its extension is not loaded.
    """
    if config.stage is None:
        raise IntrinsicError("stage: machine must have a stage on the way out, got none; extend it first")
    unit = unit_with_stage(config, config.stage)
    stage = unit.stage
    assert stage is not None, "a unit with this stage"
    loaders = {name: _loader(unit, state) for name, state in _states(stage).items()}
    plain = requantise(config.plain)

    def loads(nest: TensorizedNest) -> Iterator[MacroOp]:
        assert nest.epilogue is not None, "an epilogue needs its state"
        for name, loader in loaders.items():
            yield _load(nest, loader, _states(stage)[name], nest.epilogue.access[name])

    return replace(
        plain,
        name=stage.name,
        output=_composed(stage, plain),
        scopes={**plain.scopes, **dict.fromkeys(loaders, "wgt")},
        stage_loads=loads,
    )


def state_copy(config: Config) -> tuple[State, Instruction]:
    """The only state of a machine's stage, and the instruction that copies all its rows from the
    start of the weight buffer.

    Raises:
        IntrinsicError: the stage has another number of states, or nothing copies it.
        ExtensionError: its extension is not loaded.
    """
    assert config.stage is not None, "asked of machines with a stage"
    unit = unit_with_stage(config, config.stage)
    assert unit.stage is not None, "a unit with this stage"
    states = list(_states(unit.stage).values())
    if len(states) != 1:
        raise IntrinsicError(f"stage {unit.name}: it must have one state to be loaded alone, got {len(states)}")
    return states[0], _copy_of_rows(config, _loader(unit, states[0]), states[0])


def _states(stage: EmitStage) -> dict[str, State]:
    return {name: scope for name, scope in stage.scopes.items() if isinstance(scope, State)}


def _composed(stage: EmitStage, plain: Intrinsic) -> te.Tensor:
    """The behaviour of the stage on a requantised element."""
    before, after = plain.output.stage, stage.output.stage
    assert isinstance(before, Stage) and isinstance(after, Stage)
    axis_vars = tuple(ir.Var(axis_name(axis)) for axis in after.axes)

    def value(*at: te.Value) -> te.Value:
        places = {axis_name(axis): place.expr for axis, place in zip(before.axes, at, strict=True)}
        result = ir.substitute(before.value.expr, places)
        places = {axis_name(axis): place.expr for axis, place in zip(after.axes, at, strict=True)}
        expr = _with_result(after.value.expr, stage, axis_vars, result)
        tensors = (*before.reads, *(tensor for tensor in after.reads if tensor.name != stage.operand))
        return te.Value(ir.substitute(expr, places), after.value.dtype, tensors=merge_unique(tensors))

    composed: te.Tensor = te.compute(plain.output.shape, value, plain.output.name)
    return composed


def _with_result(expr: ir.Expr, stage: EmitStage, axis_vars: tuple[ir.Expr, ...], result: ir.Expr) -> ir.Expr:
    """`expr` with the operand of the stage replaced, which must be read at its own place."""

    def replaced(part: ir.Expr) -> ir.Expr:
        if not isinstance(part, ir.Load) or part.buffer != stage.operand:
            return part
        if part.indices != axis_vars:
            rule = f"{stage.operand} must be read at the place of the result"
            raise IntrinsicError(f"stage {stage.name}: {rule}, got {ir.expr_text(part)}")
        return result

    return ir.transform(expr, replaced)


# --- state ----------------------------------------------------------------------------------------


def _loader(unit: ExtensionUnit, state: State) -> Extension:
    """The instruction that copies a row of a state from the weight buffer."""
    for extension in unit.instructions:
        if extension.output is None and list(extension.updates) == [state] and _copies(extension, state):
            return extension
    rule = f"state {state.name} must have an instruction that copies a row from wgt"
    raise IntrinsicError(f"stage {unit.name}: {rule}, got none")


def _copies(extension: Extension, state: State) -> bool:
    """Whether the only operand is a row in the weight buffer, which becomes that of the state."""
    stage = extension.updates[state].stage
    if not isinstance(stage, Stage) or list(extension.scopes.values()) != ["wgt"]:
        return False
    (operand,) = extension.scopes
    return stage.value.expr == ir.Load(operand, tuple(ir.Var(axis_name(axis)) for axis in stage.axes))


def _load(nest: TensorizedNest, loader: Extension, state: State, access: EntryAccess) -> MacroOp:
    """The operation that copies all rows from a tile."""
    copy = _copy_of_rows(nest.config, loader, state)
    assert isinstance(access.place, BufferTile), "operands of an epilogue are on the chip"
    return MacroOp(copy, {"wgt": (access.place, access.base * state.rows)}, (MicroOp(),), None, nest.source)


def _copy_of_rows(config: Config, loader: Extension, state: State) -> Instruction:
    """The instruction that copies all rows."""
    load_format = isa_of(config).format_named(loader.name)
    if load_format is None or load_format.plug_in is None:
        raise LoweringError(f"extension {loader.name}: machine must have it, got none; extend it first")
    (port,) = load_format.plug_in.states
    steps: dict[str, Any] = {"loop0": state.rows, "wgt0": 1} | ({f"{port.index}0": 1} if port.index else {})
    return load_format.cls(**steps)
