# SPDX-License-Identifier: Apache-2.0
"""Buffers shrink to their live region and are allocated at the loop that uses it."""

import re
from itertools import product
from math import prod

import numpy as np
import pytest
from helpers.loop_nests import expr, function, load, loop, op, store

from vdla.compiler import ir, te
from vdla.compiler.interpret import interpret
from vdla.compiler.lowering import PassError, lower
from vdla.compiler.lowering.blocks import decompose
from vdla.compiler.lowering.live_window import pad_stride
from vdla.compiler.lowering.storage import STACK_BYTES, place_storage
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import TARGETS

TARGET = TARGETS["x86-64"]


def stages(rows=64, columns=16):
    """t = a * 2; c[i, j] = t[i, j] + t[i + 1, j]."""
    a = te.placeholder((rows + 1, columns), "int32", "a")
    t = te.compute((rows + 1, columns), lambda i, j: a[i, j] * 2, "t")
    c = te.compute((rows, columns), lambda i, j: t[i, j] + t[i + 1, j], "c")
    return Schedule(te.create_function([a], [c], "stages"))


def matmul():
    a, b = te.placeholder((12, 8), "int32", "a"), te.placeholder((8, 32), "int32", "b")
    k = te.reduce_axis(8, "k")
    c = te.compute((12, 32), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "c")
    d = te.compute((12, 32), lambda i, j: te.maximum(c[i, j], 0), "d")
    return Schedule(te.create_function([a, b], [d], "matmul"))


def placed(s):
    return place_storage(decompose(s.fn))


def declared(s, buffer):
    """The declaration of a buffer."""
    found = placed(s).buffers[buffer]
    return found.shape, found.scope


def allocated_in(s, buffer):
    """The line of the loop inside which a buffer is allocated."""
    lines = str(placed(s)).splitlines()
    place = next(n for n, line in enumerate(lines) if re.search(rf"alloc\(.*\b{buffer}\b", line))
    around = [
        line.strip()
        for line in lines[:place]
        if line.strip().startswith("for ") and indent(line) < indent(lines[place])
    ]
    return around[-1] if around else None


def indent(line):
    return len(line) - len(line.lstrip())


def same_result(s):
    rng = np.random.default_rng(1)
    given = {name: rng.integers(-9, 9, s.fn.buffers[name].shape).astype("int32") for name in s.fn.params[:-1]}
    out = s.fn.params[-1]
    np.testing.assert_array_equal(interpret(lower(s.fn, TARGET), given)[out], interpret(s.fn, given)[out])


def test_without_placement_a_buffer_keeps_its_shape():
    s = stages()
    assert declared(s, "t") == ((65, 16), "stack")
    assert allocated_in(s, "t") is None


def test_a_producer_inside_a_loop_shrinks_to_one_iteration():
    s = stages()
    s.compute_at("t", "c_i")
    assert declared(s, "t") == ((2, 16), "stack")
    assert allocated_in(s, "t") == "for c_i in range(64):"
    same_result(s)


def test_the_origin_is_the_first_row_read():
    s = stages()
    s.split("c_i", factor=4, names=("io", "ii"))
    s.compute_at("t", "io")
    assert declared(s, "t") == ((5, 16), "stack")
    assert "t[vi + io * -4, vj]" in str(placed(s)).replace("t[vi - io * 4", "t[vi + io * -4")
    same_result(s)


def test_indices_are_relative_to_the_origin():
    a = te.placeholder((19,), "int32", "a")
    t = te.compute((19,), lambda i: a[i] * 2, "t")
    s = Schedule(te.create_function([a], [te.compute((16,), lambda i: t[i + 3] + 1, "c")], "later"))
    s.split("c_i", factor=4, names=("io", "ii"))
    s.compute_at("t", "io")
    assert declared(s, "t")[0] == (4,)
    same_result(s)


def test_partial_sums_of_a_tile_shrink_to_the_tile():
    s = matmul()
    s.split("d_i", factor=6, names=("io", "ii"))
    s.split("d_j", factor=16, names=("jo", "ji"))
    s.reorder("io", "jo", "ii", "ji")
    s.compute_at("c", "jo")
    s.reorder("k", "i", "j")
    s.unroll("i")
    s.vectorize("j")
    assert declared(s, "c") == ((6, 16), "stack")
    assert allocated_in(s, "c") == "for jo in range(2):"
    same_result(s)


def test_lanes_have_separate_elements():
    s = stages()
    s.compute_at("t", "c_j")
    s.vectorize("c_j")
    assert declared(s, "t")[0] == (2, 16)
    assert allocated_in(s, "t") == "for c_i in range(64):"
    same_result(s)


def test_a_buffer_inside_a_parallel_loop_is_private_to_an_iteration():
    s = stages(4, 5000)
    s.compute_at("t", "c_i")
    s.parallel("c_i")
    assert declared(s, "t") == ((2, 5000), "heap")
    assert allocated_in(s, "t") == "for c_i in parallel(4):"
    same_result(s)


def test_a_heap_buffer_is_allocated_once():
    s = stages(4, 5000)
    s.compute_at("t", "c_i")
    assert STACK_BYTES < 2 * 5000 * 4
    assert declared(s, "t") == ((2, 5000), "heap")
    assert allocated_in(s, "t") is None
    same_result(s)


def test_an_allocation_is_hoisted_out_of_unrolled_loops():
    s = stages(4)
    s.compute_at("t", "c_i")
    s.unroll("c_i")
    assert declared(s, "t") == ((2, 16), "stack")
    assert allocated_in(s, "t") is None
    same_result(s)


def test_a_buffer_computed_once_is_allocated_outside_the_loop():
    s = matmul()
    copy = s.cache_read("c", "b", "near")
    s.compute_at(copy, "i")
    assert allocated_in(s, copy) == "for i in range(12):"
    s.compute_once(copy, "i")
    assert declared(s, copy) == ((8, 32), "stack")
    assert allocated_in(s, copy) is None
    same_result(s)


def test_store_at_sets_the_loop_of_the_allocation():
    s = stages()
    s.split("c_i", factor=4, names=("io", "ii"))
    s.compute_at("t", "ii")
    s.store_at("t", "io")
    assert declared(s, "t") == ((5, 16), "stack")
    assert allocated_in(s, "t") == "for io in range(16):"
    same_result(s)


def test_a_double_buffer_has_two_halves():
    s = stages()
    s.compute_at("t", "c_i")
    s.double_buffer("t")
    assert declared(s, "t") == ((2, 2, 16), "stack")
    assert allocated_in(s, "t") is None
    assert "t[c_i % 2, " in str(lower(s.fn, TARGET))
    same_result(s)


def test_parallel_iterations_do_not_double_buffer():
    s = stages()
    s.compute_at("t", "c_i")
    s.double_buffer("t")
    s.parallel("c_i")
    assert declared(s, "t") == ((2, 16), "stack")
    assert allocated_in(s, "t") == "for c_i in parallel(64):"


def test_double_buffers_alternate_inside_a_parallel_loop():
    s = stages()
    s.split("c_i", factor=4, names=("io", "ii"))
    s.compute_at("t", "ii")
    s.double_buffer("t")
    s.parallel("io")
    assert declared(s, "t") == ((2, 2, 16), "stack")
    assert allocated_in(s, "t") == "for io in parallel(16):"
    same_result(s)


def test_store_at_of_an_inner_or_missing_loop_has_no_effect():
    s = stages()
    s.store_at("t", "i")
    s.compute_at("t", "c_i")
    assert allocated_in(s, "t") == "for c_i in range(64):"
    s.split("i", factor=2)
    assert allocated_in(s, "t") == "for c_i in range(64):"
    s.store_at("t", None)
    assert allocated_in(s, "t") is None


def test_an_aligned_buffer_is_padded():
    s = stages()
    s.compute_at("t", "c_i")
    s.storage_align("t", 0, 32, 8)
    assert declared(s, "t") == ((2, 40), "stack")
    same_result(s)


def test_a_padded_stride_has_the_given_factor_and_offset():
    assert pad_stride("t", (2, 3, 4), 0, 16, 0) == (2, 4, 4)
    assert pad_stride("t", (2, 3, 4), 2, 16, 0) == (2, 3, 4)
    assert pad_stride("t", (2, 3, 4), 0, 16, 3) == (2, 7, 5)  # no multiple of 4 is 3 modulo 16
    assert pad_stride("t", (2, 3, 4, 6), 0, 12, 5) == (2, 7, 5, 7)
    assert pad_stride("t", (2, 16), 0, (1 << 61) - 1, 5) == (2, (1 << 61) + 4)


def test_storage_align_needs_constant_inner_dimensions():
    with pytest.raises(PassError) as error:
        pad_stride("t", (2, 3, ir.Var("n")), 0, 16, 0)
    rule = "the dimensions inside dimension 0 of storage_align must be constant"
    assert str(error.value) == f"place storage of t: {rule}, got n"


@pytest.mark.parametrize("rank", [2, 3])
def test_padded_strides_are_minimal(rank):
    for sizes, factor in product(product((1, 3, 4, 6), repeat=rank), (1, 4, 6, 9)):
        for offset in range(factor):
            first, *rows = pad_stride("t", sizes, 0, factor, offset)[1:]
            stride = first * prod(rows)
            assert stride % factor == offset
            assert first >= sizes[1] > first - factor


def test_states_of_a_recurrence_are_allocated_outside_its_steps():
    x, a = te.placeholder((5, 4), "int32", "x"), te.placeholder((4,), "int32", "a")

    def cell(t, h):
        gate = te.compute((4,), lambda j: h[j] * 2, "gate")
        return te.compute((4,), lambda j: gate[j] + x[t, j], "state")

    last = te.compute((4,), lambda j: te.scan(5, cell, [a])[4, j], "last")
    s = Schedule(te.create_function([x, a], [last], "recurrence"))
    assert declared(s, "gate") == ((1, 4), "stack")
    assert allocated_in(s, "gate") == "for t in range(5):"
    assert declared(s, "state") == ((5, 4), "stack")
    same_result(s)


def test_sums_initialised_inside_their_loop_are_allocated_outside_it():
    axes = (ir.Axis("vi", 4), ir.Axis("vk", 6, ir.AxisKind.REDUCE))
    value = ir.Binary("add", load("t", "vi"), load("a", "vk"))
    twice = (op("floordiv", "i", 2), expr("k"))  # each element is initialised twice, so the init stays inside
    sums = ir.Block(
        name="t", axes=axes, values=twice, body=store("t", "vi", value=value), init=store("t", "vi", value=5)
    )
    use = ir.Block(
        name="c",
        axes=axes[:1],
        values=(expr("j"),),
        body=store("c", "vi", value=load("t", "vi")),
        init=None,
        predicate=op("eq", "k", 5),
    )
    body = loop("k", 6, loop("i", 8, sums), loop("j", 4, use))
    fn = place_storage(decompose(function(body, temporaries=("t",), a=(6,), c=(4,), t=(4,))))
    assert isinstance(fn.body, ir.Alloc)
    a = np.arange(1, 7, dtype="int32")
    np.testing.assert_array_equal(interpret(fn, {"a": a})["c"], [5 + 1 + 2 * (2 + 3 + 4 + 5 + 6)] * 4)


def test_a_symbolic_buffer_is_on_the_heap():
    n = te.var("n")
    a = te.placeholder((n, 4), "int32", "a")
    t = te.compute((n, 4), lambda i, j: a[i, j] * 2, "t")
    s = Schedule(te.create_function([a], [te.compute((n, 4), lambda i, j: t[i, 3 - j], "c")], "symbolic"))
    assert declared(s, "t") == ((ir.Var("n"), 4), "heap")
