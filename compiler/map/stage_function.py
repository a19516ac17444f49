# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of a machine's stage without state, as a function of one result."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler import ir, te
from vdla.compiler.extensions.load import unit_with_stage
from vdla.compiler.interpret import interpret
from vdla.compiler.te import Stage
from vdla.compiler.te.expr import axis_name
from vdla.hardware.config import Config


def is_function(config: Config) -> bool:
    """Whether the machine has a stage without state, of one element for one result."""
    return config.stage is not None and not config.stage.states and _element(config) is not None


def staged(result: te.Tensor, config: Config, name: str = "") -> te.Tensor:
    """A result, each element of which goes through the stage."""
    element = _element(config)
    assert element is not None, "asked of stages that are functions"

    def value(*at: te.Value) -> te.Value:
        return te.Value(_with_element(element, result[at].expr), result.dtype, tensors=(result,))

    made: te.Tensor = te.compute(result.shape, value, name or result.name)
    return made


def stage_table(config: Config) -> NDArray[Any]:
    """What the stage computes of each value, the least one first."""
    low, high = ir.limits(config.out_dtype)
    every = te.placeholder((int(high - low) + 1,), config.out_dtype, "every")
    function = te.create_function([every], [staged(every, config, "results")], "stage")
    values = np.arange(low, high + 1).astype(ir.storage_dtype(config.out_dtype))
    (result,) = interpret(function, {"every": values}).values()
    return result


def _element(config: Config) -> ir.Expr | None:
    """The value of the stage with a load of its operand; None where it depends on the place."""
    assert config.stage is not None, "asked of machines with a stage"
    stage = unit_with_stage(config, config.stage).stage
    assert stage is not None, "a unit with this stage"
    body = stage.output.stage
    assert isinstance(body, Stage), "an output is computed"
    places = tuple(ir.Var(axis_name(axis)) for axis in body.axes)
    alone = _with_element(body.value.expr, ir.Const(0, config.out_dtype))
    loads = [e for e in ir.walk_expr(body.value.expr) if isinstance(e, ir.Load)]
    at_own_place = all(load.indices == places for load in loads)
    return body.value.expr if at_own_place and not any(isinstance(e, ir.Var) for e in ir.walk_expr(alone)) else None


def _with_element(expr: ir.Expr, element: ir.Expr) -> ir.Expr:
    """`expr` with an element in place of the loads of the stage's operand."""
    if isinstance(expr, ir.Load):
        return element
    return ir.map_operands(expr, lambda operand: _with_element(operand, element))
