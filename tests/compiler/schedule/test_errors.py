# SPDX-License-Identifier: Apache-2.0
"""Every rewrite that is refused, with its exact words."""

from dataclasses import replace

import pytest
from helpers import refused_parallel

from vdla.compiler import ir, te
from vdla.compiler.codegen.vdla.intrinsics import gemm
from vdla.compiler.schedule import Schedule, ScheduleError
from vdla.compiler.schedule.trace import is_primitive
from vdla.compiler.tensorize import TensorizeError
from vdla.hardware.config import Config


def dense() -> Schedule:
    a, w = te.placeholder((10, 8), "int8", "a"), te.placeholder((8,), "int8", "w")
    k = te.reduce_axis(8, "k")
    wide = te.compute((10, 8), lambda i, j: te.cast("int32", a[i, j]), "wide")
    c = te.compute((10,), lambda x: te.sum(wide[x, k] * te.cast("int32", w[k]), axis=k), "c")
    d = te.compute((10,), lambda y: te.maximum(c[y], 0), "d")
    e = te.compute((9,), lambda z: d[z] + d[z + 1], "e")
    return Schedule(te.create_function([a, w], [e], "dense"))


def skipped(s):
    s.split("x", nparts=2, names=("xo", "xi"))
    s.split("xi", factor=2, names=("xio", "xii"))
    s.reverse_compute_at("d", "xio")


def fused_roles(s):
    s.fuse("x", "k")


def kept_region(s):
    copy = s.cache_read("c", "wide", "inp")
    s.compute_at(copy, "x")
    s.compute_once(copy, "x")


def blockized_move(s):
    s.blockize("k")
    s.reverse_compute_at("c", "i")


def moved_out_of_order(s):
    s.reverse_compute_at("e", "x")


def with_gaps(s):
    outer, inner = s.split("x", factor=5, names=("xo", "xi"))
    s.reorder(inner, outer)
    s.reverse_compute_at("d", inner)


def decomposed(s):
    s.decompose_reduction("c", "k")


CASES = [
    (lambda s: s.decompose_reduction("wide", "i"),
     "decompose_reduction of wide at i: the block must be a reduction with an init, got wide"),
    (lambda s: s.decompose_reduction("c", "i"),
     "decompose_reduction of c at i: the loop must be one of x, k, got 'i'"),
    (lambda s: (s.reorder("k", "x"), s.decompose_reduction("c", "x")),
     "decompose_reduction of c at x: the loop must lie outside of k, over which the block reduces, got x inside"),
    (lambda s: (s.compute_at("d", "z"), s.compute_at("c", "z"), s.decompose_reduction("c", "z")),
     "decompose_reduction of c at z: each sum of c must start once inside the loop, "
     "got one start in several iterations of z"),
    (lambda s: (s.blockize("k"), s.decompose_reduction("c", "x")),
     "decompose_reduction of c at x: the block must be decomposed before it is blockized, got c"),
    (lambda s: (decomposed(s), s.decompose_reduction("c", "k")),
     "decompose_reduction of c at k: the block must be a reduction with an init, got c"),
    (lambda s: (decomposed(s), s.compute_at("c", "y")),
     "compute_at of c at y: the block must be the only one that writes c, got c_init too; decompose its sum last"),
    (lambda s: (decomposed(s), s.compute_once("c_init", "x")),
     "compute_once of c_init over x: the region must not depend on the loop, got vx = x"),
    (lambda s: (s.compute_at("wide", "x"), decomposed(s), s.reorder("k", "x")),
     "reorder of k, x: only one loop must lie directly inside x, got loop i, block c_init, loop k"),
    (lambda s: s.rfactor("x"),
     "rfactor of x: one block must reduce over the loop from an init, got spatial in block c"),
    (lambda s: s.rfactor("k", 2), "rfactor of k: the factor axis must be in 0..1, got 2"),
    (lambda s: (decomposed(s), s.rfactor("k")),
     "rfactor of k: one block must reduce over the loop from an init, got reduce in block c"),
    (lambda s: (s.blockize("k"), s.rfactor("k")), "rfactor of k: the loop must not lie inside a block, got k"),
    (lambda s: (s.reorder("k", "x"), s.reverse_compute_at("d", "x"), s.rfactor("k")),
     "rfactor of k: d must come after c, which computes c, got it before"),
    (lambda s: s.reverse_inline("c"), "reverse_inline of c: the block must not reduce, got a reduction"),
    (lambda s: s.reverse_inline("d"),
     "reverse_inline of d: the producer c must not reduce, got a reduction; reverse_compute_at moves d behind it"),
    (lambda s: s.reverse_inline("e"),
     "reverse_inline of e: one computed buffer must be read by this block alone, all of it, at its own axes, "
     "got d[vz], d[vz + 1]"),
    (lambda s: s.reverse_inline("wide"),
     "reverse_inline of wide: one computed buffer must be read by this block alone, all of it, at its own axes, "
     "got none"),
    (lambda s: s.double_buffer("a"),
     "double_buffer of a: the buffer must not be a parameter, got a, which the caller holds"),
    (lambda s: s.double_buffer("wide"),
     "double_buffer of wide: a loop must lie around all its accesses, got none; place its writer by compute_at"),
    (lambda s: s.prefetch("c", "a", "x"),
     "prefetch of a for c: the block must read the buffer, got none of its elements read"),
    (lambda s: s.prefetch("c", "w", "i"), "prefetch of w for c: the loop must be one of x, k, got 'i'"),
    (lambda s: s.prefetch("c", "w", "x", 0),
     "prefetch of w for c: the distance must be an integer of at least 1, got 0"),
    (lambda s: s.storage_align("q", 0, 8), "storage_align of q: the buffer must be one of wide, c, d, got 'q'"),
    (lambda s: s.storage_align("wide", 1, 8),
     "storage_align of wide: the dimension must be in 0..0, before the last one, got 1"),
    (lambda s: s.storage_align("c", 0, 8),
     "storage_align of c: the buffer must have two dimensions or more, as the last has a stride of one, got 1"),
    (lambda s: s.storage_align("wide", 0, 8, 8),
     "storage_align of wide: the offset must be below the factor 8, got 8"),
    (lambda s: s.loops("q"), "loops: block must be one of wide, c, d, e, got 'q'"),
    (lambda s: s.split("q", factor=2), "split of q: loop must be one of i, j, x, k, y, z, got 'q'"),
    (lambda s: s.split("i"), "split of i: exactly one of factor and nparts must be given, got None and None"),
    (lambda s: s.split("i", factor=0), "split of i: factor must be a positive integer, got 0"),
    (lambda s: s.split("i", nparts=True), "split of i: nparts must be a positive integer, got True"),
    (lambda s: s.split("i", 2, names=("j", "p")), "split of i: a loop name must be new in the function, got j"),
    (lambda s: s.split("i", 2, names=("p", "p")), "split of i: names must be two different names, got ('p', 'p')"),
    (lambda s: s.split("i", 2, names=("p", "2")), "split of i: a loop name must be an identifier, got '2'"),
    (lambda s: s.fuse("i"), "fuse: at least two loops must be given, got 1"),
    (lambda s: s.fuse("i", "x"), "fuse of i and x: x must be the only statement inside i, got loop j"),
    (fused_roles, "fuse of x and k: both loops must be spatial or both reduce in block c, got spatial x and reduce k"),
    (lambda s: (s.unroll("i"), s.fuse("i", "j")),
     "fuse of i and j: both loops must be of one kind, got unroll and serial"),
    (lambda s: s.tile("i", "x", 2, 2),
     "tile of i and x: reorder of i_o, x_o, i_i, x_i: loops must lie inside each other, got x_o beside i_i"),
    (lambda s: s.tile("i", "j", 2, 2, names=("p", "q")),
     "tile of i and j: names must be four different names, got ('p', 'q')"),
    (lambda s: s.reorder("i", "i"), "reorder of i, i: loops must be given once each, got i, i"),
    (lambda s: s.reorder("i", "k"), "reorder of i, k: loops must lie inside each other, got i beside k"),
    (lambda s: (s.compute_at("c", "y"), s.reorder("k", "y")),
     "reorder of k, y: only one loop must lie directly inside y, got loop x, block d"),
    (lambda s: s.parallel("k"), "parallel of k: the loop must be spatial in block c, got reduce"),
    (lambda s: s.vectorize("k"), "vectorize of k: the loop must be spatial in block c, got reduce"),
    (lambda s: (s.unroll("i"), s.vthread("i")), "vthread of i: the loop must be serial, got unroll"),
    (lambda s: s.annotate("q", "a", 1), "annotate: the name must be a loop or a block of dense, got 'q'"),
    (lambda s: s.set_scope("a", "inp"),
     "set_scope of a: the buffer must not be a parameter, got a, which the caller holds"),
    (lambda s: s.set_scope("q", "inp"), "set_scope of q: the buffer must be one of wide, c, d, got 'q'"),
    (lambda s: s.set_scope("c", "on chip"), "set_scope of c: the scope must be an identifier, got 'on chip'"),
    (lambda s: s.compute_at("e", "i"), "compute_at of e at i: the block must not compute an output, got e"),
    (lambda s: s.compute_at("wide", "y"),
     "compute_at of wide at y: every reader of wide must lie inside y, got c outside"),
    (lambda s: s.compute_at("c", "k"), "compute_at of c at k: every reader of c must lie inside k, got d outside"),
    (blockized_move, "reverse_compute_at of c at i: the block must be moved before it is blockized, got c"),
    (moved_out_of_order, "reverse_compute_at of e at x: a producer of d must lie inside x, got none"),
    (lambda s: s.reverse_compute_at("e", "y"),
     "reverse_compute_at of e at y: e must read only what d computes in the same iteration of y, "
     "got dimension 0 of d: reads y..y + 1, computed y..y"),
    (lambda s: s.reverse_compute_at("c", "j"),
     "reverse_compute_at of c at j: c must read only what wide computes in the same iteration of j, "
     "got dimension 1 of wide: reads 0..7, computed j..j"),
    (skipped,
     "reverse_compute_at of d at xio: d must run only where c has run (xio * 2 + xii < 5), got every iteration"),
    (with_gaps, "reverse_compute_at of d at xi: d must read a region of c that is computed without gaps, got xo * 5"),
    (kept_region, "compute_once of wide_inp over x: the region must not depend on the loop, got vx = x + wide_inp_x"),
    (lambda s: s.compute_once("c", "y"), "compute_once of c over y: the loop must be one of x, k, got 'y'"),
    (lambda s: s.inline("c"), "inline of c: the block must not reduce, got a reduction"),
    (lambda s: s.inline("e"), "inline of e: the block must not compute an output, got e"),
    (lambda s: s.cache_read("c", "a", "inp"),
     "cache_read of a for c: the block must read the buffer, got none of its elements read"),
    (lambda s: s.cache_read("c", "w", None), "cache_read of w for c: the scope must be an identifier, got None"),
    (lambda s: s.cache_write("c", ""), "cache_write of c: the scope must be an identifier, got ''"),
    (lambda s: s.cache_read("c", "q", "inp"),
     "cache_read of q for c: the buffer must be one of a, w, wide, c, d, e, got 'q'"),
    (lambda s: s.cache_read("c", "c", "inp"),
     "cache_read of c for c: the block must not write the buffer, got c; use cache_write"),
    (lambda s: s.reindex("c", "a", "inp"),
     "reindex of a for c: the block must read the buffer, got none of its elements read"),
    (lambda s: s.reindex("c", "c", "inp"),
     "reindex of c for c: the block must not write the buffer, got c; use cache_write"),
    (lambda s: (s.compute_at("wide", "x"), s.cache_read("c", "wide", "inp")),
     "cache_read of wide for c: wide_inp must come after wide, which computes wide, got it before"),
    (lambda s: (s.compute_at("wide", "x"), s.blockize("x")),
     "blockize of x: the loop must hold one block, got loop i, loop k inside x"),
]  # fmt: skip


CASES += [
    (lambda s: s.split("i", 2, names=(["p"], "q")), "split of i: a loop name must be an identifier, got ['p']"),
    (lambda s: s.split("i", 1 << 40),
     "split of i: both loops must have at most 2147483648 iterations together, got 1099511627776"),
    (lambda s: s.split("i", nparts=1 << 40),
     "split of i: both loops must have at most 2147483648 iterations together, got 1099511627776"),
    (lambda s: s.prefetch("c", "w", "x", 1 << 40),
     "prefetch of w for c: the distance must be at most 2147483647, got 1099511627776"),
    (lambda s: s.storage_align("wide", 0, 1 << 40),
     "storage_align of wide: the factor must be at most 2147483647, got 1099511627776"),
    (lambda s: s.fuse("i", "j", name=""), "fuse of i and j: a loop name must be an identifier, got ''"),
    (lambda s: s.fuse("i", "j", name="c"), "fuse of i and j: a loop name must be new in the function, got c"),
    (lambda s: s.reorder(), "reorder of no loops: loops must be given once each, got none"),
    (lambda s: s.annotate("x", ["a"], 1), "annotate: the key must be a string that no primitive sets, got ['a']"),
    (lambda s: s.annotate("c", "starts", 1),
     "annotate: the key must be a string that no primitive sets, got 'starts'; use init of the reduction"),
    (lambda s: s.compute_once("c", ["x"]), "compute_once of c over ['x']: the loop must be one of x, k, got ['x']"),
    (lambda s: s.compute_once("q"), "compute_once of q: block must be one of wide, c, d, e, got 'q'"),
    (lambda s: s.full_extent("c", ["vx"]), "full_extent of c over ['vx']: the axis must be one of vx, got ['vx']"),
    (lambda s: s.full_extent("q"), "full_extent of q: block must be one of wide, c, d, e, got 'q'"),
    (lambda s: s.cache_read("c", ["w"], "inp"),
     "cache_read of ['w'] for c: the buffer must be one of a, w, wide, c, d, e, got ['w']"),
    (lambda s: s.unroll("q"), "unroll of q: loop must be one of i, j, x, k, y, z, got 'q'"),
    (lambda s: (s.vthread("i"), s.unroll("i")), "unroll of i: the loop must be serial, got vthread"),
    (lambda s: s.annotate("x", "store_at", "root"),
     "annotate: the key must be a string that no primitive sets, got 'store_at'; use store_at"),
    (lambda s: s.annotate("x", 3, 4), "annotate: the key must be a string that no primitive sets, got 3"),
    (lambda s: s.cache_write("q", "acc"), "cache_write of q: block must be one of wide, c, d, e, got 'q'"),
    (lambda s: (s.compute_at("c", "y"), s.decompose_reduction("c", "k"), s.cache_write("c", "acc")),
     "cache_write of c: the block must be the only one that writes c, got c_init too; decompose its sum last"),
    (lambda s: (s.compute_at("c", "y"), s.cache_write("c", "acc")),
     "cache_write of c: d must come after c_copy, which computes c, got it before"),
    (lambda s: (s.split("i", 2), s.reverse_compute_at("c", "i_o"), s.blockize("i_o")),
     "blockize of i_o: the loop must hold one block, got loop i_i, loop x inside i_o"),
    (lambda s: s.store_at("wide", "x"), "store_at of wide: the loop must be one of i, j, got 'x'"),
    (lambda s: s.strips("c", 0), "strips of c: the count must be an integer of at least 1, got 0"),
    (lambda s: s.strips("c", True), "strips of c: the count must be an integer of at least 1, got True"),
    (lambda s: s.full_extent("c", "vk"), "full_extent of c over vk: the axis must be one of vx, got 'vk'"),
    (lambda s: (s.compute_at("d", "z"), s.full_extent("d", "vy")),
     "full_extent of d over vy: the axis must be driven by a loop of its own, got z + y"),
    (lambda s: (s.compute_at("c", "y"), s.compute_at("wide", "x"), s.full_extent("wide", "vi")),
     "full_extent of wide over vi: the axis must be driven by a loop of its own, got y + x + i"),
    (lambda s: (s.compute_at("wide", "x"), s.compute_once("wide", "x")),
     "compute_once of wide over x: the region must not depend on the loop, got vi = x + i"),
    (lambda s: s.inline("q"), "inline of q: block must be one of wide, c, d, e, got 'q'"),
    (lambda s: s.tensorize("i", "gemm"), "tensorize of i: intrinsic must be an Intrinsic, got 'gemm'"),
    (lambda s: s.tensorize("q", gemm.gemm(Config.preset("tiny"))),
     "tensorize: name must be that of a block (wide, c, d, e) or a loop (i, j, x, k, y, z), got 'q'"),
]  # fmt: skip


@pytest.mark.parametrize(("rewrite", "message"), CASES)
def test_illegal_primitives_are_refused_with_the_reason(rewrite, message):
    s = dense()
    with pytest.raises((ScheduleError, TensorizeError)) as error:
        rewrite(s)
    assert str(error.value) == message


def repeated_sum() -> Schedule:
    """A sum that each iteration of u starts again, as moves of blocks can leave it."""
    a, k = te.placeholder((4, 6), "int32", "a"), te.reduce_axis(6, "k")
    fn = te.create_function([a], [te.compute((4,), lambda i: te.sum(a[i, k], axis=k), "c")], "repeated")
    assert isinstance(fn.body, ir.For)
    return Schedule(replace(fn, body=replace(fn.body, body=ir.For("u", 3, fn.body.body))))


REPEATED = [
    (lambda s: s.fuse("u", "k"),
     "fuse of u and k: both loops must be spatial or both reduce in block c, got unused u and reduce k"),
    (lambda s: s.reorder("k", "u"),
     "reorder of k, u: u must stay outside of k, over which block c reduces, got it inside, where each term would "
     "count 3 times"),
    (lambda s: s.decompose_reduction("c", "u"),
     "decompose_reduction of c at u: each sum of c must start once inside the loop, "
     "got one start in several iterations of u"),
    (lambda s: s.parallel("u"),
     "parallel of u: the loop must write other elements of c in each iteration of block c, got c[i]"),
]  # fmt: skip


@pytest.mark.parametrize(("rewrite", "message"), REPEATED)
def test_a_sum_that_starts_again_is_not_added_twice(rewrite, message):
    with pytest.raises(ScheduleError) as error:
        rewrite(repeated_sum())
    assert str(error.value) == message


def test_a_reduction_that_repeats_terms_is_not_factored():
    body = repeated_sum().fn.body
    assert isinstance(body, ir.For) and isinstance(body.body, ir.For) and isinstance(body.body.body, ir.For)
    block = body.body.body.body
    assert isinstance(block, ir.Block)
    again = replace(block, values=(block.values[0], ir.Binary("mod", ir.Var("f"), ir.Const(6))))
    s = Schedule(replace(repeated_sum().fn, body=replace(body, body=ir.For("f", 18, again))))
    found = "each term of c must be added once inside the loop, got one term in several iterations of f"
    for where, rewrite in (("rfactor of f", lambda: s.rfactor("f")),
                           ("decompose_reduction of c at f", lambda: s.decompose_reduction("c", "f"))):  # fmt: skip
        with pytest.raises(ScheduleError) as error:
            rewrite()
        assert str(error.value) == f"{where}: {found}"


def test_a_loop_over_elements_and_terms_is_not_factored():
    body = repeated_sum().fn.body
    assert isinstance(body, ir.For) and isinstance(body.body, ir.For) and isinstance(body.body.body, ir.For)
    block, f, k = body.body.body.body, ir.Var("f"), ir.Var("k")
    assert isinstance(block, ir.Block)
    term = ir.Binary("add", ir.Binary("mul", ir.Binary("mod", f, ir.Const(2)), ir.Const(3)), k)
    both = replace(block, values=(ir.Binary("floordiv", f, ir.Const(2)), term))
    s = Schedule(replace(repeated_sum().fn, body=ir.For("f", 8, ir.For("k", 3, both))))
    with pytest.raises(ScheduleError) as error:
        s.rfactor("k")
    assert str(error.value) == "rfactor of k: no loop must choose both the element and the term, got f"


def test_every_primitive_has_a_refused_case():
    named = {message.split()[0].rstrip(":") for _, message in CASES} | {
        message.split()[0] for cases in (refused_parallel.REFUSED,) for _, message in cases
    }
    primitives = {name for name, method in vars(Schedule).items() if is_primitive(method)}
    assert len(primitives) > 25
    assert primitives - named == set()


def test_a_refused_rewrite_changes_nothing():
    s = dense()
    before = s.fn
    with pytest.raises(ScheduleError):
        s.reverse_compute_at("e", "y")
    assert s.fn is before


def test_a_consumer_of_an_unfinished_sum_runs_in_the_last_iteration():
    s = dense()
    s.reorder("k", "x")
    s.reverse_compute_at("d", "x")
    assert "block d(vy=x + y) where k == 7:" in str(s.fn)
