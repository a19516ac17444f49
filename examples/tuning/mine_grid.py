# SPDX-License-Identifier: Apache-2.0
"""A product for the threads of a GPU, to be tuned."""

from vdla import te
from vdla.operators import matmul


def product():
    """A product of 64x48 and 48x96 matrices."""
    a, b = te.placeholder((64, 48), "float32", "a"), te.placeholder((48, 96), "float32", "b")
    return te.create_function([a, b], [matmul(a, b, name="c")], "product")
