# SPDX-License-Identifier: Apache-2.0
"""Vector and conditional accesses read and write exactly the elements they should.

Arrays end at guard pages, so an access out of bounds ends the process.
"""

from __future__ import annotations

import ctypes
import mmap
import re
from dataclasses import replace

import numpy as np
import pytest
from helpers.lowered import Compiled, add, binary, function, load, module_text, mul, store, vector

from vdla.compiler import ir
from vdla.compiler.interpret import interpret
from vdla.compiler.target import TARGETS

X, LANE, N = ir.Var("x"), ir.Var("l"), ir.Var("n")
PAGE = mmap.PAGESIZE
KEPT: list[mmap.mmap] = []


def fenced(array: np.ndarray, at_end: bool) -> np.ndarray:
    """A copy that begins or ends at a guard page."""
    pages = -(-array.nbytes // PAGE)
    room = mmap.mmap(-1, (pages + 2) * PAGE)
    KEPT.append(room)
    base = ctypes.addressof(ctypes.c_char.from_buffer(room))
    libc = ctypes.CDLL(None)
    for page in (0, pages + 1):
        assert libc.mprotect(ctypes.c_void_p(base + page * PAGE), ctypes.c_size_t(PAGE), 0) == 0
    start = PAGE + (pages * PAGE - array.nbytes if at_end else 0)
    copy = np.frombuffer(room, array.dtype, array.size, start).reshape(array.shape)
    copy[...] = array
    return copy


def check(fn: ir.Function, *inputs: np.ndarray) -> None:
    """Compares with the interpreter, with guard pages; the last parameter is the output."""
    out = fn.params[-1]
    wanted = interpret(fn, dict(zip(fn.params, inputs, strict=False)))[out]
    kernel = Compiled(fn)
    for at_end in (False, True):
        found = fenced(np.zeros_like(wanted), at_end)
        assert kernel(*(fenced(array, at_end) for array in inputs), found) == 0
        assert np.array_equal(found, wanted)


def ramp(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.arange(1, np.prod(shape) + 1).reshape(shape).astype(dtype)


def buffers(dtype: str, **shapes: tuple[ir.Extent, ...]) -> list[ir.Buffer]:
    return [ir.Buffer(name, shape, dtype) for name, shape in shapes.items()]


PATTERNS = {
    "contiguous": add(LANE, 3),
    "backwards": binary("sub", 18, LANE),
    "every second": mul(LANE, 2),
    "every third, backwards": binary("sub", 24, mul(LANE, 3)),
    "each twice": binary("floordiv", LANE, 2),
    "turning": binary("mod", add(LANE, 5), 8),
    "far apart": mul(LANE, 7),
    "one": ir.Const(4),
    "clamped": binary("min", LANE, 5),
}


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "bfloat16"])
@pytest.mark.parametrize("name", PATTERNS)
def test_lanes_read_their_elements_and_no_others(name: str, dtype: str) -> None:
    size = 57
    fn = function(buffers(dtype, a=(size,), y=(9,)), vector("l", 9, store("y", (LANE,), load("a", PATTERNS[name]))))
    values = np.arange(size) % 3 > 0 if dtype == "bool" else ramp(size)
    from vdla.compiler.ir import storage_dtype

    check(fn, values.astype(storage_dtype(dtype)))


def test_close_lanes_are_loaded_as_two_whole_vectors() -> None:
    place = mul(LANE, 2)
    fn = function(buffers("float32", a=(15,), y=(8,)), vector("l", 8, store("y", (LANE,), load("a", place))))
    text = module_text(fn)
    assert text.count(" load <8 x float>") == 2
    assert "gather" not in text
    far = function(buffers("float32", a=(22,), y=(8,)), vector("l", 8, store("y", (LANE,), load("a", mul(LANE, 3)))))
    assert module_text(far).count(" load <22 x float>") == 1


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(("stride", "size"), [(2, 48), (3, 72), (4, 96), (4, 95), (4, 97)])
def test_lanes_of_all_elements_of_groups_are_loaded_at_once(stride: int, size: int, backwards: bool) -> None:
    group = mul(X, 8 * stride)
    lane = binary("sub", 7 * stride, mul(LANE, stride)) if backwards else mul(LANE, stride)
    lanes = [
        vector("l", 8, store("y", (X, e, LANE), load("a", add(group, add(lane, ir.Const(e)))))) for e in range(stride)
    ]
    fn = function(buffers("float32", a=(size,), y=(2, stride, 8)), ir.For("x", 2, ir.seq(*lanes)))
    check(fn, ramp(size))
    places = set(re.findall(r" load <.*", module_text(fn)))
    assert (len(places) == (2 if stride == 2 else 1)) == (size % stride == 0)


def test_partial_vectors_are_masked_except_in_registers() -> None:
    def row(count: int, scope: str = "global", dtype: str = "float32") -> ir.Function:
        a, y = (ir.Buffer(name, (count,), dtype) for name in "ay")
        t = ir.Buffer("t", (count,), dtype, scope)
        copies = [vector(v, count, store(to, (ir.Var(v),), load(of, ir.Var(v)))) for v, to, of in ("lta", "myt")]
        return function([a, t, y], ir.seq(*copies))

    def masked(fn: ir.Function) -> int:
        return len(re.findall(r"call .*llvm\.masked", module_text(fn, TARGETS["x86-64-avx512"])))

    bytes_too = ((row(7, dtype="uint8"), 4), (row(15, dtype="int8"), 4), (row(17, dtype="int8"), 0))
    for fn, found in ((row(7), 4), (row(8), 0), *bytes_too):
        assert masked(fn) == found
        assert "masked" not in module_text(fn, TARGETS["x86-64-avx2"])
    inner = row(7, "stack")
    inside = replace(inner, params=("a", "y"), body=ir.Alloc(("t",), inner.body))
    assert masked(inside) == 2
    check(inside, ramp(7))


def test_lanes_of_fused_rows_and_columns_are_contiguous() -> None:
    place = add(mul(X, 8), LANE)
    rows = binary("floordiv", place, 6)
    indices = (binary("floordiv", rows, 4), binary("mod", rows, 4), binary("mod", place, 6))
    nest = ir.For("x", 6, vector("l", 8, store("y", indices, load("a", *indices))))
    fn = function(buffers("float32", a=(2, 4, 6), y=(2, 4, 6)), nest)
    assert "gather" not in module_text(fn)
    assert "scatter" not in module_text(fn)
    check(fn, ramp(2, 4, 6))


def test_dynamic_offsets_are_gathered() -> None:
    fn = function(
        [ir.Buffer("a", (20,), "float32"), ir.Buffer("i", (8,), "int32"), ir.Buffer("y", (8,), "float32")],
        vector("l", 8, store("y", (LANE,), load("a", load("i", LANE)))),
    )
    check(fn, ramp(20), np.array([19, 0, 3, 3, 7, 18, 1, 0], np.int32))


@pytest.mark.parametrize("name", ["backwards", "every second"])
def test_lanes_write_their_elements_and_no_others(name: str) -> None:
    size = 19
    clear = ir.For("x", size, store("y", (X,), ir.Const(0.0, "float32")))
    write = vector("l", 9, store("y", (PATTERNS[name],), load("a", LANE)))
    check(function(buffers("float32", a=(9,), y=(size,)), ir.seq(clear, write)), ramp(9))


def padded(lanes: int) -> ir.Function:
    """A long row padded by two elements on either side."""
    size = 508
    place = binary("sub", X if lanes == 1 else add(mul(X, lanes), LANE), 2)
    inside = binary("and", binary("ge", place, 0), binary("lt", place, size))
    write = store("y", (add(place, 2),), ir.Select(inside, load("a", place), ir.Const(0.5, "float32")))
    body = ir.For("x", (size + 4) // lanes, write if lanes == 1 else vector("l", lanes, write))
    return function(buffers("float32", a=(size,), y=(size + 4,)), body)


@pytest.mark.parametrize("lanes", [1, 4, 8, 16])
def test_padding_is_not_read(lanes: int) -> None:
    check(padded(lanes), ramp(508))


def test_an_address_that_may_be_out_of_bounds_is_not_inbounds() -> None:
    """A partial sum may be out of bounds; with `inbounds`, the address would be poison."""
    text = module_text(padded(1))
    assert "getelementptr float" in text
    assert text.count("getelementptr inbounds") == 1  # of the output


def test_a_uniform_condition_is_a_branch() -> None:
    row = binary("sub", X, 1)
    inside = binary("and", binary("ge", row, 0), binary("lt", row, 3))
    value = ir.Select(inside, load("a", row, LANE), ir.Const(-1.0, "float32"))
    fn = function(buffers("float32", a=(3, 8), y=(5, 8)), ir.For("x", 5, vector("l", 8, store("y", (X, LANE), value))))
    check(fn, ramp(3, 8))
    assert "masked" not in module_text(fn)


def test_a_uniform_load_is_skipped_if_no_lane_is_active() -> None:
    value = ir.Select(load("m", X, LANE), load("a", mul(X, 10000)), ir.Const(0.5, "float32"))
    params = [ir.Buffer("m", (9, 8), "bool"), *buffers("float32", a=(3,), y=(9, 8))]
    mask = np.zeros((9, 8), bool)
    mask[0, 3:5] = True
    check(function(params, ir.For("x", 9, vector("l", 8, store("y", (X, LANE), value)))), mask, ramp(3))


def test_inactive_lanes_are_not_written() -> None:
    size, lanes = 21, 8
    place = add(mul(X, lanes), LANE)
    body = ir.For("x", 3, vector("l", lanes, ir.If(binary("lt", place, size), store("y", (place,), load("a", place)))))
    check(function(buffers("int16", a=(size,), y=(size,)), body), ramp(size, dtype="int16"))


@pytest.mark.parametrize("lanes", [1, 4])
def test_a_multistore_reads_before_it_writes(lanes: int) -> None:
    index = X if lanes == 1 else LANE
    fill = ir.For(
        "k",
        4,
        ir.seq(
            store("y", (0, ir.Var("k")), load("a", 0, ir.Var("k"))),
            store("y", (1, ir.Var("k")), load("a", 1, ir.Var("k"))),
        ),
    )
    swap = ir.MultiStore((store("y", (0, index), load("y", 1, index)), store("y", (1, index), load("y", 0, index))))
    loop = ir.For("x", 4, swap) if lanes == 1 else vector("l", lanes, swap)
    fn = function(buffers("int32", a=(2, 4), y=(2, 4)), ir.seq(fill, loop))
    a, found = ramp(2, 4, dtype="int32"), np.zeros((2, 4), np.int32)
    assert Compiled(fn)(a, found) == 0
    assert np.array_equal(found, a[::-1])


def test_symbolic_shapes_give_the_strides() -> None:
    rows, half = ir.Var("m"), binary("floordiv", N, 2)
    params = buffers("float64", a=(rows, N), y=(N, rows))
    body = ir.For("x", rows, ir.For("j", N, store("y", (ir.Var("j"), X), load("a", X, ir.Var("j")))))
    twice = ir.For("x", half, store("y", (X, 0), ir.Binary("add", load("y", X, 0), ir.Const(0.5, "float64"))))
    kernel = Compiled(function(params, ir.seq(body, twice), scalars=("m", "n")))
    for m, n in ((3, 5), (1, 1), (4, 2)):
        a, found = ramp(m, n, dtype="float64"), np.zeros((n, m))
        assert kernel(a, found, m=m, n=n) == 0
        wanted = a.T.copy()
        wanted[: n // 2, 0] += 0.5
        assert np.array_equal(found, wanted)


def test_vector_loops_of_two_lengths_may_share_a_variable_name() -> None:
    parts = [vector("l", n, store("y", (add(LANE, at),), load("a", add(LANE, at), 0))) for n, at in ((3, 0), (2, 3))]
    places = [ir.Buffer("a", (5, N), "int32"), ir.Buffer("y", (5,), "int32")]
    a, y = ramp(5, 7, dtype="int32"), np.zeros(5, np.int32)
    assert Compiled(function(places, ir.seq(*parts), scalars=["n"]))(a, y, n=7) == 0
    assert np.array_equal(y, a[:, 0])
