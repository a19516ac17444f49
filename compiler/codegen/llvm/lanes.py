"""How an access moves along the lanes of a vector: where each lane's element lies, as far as that is known.

The place of an element in its buffer is a sum of terms. Terms without the lane variable are the same in all lanes;
those of the lane variable alone are numbers now; only the rest has to be computed for each lane.
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
class Lanes:
    """The loop variable that is one value a lane, and where given, the lanes that take part (a vector of i1)."""

    var: str
    count: int
    mask: Value | None = None

    def only(self, mask: Value | None) -> Lanes:
        """The same lanes with another mask."""
        return replace(self, mask=mask)


@dataclass(frozen=True, slots=True)
class Pattern:
    """Places along the lanes: `start`, the same in all, plus `steps[lane]`, plus `rest`, which differs."""

    start: Linear
    steps: tuple[int, ...]
    rest: Linear

    @property
    def is_static(self) -> bool:
        """Whether the distances between the lanes are numbers."""
        return not self.rest.terms

    @property
    def is_uniform(self) -> bool:
        """Whether all lanes have one place."""
        return self.is_static and len(set(self.steps)) == 1

    @property
    def is_contiguous(self) -> bool:
        """Whether each lane is right behind the one before."""
        return self.is_static and all(b - a == 1 for a, b in zip(self.steps, self.steps[1:], strict=False))

    @property
    def span(self) -> int:
        """The elements from the first place to the last, both included."""
        return max(self.steps) - min(self.steps) + 1


def pattern_of(form: Linear, lanes: Lanes) -> Pattern:
    """How the place `form` moves along the lanes."""
    start: dict[ir.Expr, int] = {}
    own: dict[ir.Expr, int] = {}
    rest: dict[ir.Expr, int] = {}
    for term, factor in form.terms.items():
        names = var_names(term)
        group = start if lanes.var not in names else own if names == {lanes.var} and is_number(term) else rest
        group[term] = factor
    numbers = np.arange(lanes.count)
    steps = np.zeros(lanes.count, np.int64)
    for term, factor in own.items():
        steps = steps + factor * along(term, lanes.var, numbers)
    return Pattern(Linear(start, form.const), tuple(int(step) for step in steps), Linear(rest))


def along(term: ir.Expr, var: str, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The value of a term of `var` alone, for each number that this may be."""
    if isinstance(term, ir.Var):
        return numbers
    function = index_function(term)
    assert function is not None
    return np.asarray(function({var: numbers}), np.int64)


def is_number(term: ir.Expr) -> bool:
    """Whether a term of one variable can be computed as soon as that is known; only constants may divide."""
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


def varies(expr: ir.Expr, lanes: Lanes | None) -> bool:
    """Whether `expr` may differ from lane to lane."""
    return lanes is not None and any(isinstance(e, ir.Var) and e.name == lanes.var for e in ir.walk_expr(expr))


def is_safe(expr: ir.Expr, buffers: Mapping[str, ir.Buffer], ranges: Ranges) -> bool:
    """Whether every element that `expr` reads is inside of its buffer, whatever the variables are."""
    loads = (e for e in ir.walk_expr(expr) if isinstance(e, ir.Load))
    return all(is_inside(load.indices, buffers[load.buffer], ranges) for load in loads)


def is_inside(indices: tuple[ir.Expr, ...], buffer: ir.Buffer, ranges: Ranges) -> bool:
    """Whether the element is inside of its buffer, whatever the variables are."""
    for index, extent in zip(indices, buffer.shape, strict=True):
        low, high = bounds(index, ranges)
        if low < 0 or not isinstance(extent, int) or high >= extent:
            return False
    return True
