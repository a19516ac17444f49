"""The rules of vdla.RowTerms and vdla.ColumnLanes: the share of zero points in a product.

Of (a - za) (b - zb), summed over K, a machine computes the products a b. It gets -zb times the sum
of a row of a as more elements of that row, and -za times the sum of a column of b as a bias.
"""

from __future__ import annotations

from vdla.compiler import te
from vdla.compiler.graph.rules.rule import NodeCall

_UNIT = 127  # the greatest element of a factor
_LOW_WORD = 0xFFFF_FFFF


def row_terms(call: NodeCall) -> te.Tensor:
    """The rule of vdla.RowTerms."""
    x, factor, count = call.tensor(0), call.attribute("factor"), call.attribute("count")
    *rows, depth = x.shape
    k = te.reduce_axis(depth, "k")
    sums = te.compute((*rows,), lambda *i: te.sum(te.cast("int32", x[(*i, k)]), axis=k), f"{call.name()}_sums")

    def value(*i: te.Value) -> te.Value:
        total = sums[i[:-1]] * factor
        share = (total // _UNIT + (i[-1] - depth)) // max(count, 1)
        rest = total - total // _UNIT * _UNIT
        term = te.select(i[-1] < depth + count, share, rest)
        return te.select(i[-1] < depth, x[i], te.cast("int8", term))

    return te.compute(call.result.extents, value, call.name())


def column_lanes(call: NodeCall) -> te.Tensor:
    """The rule of vdla.ColumnLanes."""
    x, factor, offset, lane = call.tensor(0), *map(call.attribute, ("factor", "offset", "lane"))
    *batch, depth, columns = x.shape
    k = te.reduce_axis(depth, "k")
    shape = (*batch, columns)
    sums = te.compute(shape, lambda *i: te.sum(te.cast("int32", x[(*i[:-1], k, i[-1])]), axis=k), f"{call.name()}_sums")

    def value(*i: te.Value) -> te.Value:
        bias = te.cast("int64", sums[i] * factor + offset)
        return te.const(lane, "int64") | bias & _LOW_WORD

    return te.compute(shape, value, call.name())
