# SPDX-License-Identifier: Apache-2.0
"""Products of two digits with sixteen lanes of numbers, in the registers of any processor.

Indices are in elements of their flat arrays and are not checked. All sums are exact, so it does not
matter whether the processor fuses a product with its sum.
"""

from __future__ import annotations

from typing import Any

from vdla.support.plain import PLAIN

LANES = 16

Value = Any  # Numba's and llvmlite's objects, which have no types

if PLAIN:

    def add_products(
        totals: Value, low: int, high: int, x: Value, x_low: int, x_high: int, w: Value, at: int, step: int, terms: int
    ) -> None:
        """`totals[low + o] += x[x_low + i] * w[at + i * step + o]` for all terms i and lanes o, and
        the same for the high digit.
        """
        totals, x, w = (array.reshape(-1) for array in (totals, x, w))
        for digit, first in ((low, x_low), (high, x_high)):
            for i in range(terms):
                place = at + i * step
                totals[digit : digit + LANES] += x[first + i] * w[place : place + LANES]

else:
    import numba  # noqa: F401  first, since it is what a user must install where either is missing

    # isort: split
    from llvmlite import ir
    from numba.core import cgutils, types
    from numba.core.extending import intrinsic

    _VECTOR = ir.VectorType(ir.DoubleType(), LANES)

    @intrinsic
    def add_products(
        typing: Value, totals: Value, low: Value, high: Value, x: Value, x_low: Value, x_high: Value, w: Value,
        at: Value, step: Value, terms: Value,
    ) -> Value:  # fmt: skip
        """As above, compiled: sums stay in registers."""

        def emit(context: Value, builder: Value, signature: Value, args: Value) -> Value:
            totals, x, w = (
                context.make_array(signature.args[n])(context, builder, args[n]).data for n in (0, 3, 6)
            )  # fmt: skip
            places = [_vector_at(builder, totals, args[n]) for n in (1, 2)]
            sums = [_variable(builder, builder.load(one, align=8, typ=_VECTOR)) for one in places]
            with cgutils.for_range(builder, args[9]) as loop:
                row = builder.add(args[7], builder.mul(loop.index, args[8]))
                weights = builder.load(_vector_at(builder, w, row), align=8, typ=_VECTOR)
                for first, total in zip((args[4], args[5]), sums, strict=True):
                    factor = builder.load(builder.gep(x, [builder.add(first, loop.index)]))
                    product = builder.fmul(_broadcast(builder, factor), weights, flags=["contract"])
                    builder.store(builder.fadd(builder.load(total, typ=_VECTOR), product, flags=["contract"]), total)
            for total, place in zip(sums, places, strict=True):
                builder.store(builder.load(total, typ=_VECTOR), place, align=8)
            return context.get_dummy_value()

        index = types.intp
        return types.void(totals, index, index, x, index, index, w, index, index, index), emit

    def _variable(builder: Value, value: Value) -> Value:
        """A place on the stack, of which LLVM makes a register."""
        made: Any = cgutils
        return made.alloca_once_value(builder, value)

    def _vector_at(builder: Value, data: Value, index: Value) -> Value:
        return builder.bitcast(builder.gep(data, [index]), ir.PointerType(_VECTOR))

    def _broadcast(builder: Value, value: Value) -> Value:
        undefined = ir.Constant(_VECTOR, ir.Undefined)
        first = builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
        return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))
