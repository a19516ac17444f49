# SPDX-License-Identifier: Apache-2.0
"""Element-wise expressions as computations."""

from __future__ import annotations

from collections.abc import Sequence

from vdla.compiler import te
from vdla.compiler.map.access import access_of
from vdla.compiler.map.computation import Computation
from vdla.compiler.map.cores import Core
from vdla.compiler.map.expression_parts import MapError
from vdla.compiler.map.step_plan import planned
from vdla.compiler.te import Stage


def element_wise(sums: te.Tensor, cores: Sequence[Core]) -> tuple[Core, Computation]:
    """The last intrinsic, and the steps that compute `sums` from plain inputs.

    Raises:
        MapError: some part of the expression is not an operation of an intrinsic.
    """
    stage = sums.stage
    if not isinstance(stage, Stage) or stage.reduction is not None:
        raise MapError("the stage must be a plain computation, got a reduction")
    plan = planned(sums, cores)
    axes = plan.axes
    assert axes is not None, "those of a value without finished sums"
    core = next(core for core in cores if core.issued is plan.steps[-1].intrinsic)
    operands = {name: access_of(plan.tensors[load.buffer], load) for load, name in plan.read_in_order(stage)}
    if not operands:
        raise MapError("some operand must be read at an index of axes, got none")
    return core, Computation(
        stage=stage,
        spatial=axes.spatial,
        reduce={},
        digits=axes.digits,
        operands=operands,
        steps=tuple(plan.steps),
        tables=plan.tables,
        lanes=plan.lanes,
    )
