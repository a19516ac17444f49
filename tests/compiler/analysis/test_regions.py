# SPDX-License-Identifier: Apache-2.0
"""Regions against the naive model: every element that a block accesses, by running all iterations
of its loops."""

from __future__ import annotations

from itertools import product

import pytest

from vdla.compiler import analysis, ir, te
from vdla.compiler.analysis import LeafBlock, Span
from vdla.compiler.arith import evaluate
from vdla.compiler.schedule import Schedule, ScheduleError


def windows(stride: int = 2, width: int = 3) -> Schedule:
    """wide[i] = a[i] widened; c[y] = sum over k of wide[y * stride + k]."""
    a = te.placeholder((7 * stride + width,), "int8", "a")
    k = te.reduce_axis(width, "k")
    wide = te.compute(a.shape, lambda i: te.cast("int32", a[i]), "wide")
    c = te.compute((8,), lambda y: te.sum(wide[y * stride + k], axis=k), "c")
    return Schedule(te.create_function([a], [c], "windows"))


def leaf(fn: ir.Function, name: str) -> LeafBlock:
    return next(found for found in analysis.leaves(fn) if found.name == name)


def accessed(block: LeafBlock, index: ir.Expr, outer: dict[str, int]) -> set[int]:
    """The positions of an index in one iteration of the outer loops."""
    inner = [loop for loop in block.loops if loop.var not in outer]
    found = set()
    for point in product(*(range(loop.size) for loop in inner)):
        values = {**outer, **{loop.var: number for loop, number in zip(inner, point, strict=True)}}
        if all(evaluate(condition, values) for condition in block.conditions):
            found.add(evaluate(block.bound(index).expr(), values))
    return found


def positions(span: Span, outer: dict[str, int]) -> set[int]:
    first = evaluate(span.first.expr(), outer)
    return set(range(first, first + evaluate(span.extent.expr(), outer)))


@pytest.mark.parametrize(("stride", "width"), [(1, 1), (1, 3), (2, 3), (2, 2)])
@pytest.mark.parametrize("loop", ["y", "y_o"])
def test_a_region_read_is_what_all_iterations_read(stride: int, width: int, loop: str) -> None:
    s = windows(stride, width)
    if loop == "y_o":
        s.split("y", factor=4)
    reader = leaf(s.fn, "c")
    (span,) = analysis.region_read([reader], s.fn.buffers["wide"], {loop}, analysis.domains_of(s.fn))
    ((index,),) = analysis.read_indices(reader.block, "wide")
    for number in range(2):
        assert positions(span, {loop: number}) == accessed(reader, index, {loop: number})


def test_a_region_read_with_a_stride_beyond_the_window_covers_the_gaps() -> None:
    s = windows(stride=3, width=2)
    reader = leaf(s.fn, "c")
    (span,) = analysis.region_read([reader], s.fn.buffers["wide"], set(), analysis.domains_of(s.fn))
    ((index,),) = analysis.read_indices(reader.block, "wide")
    assert accessed(reader, index, {}) < positions(span, {})


def test_a_region_written_is_what_all_iterations_write() -> None:
    s = windows()
    s.split("i", factor=4)  # 17 elements: the last iteration is cut
    writer = leaf(s.fn, "wide")
    (span,) = analysis.region_written(writer, s.fn.buffers["wide"], set(), analysis.domains_of(s.fn), "test")
    assert positions(span, {}) == accessed(writer, analysis.store_to(writer.block, "wide").indices[0], {})


def test_a_region_written_with_gaps_is_refused() -> None:
    s = windows()
    s.split("i", factor=4)
    writer, domains = leaf(s.fn, "wide"), analysis.domains_of(s.fn)
    with pytest.raises(ScheduleError) as error:
        analysis.region_written(writer, s.fn.buffers["wide"], {"i_i"}, domains, "test: c")
    assert str(error.value) == "test: c must read a region of wide that is computed without gaps, got i_o * 4"


def test_accesses_name_writers_and_readers() -> None:
    order = analysis.leaves(windows().fn)
    assert [found.name for found in analysis.writers_of(order, "wide")] == ["wide"]
    assert [found.name for found in analysis.readers_of(order, "wide")] == ["c"]
    assert analysis.read_buffers(order[1].block) == {"wide"}
    assert analysis.written_buffers(order[1].block) == {"c"}


def test_the_terms_of_a_reduction_can_be_replaced() -> None:
    block = leaf(windows().fn, "c").block
    (store,) = analysis.stores(block)
    (term,) = analysis.reduction_terms([store], "test")
    assert ir.expr_text(term) == "wide[vy * 2 + vk]"
    changed = analysis.replace_terms(store.value, {term: ir.Load("other", (ir.Var("vk"),))})
    assert ir.expr_text(changed) == "c[vy] + other[vk]"


def test_iterations_that_write_one_element_depend_on_each_other() -> None:
    s = windows()
    block, domains = leaf(s.fn, "c"), analysis.domains_of(s.fn)
    indices = analysis.store_to(block.block, "c").indices
    assert analysis.elements_differ(block, indices, "y", domains)
    assert not analysis.elements_differ(block, indices, "k", domains)
