# SPDX-License-Identifier: Apache-2.0
"""A matrix product scheduled up to the point where `tensorize` finds the GEMM in it."""

from __future__ import annotations

from vdla.compiler import te
from vdla.compiler.codegen.vdla.intrinsics import gemm
from vdla.compiler.schedule import Schedule
from vdla.hardware.config import Config

CONFIG = Config.preset("pynq_z1")
GEMM = gemm.gemm(CONFIG)


def matmul(inner: int = 16, transposed: bool = False, dtype: str = "int8", swapped: bool = False) -> Schedule:
    """c[n, m, 1, 16] = sum of a[k, m, 1, i] * b[n, k, 16, i], in that loop order."""
    a = te.placeholder((2, 3, 1, inner), dtype, "a")
    b = te.placeholder((2, 2, inner, 16) if transposed else (2, 2, 16, inner), "int8", "b")
    k, i = te.reduce_axis(2, "k"), te.reduce_axis(inner, "i")

    def total(n: te.Value, m: te.Value, r: te.Value, o: te.Value) -> te.Value:
        left = te.cast("int32", a[k, m, r, i])
        right = te.cast("int32", b[n, k, i, o] if transposed else b[n, k, o, i])
        return te.sum(right * left if swapped else left * right, axis=[k, i])

    return Schedule(te.create_function([a, b], [te.compute((2, 3, 1, 16), total, "c")], "matmul"))


def placed(s: Schedule) -> Schedule:
    """Caches every operand in its on-chip memory."""
    s.cache_write("c", "acc")
    s.cache_read("c", "a", "inp")
    s.cache_read("c", "b", "wgt")
    return s


def ordered(s: Schedule) -> Schedule:
    """Moves the loops of an entry innermost."""
    n, m, r, o, k, i = s.loops("c")
    s.reorder(n, m, k, r, o, i)
    return s


def ready(**options: int | bool | str) -> Schedule:
    """A schedule that matches GEMM if its expression does."""
    return ordered(placed(matmul(**options)))  # type: ignore[arg-type]


def step(s: Schedule, depth: int = 3, block: str = "c") -> None:
    """Tensorizes the innermost loops."""
    s.tensorize(s.loops(block)[-depth], GEMM)
