"""A block as a step of a GPU sees it: each axis as the start of a tile and a place inside.

An entry of a GPU's operand is a tile anywhere in its buffer, so an axis of the block may be driven
by loops inside the tensorized nest and outside of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from vdla.compiler import ir
from vdla.compiler.arith import Linear, linear, var_names
from vdla.compiler.ir import substitute_in


def tiled_block(block: ir.Block, loops: Mapping[str, int]) -> ir.Block:
    """The block with each axis that one of `loops` drives in part as two axes.

    block c(vi=i_o * 16 + i_i): c[vi]    ->    block c(vi=i_o * 16, i_i=i_i): c[vi + i_i]

    The axis of the start keeps its name. What is bound in another way stays as it is.
    """
    axes: list[ir.Axis] = []
    values: list[ir.Expr] = []
    places: dict[str, ir.Expr] = {}
    for axis, value in zip(block.axes, block.values, strict=True):
        loop = _inner_loop(value, loops)
        if loop is None or value == ir.Var(loop) or any(other.var == loop for other in block.axes):
            axes.append(axis)
            values.append(value)
            continue
        axes += [axis, ir.Axis(loop, loops[loop], axis.kind)]
        values += [(linear(value) + Linear({ir.Var(loop): -1})).expr(), ir.Var(loop)]
        places[axis.var] = ir.Binary("add", ir.Var(axis.var), ir.Var(loop))
    return replace(
        block,
        axes=tuple(axes),
        values=tuple(values),
        body=substitute_in(block.body, places),
        init=None if block.init is None else substitute_in(block.init, places),
    )


def _inner_loop(value: ir.Expr, loops: Mapping[str, int]) -> str | None:
    """The one loop of `loops` that a value adds."""
    form = linear(value)
    used = [name for name in var_names(value) if name in loops]
    return used[0] if len(used) == 1 and form.terms.get(ir.Var(used[0])) == 1 else None
