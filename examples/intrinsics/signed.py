# SPDX-License-Identifier: Apache-2.0
"""A dot product of signed bytes as an intrinsic of CPUs."""

import vdla
from vdla import te


def declare(target):
    x, w = te.placeholder((4,), "int8", "x"), te.placeholder((16, 4), "int8", "w")
    i = te.reduce_axis(4, "i")
    product = lambda o: te.sum(te.cast("int32", x[i]) * te.cast("int32", w[o, i]), axis=i)
    output = te.compute((16,), product, "acc")
    scopes = {"x": "memory", "w": "memory", "acc": "memory"}
    return vdla.Extension(name="signed", doc="Adds products of signed bytes.", output=output, scopes=scopes)
