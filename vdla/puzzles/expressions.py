# SPDX-License-Identifier: Apache-2.0
"""What the expressions of several puzzles have in common."""

from vdla.compiler import te


def product(x: te.Value, w: te.Value) -> te.Value:
    """x * w in 32 bits."""
    return te.cast("int32", x) * te.cast("int32", w)
