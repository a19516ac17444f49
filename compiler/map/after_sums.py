# SPDX-License-Identifier: Apache-2.0
"""Steps on finished sums, before they leave the accumulator: a factor, a slope or a table for each
channel behind a product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from vdla.compiler import te
from vdla.compiler.map.computation import AfterSums, Computation, LaneRead
from vdla.compiler.map.cores import Core
from vdla.compiler.map.expression_parts import MapError, Table
from vdla.compiler.map.step_plan import is_step, planned
from vdla.compiler.te import Stage


@dataclass(frozen=True, slots=True)
class StepsBehind:
    """Steps on finished sums, the tables and the operands of lanes that they read."""

    after: AfterSums
    tables: Mapping[str, Table]
    lanes: Mapping[str, LaneRead]

    def behind(self, computation: Computation) -> Computation:
        """A computation of the sums with these steps behind it.

        MapError where both have a table of one name.
        """
        same = computation.tables.keys() & self.tables.keys()
        if same:
            raise MapError(f"tables must have names of their own, got {', '.join(sorted(same))} twice")
        tables = {**computation.tables, **self.tables}
        return replace(computation, after=self.after, tables=tables, lanes=self.lanes)


def chain_of(result: te.Tensor, sums: te.Tensor, cores: Sequence[Core]) -> StepsBehind:
    """The steps that compute `result` from finished `sums`, which it reads at its own index.

    Raises:
        MapError: some part of the expression is not an operation of an intrinsic.
    """
    plan, stage = planned(result, cores, sums), result.stage
    assert isinstance(stage, Stage), "computed from sums"
    return StepsBehind(AfterSums(stage, tuple(plan.steps)), plan.tables, plan.lanes)


def sums_below(result: te.Tensor) -> te.Tensor | None:
    """The one reduction that a result is computed from, element by element; None for others."""
    reductions = dict.fromkeys(_reductions(result))
    return next(iter(reductions)) if len(reductions) == 1 and result not in reductions else None


def _reductions(tensor: te.Tensor) -> list[te.Tensor]:
    stage = tensor.stage
    if not isinstance(stage, Stage) or not is_step(tensor):
        return []
    if stage.reduction is not None:
        return [tensor]
    return [tensor for source in stage.reads for tensor in _reductions(source)]
