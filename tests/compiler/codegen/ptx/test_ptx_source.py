# SPDX-License-Identifier: Apache-2.0
"""The PTX of small functions: its loads, barriers, shared arrays and parameters. No device."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import pytest

from vdla.compiler import ir, te
from vdla.compiler.abi import Launch
from vdla.compiler.codegen.ptx import PtxError, emit_ptx
from vdla.compiler.lowering.grid_pipeline import lower_kernels
from vdla.compiler.operators.gpu import grid_schedule
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import GridLimits
from vdla.verification.grid.cooperative import row_sums, stencil, tiled_product, total

LIMITS = GridLimits("a device")
SCHEDULES = [
    partial(row_sums, 6, 32, 8, tree=True),
    partial(total, 96, 3, 8),
    partial(stencil, 30, 8),
    partial(tiled_product, 20, 8, 2, 4),
]


def element_wise(count, dtype: str, value) -> ir.Function:
    x = te.placeholder((count,), dtype, "x")
    return te.create_function([x], [te.compute((count,), lambda i: value(x[i]), "y")], "f")


def vectors(dtype: str, lanes: int) -> str:
    s = Schedule(element_wise(64, dtype, lambda x: x + x))
    thread, lane = s.split("i", factor=lanes)
    s.bind(thread, "threadIdx.x")
    s.vectorize(lane)
    return emit_ptx(s.fn, LIMITS).text


@pytest.mark.parametrize(("dtype", "lanes"), [("float32", 4), ("int32", 4), ("float16", 8), ("int8", 16)])
def test_vectors_are_loads_and_stores_of_128_bits(dtype: str, lanes: int) -> None:
    text = vectors(dtype, lanes)
    assert len(re.findall(r"ld\.global\.nc\.v4\.b32", text)) == 1
    assert len(re.findall(r"st\.global\.v4\.b32", text)) == 1


@pytest.mark.parametrize("factory", SCHEDULES)
def test_barriers_and_shared_arrays_are_those_of_the_lowering(factory: Callable[[], Schedule]) -> None:
    s = factory()
    text, kernels = emit_ptx(s.fn, LIMITS).text, lower_kernels(s.fn, LIMITS)
    barriers = sum(isinstance(stmt, ir.Barrier) for kernel in kernels for stmt in ir.walk(kernel.body))
    assert text.count("bar.sync") == barriers
    shared = [int(size) for size in re.findall(r"\.shared \.align 16 \.b8 \w+\[(\d+)\]", text)]
    assert sum(shared) == sum(kernel.shared_bytes for kernel in kernels)


@pytest.mark.parametrize("factory", SCHEDULES)
def test_no_access_leaves_the_space_of_its_array_open(factory: Callable[[], Schedule]) -> None:
    s = factory()
    text = emit_ptx(s.fn, LIMITS).text
    assert not re.findall(r"\b(?:ld|st|atom)\.(?!global|shared|param)\S+", text)
    assert ".local" not in text


def test_a_symbolic_extent_is_an_int32_after_the_pointers() -> None:
    fn = element_wise(te.var("n"), "float32", lambda x: x + 1.0)
    source = emit_ptx(grid_schedule(fn, threads=4).fn, LIMITS)
    assert source.launches == (
        Launch("f_kernel", ("x", "y"), ("n",), (("floordiv", ("add", "n", 3), 4), 1, 1), (4, 1, 1)),
    )
    assert [line.split()[1] for line in source.text.splitlines() if "f_kernel_param" in line][:3] == [
        ".u64",
        ".u64",
        ".u32",
    ]
    assert ".reqntid 4, 1, 1\n" in source.text


@pytest.mark.parametrize(("reduction", "expected"), [(te.sum, "add.u32"), (te.max, "max.s32")])
def test_atomic_updates(reduction, expected: str) -> None:
    x, k = te.placeholder((8,), "int32", "x"), te.reduce_axis(8, "k")
    s = Schedule(te.create_function([x], [te.compute((1,), lambda i: reduction(x[k], axis=k), "y")], "f"))
    s.atomic("y")
    s.reorder("k", "i")
    s.bind("k", "threadIdx.x")
    assert f"atom.global.{expected}" in emit_ptx(s.fn, LIMITS).text


def test_an_unknown_architecture_is_refused() -> None:
    message = "ptx: arch must be one of sm_70, sm_75, sm_80, sm_86, sm_89, sm_90, sm_100, sm_120, got 'sm_81'"
    with pytest.raises(PtxError, match=f"^{re.escape(message)}$"):
        emit_ptx(element_wise(4, "int32", lambda x: x), LIMITS, "sm_81")
