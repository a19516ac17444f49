# SPDX-License-Identifier: Apache-2.0
"""A tensor expression of one's own, to be tuned."""

from vdla import te


def scores():
    """The products of 24 and 32 vectors, each with each."""
    x, w = te.placeholder((24, 40), "int8", "x"), te.placeholder((32, 40), "int8", "w")
    k = te.reduce_axis(40, "k")
    wide = lambda value: te.cast("int32", value)
    return te.compute((24, 32), lambda i, j: te.sum(wide(x[i, k]) * wide(w[j, k]), axis=k), "y")
