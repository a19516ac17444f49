# SPDX-License-Identifier: Apache-2.0
"""How the offset of an access varies along the lanes of a vector, where that is known statically.

The offset of an element is a sum of terms. Terms without the lane variable are uniform; terms of
the lane variable alone are evaluated now; only the other terms are computed per lane at run time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from vdla.compiler import ir
from vdla.compiler.arith import Linear, Ranges, bounds, index_function, var_names
from vdla.compiler.codegen.llvm.types import Value


@dataclass(frozen=True, slots=True)
class VectorLanes:
    """A vectorized loop: its variable, its lanes, and the mask of active ones (None for all)."""

    var: str
    count: int
    mask: Value | None = None

    def with_mask(self, mask: Value | None) -> VectorLanes:
        """The same loop with other active lanes."""
        return replace(self, mask=mask)


@dataclass(frozen=True, slots=True)
class AccessPattern:
    """The offset of each lane: `start + steps[lane] + rest`; only `rest` is dynamic."""

    start: Linear
    steps: tuple[int, ...]
    rest: Linear

    @property
    def is_static(self) -> bool:
        """Whether the distances between lanes are known."""
        return not self.rest.terms

    @property
    def is_uniform(self) -> bool:
        """Whether all lanes access one element."""
        return self.is_static and len(set(self.steps)) == 1

    @property
    def is_contiguous(self) -> bool:
        """Whether consecutive lanes access consecutive elements."""
        return self.is_static and all(b - a == 1 for a, b in zip(self.steps, self.steps[1:], strict=False))

    @property
    def stride(self) -> int:
        """The distance between consecutive lanes in elements; 0 if it differs."""
        distances = {abs(b - a) for a, b in zip(self.steps, self.steps[1:], strict=False)}
        return distances.pop() if len(distances) == 1 else 0

    @property
    def span(self) -> int:
        """The number of elements from the lowest to the highest, both included."""
        return max(self.steps) - min(self.steps) + 1


def access_pattern(offset: Linear, lanes: VectorLanes) -> AccessPattern:
    """How `offset` varies along the lanes."""
    uniform: dict[ir.Expr, int] = {}
    static: dict[ir.Expr, int] = {}
    dynamic: dict[ir.Expr, int] = {}
    for term, factor in offset.terms.items():
        names = {term.name} if isinstance(term, ir.Var) else var_names(term)
        is_static = names == {lanes.var} and _is_static(term)
        group = uniform if lanes.var not in names else static if is_static else dynamic
        group[term] = factor
    start, rest = Linear(uniform, offset.const), Linear(dynamic)
    if all(isinstance(term, ir.Var) for term in static):  # of the lanes: most accesses
        stride = sum(static.values())
        return AccessPattern(start, tuple(lane * stride for lane in range(lanes.count)), rest)
    numbers = np.arange(lanes.count)
    steps = np.zeros(lanes.count, np.int64)
    for term, factor in static.items():
        steps = steps + factor * _evaluate(term, lanes.var, numbers)
    return AccessPattern(start, tuple(steps.tolist()), rest)


def _evaluate(term: ir.Expr, var: str, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """A term of `var` alone, for each value of `var`."""
    function = index_function(term)
    assert function is not None
    return np.asarray(function({var: numbers}), np.int64)


def _is_static(term: ir.Expr) -> bool:
    """Whether a term can be evaluated at compile time; divisors must be positive constants."""
    for expr in ir.walk_expr(term):
        match expr:
            case ir.Binary(op="floordiv" | "mod" | "shl" | "shr", b=b):
                if not isinstance(b, ir.Const) or b.value <= 0:
                    return False
            case ir.Var() | ir.Const() | ir.Binary():
                continue
            case _:
                return False
    return True


def varies(expr: ir.Expr, lanes: VectorLanes | None) -> bool:
    """Whether `expr` may differ between lanes."""
    return lanes is not None and any(isinstance(e, ir.Var) and e.name == lanes.var for e in ir.walk_expr(expr))


def is_safe(expr: ir.Expr, buffers: Mapping[str, ir.Buffer], ranges: Ranges) -> bool:
    """Whether all loads of `expr` are inside their buffers, for all values of the variables."""
    loads = ir.find(expr, ir.Load)
    return all(is_inside(load.indices, buffers[load.buffer], ranges) for load in loads)


def is_inside(indices: tuple[ir.Expr, ...], buffer: ir.Buffer, ranges: Ranges) -> bool:
    """Whether an element is inside its buffer, for all values of the variables."""
    for index, extent in zip(indices, buffer.shape, strict=True):
        low, high = bounds(index, ranges)
        if low < 0 or not isinstance(extent, int) or high >= extent:
            return False
    return True
