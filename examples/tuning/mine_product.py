# SPDX-License-Identifier: Apache-2.0
"""A schedule whose factors are choices of the tuner."""

from vdla import Schedule, te


def product(cfg):
    """A product of 96x128 and 128x96 matrices in tiles of rows and columns."""
    a, b = te.placeholder((96, 128), "float32", "a"), te.placeholder((128, 96), "float32", "b")
    k = te.reduce_axis(128, "k")
    c = te.compute((96, 96), lambda y, x: te.sum(a[y, k] * b[k, x], axis=k), "c")
    s = Schedule(te.create_function([a, b], [c], "product"))
    y, x, k = s.loops("c")
    _, rows = cfg.split("rows", extent=96, most=8)
    _, columns = cfg.split("columns", extent=96)
    cfg.require(lambda at: (at["columns"] % 16 == 0) & (at["rows"] * at["columns"] <= 256))
    y_outer, y = s.split(y, factor=rows)
    x_outer, x = s.split(x, factor=columns)
    s.reorder(y_outer, x_outer, *((k, y) if cfg.flag("k_outside") else (y, k)), x)
    s.vectorize(x)
    return s.fn
