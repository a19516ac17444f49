# SPDX-License-Identifier: Apache-2.0
"""What is done to requantised results on their way out: looked up in a table, or computed by the
stage of the machine.

A plain expression has it after the requantisation, in one stage with it or in another.
"""

from __future__ import annotations

from vdla.compiler import ir, te
from vdla.compiler.codegen.vdla.intrinsics.stage_intrinsic import stage_intrinsic
from vdla.compiler.extensions.load import unit_with_stage
from vdla.compiler.map.computation import AxisPlace, Binder, Binding
from vdla.compiler.map.entries import whole_dims
from vdla.compiler.map.expression_parts import sums_of, tables_of, viewed
from vdla.compiler.te import Stage
from vdla.compiler.te.expr import axis_name, merge_unique
from vdla.compiler.tensorize import Intrinsic, IntrinsicError
from vdla.compiler.tensorize.canonical import Canonical
from vdla.hardware.config import Config


def joined(output: te.Tensor, config: Config) -> te.Tensor:
    """A result that is looked up in a table, or that the stage of the machine computes, as one
    stage: the computation of the requantised tensor takes the place of its elements.
    """
    result = _joined(output)
    if result is None:
        return output
    assert isinstance(result.stage, Stage)
    return result if tables_of(result.stage) or is_of_stage(result, config) else output


def _joined(output: te.Tensor) -> te.Tensor | None:
    """The result as one stage; None where it reads no requantised tensor at its own place."""
    stage = output.stage
    computed = [tensor for tensor in stage.reads if tensor.stage is not None] if isinstance(stage, Stage) else []
    if not isinstance(stage, Stage) or stage.reduction is not None or len(computed) != 1:
        return None
    (inner,) = computed
    axis_vars = tuple(ir.Var(axis_name(axis)) for axis in stage.axes)
    loads = [e for e in ir.walk_expr(stage.value.expr) if isinstance(e, ir.Load)]
    at_own_place = all(load.indices == axis_vars for load in loads if load.buffer == inner.name)
    if sums_of(inner) is inner or not at_own_place:
        return None
    before = inner.stage
    assert isinstance(before, Stage), "requantised, by what `sums_of` says"

    def value(*at: te.Value) -> te.Value:
        element = ir.substitute(before.value.expr, _places(before, at))
        expr = _with_element(ir.substitute(stage.value.expr, _places(stage, at)), inner.name, element)
        others = tuple(tensor for tensor in stage.reads if tensor is not inner)
        return te.Value(expr, output.dtype, tensors=merge_unique(before.reads, others))

    result: te.Tensor = te.compute(output.shape, value, output.name)
    return result


def _places(stage: Stage, at: tuple[te.Value, ...]) -> dict[str, ir.Expr]:
    return {axis_name(axis): place.expr for axis, place in zip(stage.axes, at, strict=True)}


def _with_element(expr: ir.Expr, name: str, element: ir.Expr) -> ir.Expr:
    """`expr` with the loads of a tensor replaced."""
    if isinstance(expr, ir.Load) and expr.buffer == name:
        return element
    return ir.map_operands(expr, lambda operand: _with_element(operand, name, element))


# --- arithmetic -----------------------------------------------------------------------------------


def is_of_stage(result: te.Tensor, config: Config) -> bool:
    """Whether a result is requantised sums with the arithmetic of the machine's stage."""
    stage = result.stage
    if config.stage is None or config.stage.states or not isinstance(stage, Stage) or sums_of(result) is result:
        return False
    wanted = _arithmetic(config)
    pattern = wanted.output.stage
    assert isinstance(pattern, Stage)
    tensors = {tensor.name: tensor for tensor in stage.reads}
    buffers = {name: ir.Buffer(name, tensor.shape, tensor.dtype) for name, tensor in tensors.items()}

    def stands_for(operand: str, part: ir.Expr) -> bool:
        return ir.dtype_of(part, buffers) == config.out_dtype and not isinstance(part, ir.Const)

    values = Canonical(wanted.behaviour.buffers)(pattern.value.expr), Canonical(buffers)(stage.value.expr)
    bindings = Binder(wanted, tensors, stands_for).bind(*values)
    return not whole_dims(wanted) and any(not _has_places(binding) for binding in bindings)


def _has_places(binding: Binding) -> bool:
    return any(isinstance(part, AxisPlace) for part in binding.values())


def _arithmetic(config: Config) -> Intrinsic:
    """What the stage of a machine computes of a requantised entry; it is no instruction."""
    assert config.stage is not None, "a machine with a stage"
    stage = unit_with_stage(config, config.stage).stage
    assert stage is not None, "a unit with this stage"
    scopes = dict.fromkeys(stage.behaviour.params, "out")
    return Intrinsic(name=stage.name, output=stage.output, scopes=scopes, lower=list)


# --- reasons --------------------------------------------------------------------------------------


def why_not_staged(output: te.Tensor, config: Config) -> str:
    """Why no mapping of an expression uses the stage of a machine; empty where one can."""
    assert config.stage is not None, "a machine with a stage"
    name = config.stage.name
    try:
        intrinsic = stage_intrinsic(config)
    except IntrinsicError as error:
        return str(error)
    result = joined(viewed(output)[0], config)
    if not config.stage.states:
        return "" if is_of_stage(result, config) else f"results must be computed as stage {name} does, got others"
    if len(intrinsic.tables) != 1:
        got = len(intrinsic.tables) or "none"
        return f"stage {name} must have one table for the mapper to use it, or no state, got {got}"
    looked_up = isinstance(result.stage, Stage) and sums_of(result) is not result and tables_of(result.stage)
    return "" if looked_up else f"results must be looked up in a table to go through stage {name}, got others"
