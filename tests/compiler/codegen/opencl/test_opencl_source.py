# SPDX-License-Identifier: Apache-2.0
"""The OpenCL C of small functions, word for word, and what cannot be written in it. No device."""

from __future__ import annotations

import pytest

from vdla.compiler import ir, te
from vdla.compiler.codegen.opencl import Launch, OpenClError, emit_opencl
from vdla.compiler.ir import THREAD
from vdla.compiler.lowering import PassError
from vdla.compiler.operators.gpu import grid_schedule
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import GridLimits

LIMITS = GridLimits("a device", threads=256, shared_bytes=1024)


def product(rows: int, depth: int, columns: int, dtype: str = "float32") -> ir.Function:
    a, b = te.placeholder((rows, depth), dtype, "a"), te.placeholder((depth, columns), dtype, "b")
    k = te.reduce_axis(depth, "k")
    c = te.compute((rows, columns), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "c")
    return te.create_function([a, b], [c], "product")


def element_wise(count, dtype: str, value) -> ir.Function:
    x = te.placeholder((count,), dtype, "x")
    return te.create_function([x], [te.compute((count,), lambda i: value(x[i]), "y")], "f")


def body(fn: ir.Function) -> list[str]:
    """The lines of the only kernel after the numbers of its threads."""
    text = emit_opencl(grid_schedule(fn, threads=4).fn, LIMITS).text
    lines = [line.strip() for line in text[text.index("__kernel") :].splitlines()[2:-1]]
    return [line for line in lines if "get_" not in line]


def test_a_product():
    source = emit_opencl(grid_schedule(product(6, 5, 8), threads=16).fn, LIMITS)
    assert (
        source.text
        == """\
#pragma OPENCL FP_CONTRACT OFF

__kernel __attribute__((reqd_work_group_size(16, 1, 1)))
void product_kernel(
    __global const float *restrict a,
    __global const float *restrict b,
    __global float *restrict c
) {
    const int bx = get_group_id(0);
    const int tx = get_local_id(0);
    const int i0 = tx / 8;
    const int i1 = tx % 8;
    float c_local;
    c_local = 0.0f;
    for (int k = 0; k < 5; ++k) {
        c_local = c_local + a[bx * 10 + i0 * 5 + k] * b[k * 8 + i1];
    }
    c[bx * 16 + i0 * 8 + i1] = c_local;
}
"""
    )
    assert source.launches == (Launch("product_kernel", ("a", "b", "c"), (), (3, 1, 1), (16, 1, 1)),)
    assert source.temporaries == ()


def test_a_device_array_between_kernels():
    x = te.placeholder((4, 6), "int32", "x")
    k, m = te.reduce_axis(6, "k"), te.reduce_axis(6, "m")
    rows = te.compute((4,), lambda i: te.sum(x[i, k], axis=k), "rows")
    y = te.compute((4,), lambda i: te.sum(x[i, m] * (rows[i] + rows[3 - i]), axis=m), "y")
    source = emit_opencl(grid_schedule(te.create_function([x], [y], "f")).fn, LIMITS)
    assert [launch.kernel for launch in source.launches] == ["f_0_kernel", "f_1_kernel"]
    assert [(t.name, t.dtype, t.shape) for t in source.temporaries] == [("rows", "int32", (4,))]


def test_a_symbolic_extent_is_a_parameter_and_in_the_grid():
    n = te.var("n")
    source = emit_opencl(grid_schedule(element_wise(n, "float32", lambda x: x + 1.0), threads=4).fn, LIMITS)
    assert source.launches == (
        Launch("f_kernel", ("x", "y"), ("n",), (("floordiv", ("add", "n", 3), 4), 1, 1), (4, 1, 1)),
    )
    assert "    if (bx * 4 + tx < n) {\n        y[bx * 4 + tx] = x[bx * 4 + tx] + 1.0f;\n    }\n" in source.text


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("int32", lambda x: x * x + 3, "(int)((uint)x[tx] * (uint)x[tx] + 3u)"),
        ("int8", lambda x: x * x, "(char)(x[tx] * x[tx])"),
        ("uint16", lambda x: x * x, "(ushort)((uint)x[tx] * x[tx])"),
        ("int4", lambda x: x + x, "wrap_int4(x[tx] + x[tx])"),
        ("int32", lambda x: x // 8, "x[tx] >> 3"),
        ("int32", lambda x: x // 6, "floordiv_int(x[tx], 6)"),
        ("uint32", lambda x: x % 6, "x[tx] % 6u"),
        ("int32", lambda x: x << 3, "(int)((uint)x[tx] << 3)"),
        ("float32", lambda x: te.cast("int8", x), "char_of_float(x[tx])"),
        ("float16", lambda x: x + x, "float16_of_float(float_of_float16(x[tx]) + float_of_float16(x[tx]))"),
        ("float64", lambda x: te.exp(x) * 0.5, "exp(x[tx]) * 0.5"),
        ("float32", te.abs, "fabs(x[tx])"),
        ("float32", lambda x: te.select(x > 1.0, x, -1.0), "x[tx] > 1.0f ? x[tx] : -1.0f"),
        ("bool", lambda x: x & (x != True), "x[tx] != 0 && (x[tx] != 0) != true"),  # noqa: E712
    ],
)
def test_values(dtype: str, value, expected: str):
    assert body(element_wise(4, dtype, value)) == [f"y[tx] = {expected};"]


def test_what_a_statement_uses_twice_is_computed_once():
    lines = body(element_wise(4, "float32", lambda x: (lambda e: e * e)(te.exp(x) + 1.0)))
    assert lines == ["{", "const float t1 = exp(x[tx]) + 1.0f;", "y[tx] = t1 * t1;", "}"]


def test_only_numbers_of_threads_are_divided_at_the_beginning():
    x, at = te.placeholder((8,), "float32", "x"), te.placeholder((1,), "int32", "at")
    y = te.compute((4,), lambda i: x[te.clip(at[0], 0, 7) // 2 + i], "y")
    text = emit_opencl(grid_schedule(te.create_function([x, at], [y], "f")).fn, LIMITS).text
    assert "const int i" not in text
    assert "y[tx] = x[(" in text


def test_vectors():
    s = Schedule(element_wise(16, "float32", lambda x: te.exp(x) * 2.0))
    thread, lane = s.split("i", factor=4)
    s.bind(thread, "threadIdx.x")
    s.vectorize(lane)
    assert (
        "    vstore4(exp(vload4(0, x + tx * 4)) * (float4)(2.0f), 0, y + tx * 4);\n" in emit_opencl(s.fn, LIMITS).text
    )


def test_vectors_of_what_has_none_are_loops():
    s = Schedule(element_wise(16, "float16", lambda x: x + x))
    thread, lane = s.split("i", factor=4)
    s.bind(thread, "threadIdx.x")
    s.vectorize(lane)
    text = emit_opencl(s.fn, LIMITS).text
    assert "    #pragma unroll\n    for (int i_i = 0; i_i < 4; ++i_i) {\n" in text


def test_names_of_the_language_get_an_underscore():
    half, local = te.placeholder((4,), "int32", "half"), te.placeholder((4,), "int32", "float4")
    y = te.compute((4,), lambda i: half[i] + local[i], "tx")
    text = emit_opencl(grid_schedule(te.create_function([half, local], [y], "exp")).fn, LIMITS).text
    assert "__global const int *restrict half_,\n    __global const int *restrict float4_,\n" in text
    assert "const int tx_ = get_local_id(0);\n    tx[tx_] = (int)((uint)half_[tx_] + (uint)float4_[tx_]);" in text


def test_shared_tiles_and_barriers():
    x = te.placeholder((8,), "float32", "x")
    s = Schedule(te.create_function([x], [te.compute((8,), lambda i: x[7 - i], "y")], "f"))
    s.bind("i", "threadIdx.x")
    tile = s.cache_read("y", "x", "shared")
    s.compute_at(tile, "i")
    s.bind(s.loops(tile)[-1], "threadIdx.x")
    text = emit_opencl(s.fn, LIMITS).text
    assert "    __local float x_shared[8];\n" in text
    assert text.count("barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);") == 1


@pytest.mark.parametrize(
    ("reduction", "expected"), [(te.sum, "atomic_add(&y[0], x[tx]);"), (te.max, "atomic_max(&y[0], x[tx]);")]
)
def test_atomic_updates(reduction, expected: str):
    x, k = te.placeholder((8,), "int32", "x"), te.reduce_axis(8, "k")
    s = Schedule(te.create_function([x], [te.compute((1,), lambda i: reduction(x[k], axis=k), "y")], "f"))
    s.atomic("y")
    s.reorder("k", "i")
    s.bind("k", "threadIdx.x")
    assert expected in emit_opencl(s.fn, LIMITS).text


def test_more_threads_than_the_device_has():
    s = Schedule(element_wise(512, "int32", lambda x: x))
    s.bind("i", "threadIdx.x")
    message = r"f: a block must have at most 256 threads on a device, got 512 \(512 x 1 x 1\)"
    with pytest.raises(PassError, match=f"^{message}$"):
        emit_opencl(s.fn, LIMITS)


def test_too_many_elements():
    with pytest.raises(OpenClError, match=r"^f: x must have at most 2147483647 elements, got 4294967296$"):
        emit_opencl(huge(), LIMITS)


def huge() -> ir.Function:
    x = te.placeholder((1 << 16, 1 << 16), "int8", "x")
    return te.create_function([x], [te.compute((4,), lambda i: x[i, i], "y")], "f")


def test_an_array_of_a_thread_that_is_too_large():
    count, row, place = 1 << 15, ir.Var("i"), ir.Var("j")
    t = ir.Buffer("t", (count,), "int32", "local")
    buffers = {name: ir.Buffer(name, (2, count), "int32") for name in ("x", "y")} | {"t": t}

    def step(var: str, store: ir.Store) -> ir.For:
        axes = (ir.Axis("i", 2), ir.Axis("j", count))
        return ir.For(var, count, ir.Block(name=f"of_{var}", axes=axes, values=(ir.Var("r"), ir.Var(var)), body=store))

    fill = step("a", ir.Store("t", (place,), ir.Load("x", (row, place))))
    drain = step("b", ir.Store("y", (row, place), ir.Load("t", (place,))))
    body = ir.For("r", 2, ir.seq(fill, drain), annotations={THREAD: "blockIdx.x"})
    message = "f: an array of one thread must have at most 65536 bytes, got 131072 of t"
    with pytest.raises(OpenClError, match=f"^{message}$"):
        emit_opencl(ir.Function("f", ("x", "y"), buffers, body), LIMITS)


def test_conditions_are_one_branch_and_guard_what_is_read():
    x, y = (te.placeholder((4, 5), "int32", name) for name in "xy")
    z = te.compute((4, 5), lambda i, j: x[i, j] + y[i, j], "z")
    s = Schedule(te.create_function([x, y], [z], "f"))
    for loop, axis in zip(s.loops("z"), ("y", "x"), strict=True):
        block, thread = s.split(loop, factor=3)
        s.bind(block, f"blockIdx.{axis}")
        s.bind(thread, f"threadIdx.{axis}")
    assert "if ((by * 3 + ty < 4) & (bx * 3 + tx < 5)) {" in emit_opencl(s.fn, LIMITS).text
