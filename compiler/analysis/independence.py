# SPDX-License-Identifier: Apache-2.0
"""Independence of loop iterations: the check behind parallel, vectorize and bind.

Iterations are independent if none writes an element that another reads or writes. A buffer that is
accessed only inside the loop, and written before it is read in each iteration, is private: lowering
allocates it inside a parallel loop. Lanes of a vectorized loop share their buffers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vdla.compiler import ir
from vdla.compiler.analysis.access import (
    Indices,
    LeafBlock,
    leaves,
    read_buffers,
    read_indices,
    stores,
    written_buffers,
)
from vdla.compiler.analysis.dataflow import check_pair, is_equality
from vdla.compiler.analysis.read_region import Limit, access_region, index_form, limited_bounds, limits_of
from vdla.compiler.analysis.symbols import Domains, at_least, domains_of, form_bounds
from vdla.compiler.analysis.tree import ScheduleError, tree_of
from vdla.compiler.arith import Linear, Ranges, linear, var_names
from vdla.compiler.ir import ATOMIC, THREAD, expr_text

ROOT = "root"  # the `store_at` annotation of a buffer that is allocated outside of all loops
CheckedLoops = Mapping[str, tuple[ir.For, frozenset[str]]]


def check_concurrent_loops(fn: ir.Function, where: str, known: CheckedLoops) -> CheckedLoops:
    """Refuse `fn` if a parallel, vectorized or bound loop carries a dependence.

    `known` maps the loops checked so far to their private buffers; an unchanged loop is not checked
    again. The result is the same mapping for `fn`.
    """
    marked = {var: loop for var, loop in tree_of(fn.body).loops.items() if _mark_of(loop)}
    if not marked:
        return {}
    order, ranges = leaves(fn), domains_of(fn)
    touching = _accessed_buffers(order)
    result: dict[str, tuple[ir.For, frozenset[str]]] = {}
    for var, loop in marked.items():
        what = _mark_of(loop)
        check = _Iterations(
            fn=fn, order=order, touching=touching, ranges=ranges, loop=loop, where=where, what=f"the {what} loop {var}"
        )
        result[var] = (loop, frozenset() if what == "vectorized" else check.private())
        if var not in known or known[var][0] is not loop or known[var][1] != result[var][1]:
            check.run(result[var][1])
    return result


def _mark_of(loop: ir.For) -> str:
    """How a loop runs its iterations concurrently; empty if it does not."""
    match loop.kind:
        case ir.LoopKind.PARALLEL:
            return "parallel"
        case ir.LoopKind.VECTORIZE:
            return "vectorized"
    return "bound" if THREAD in loop.annotations else ""


def check_independent(fn: ir.Function, loop: ir.For, where: str, shared: bool) -> None:
    """Refuse a loop that carries a dependence; if `shared`, no buffer is private."""
    order = leaves(fn)
    check = _Iterations(
        fn=fn,
        order=order,
        touching=_accessed_buffers(order),
        ranges=domains_of(fn),
        loop=loop,
        where=where,
        what="the loop",
    )
    check.run(frozenset() if shared else check.private())


def _accessed_buffers(order: list[LeafBlock]) -> list[set[str]]:
    """The buffers that each leaf reads or writes."""
    return [written_buffers(leaf.block) | read_buffers(leaf.block) for leaf in order]


def _loop_vars(leaf: LeafBlock) -> list[str]:
    """The variables of the loops around a leaf, outermost first."""
    return [loop.var for loop in leaf.loops]


def _check_spatial(leaf: LeafBlock, var: str, where: str) -> None:
    """Refuse a reduce or scan loop."""
    kinds = {axis.kind for axis in leaf.block.axes if var in var_names(leaf.values[axis.var])}
    for kind in (ir.AxisKind.REDUCE, ir.AxisKind.SCAN):
        if kind in kinds:
            raise ScheduleError(f"{where} must be spatial in block {leaf.name}, got {kind.value}")


@dataclass(frozen=True, slots=True)
class _Iterations:
    """The iterations of a loop of `fn`; `order` and `touching` are its leaves and the buffers that
    each accesses.

    `what` names the loop in messages.
    """

    fn: ir.Function
    order: list[LeafBlock]
    touching: list[set[str]]
    ranges: Domains
    loop: ir.For
    where: str
    what: str

    def run(self, private: frozenset[str]) -> None:
        """Refuse a dependence between iterations, which share all but the `private` buffers."""
        inside = self.inside()
        bound = THREAD in self.loop.annotations
        updates = [leaf for leaf in inside if bound and ATOMIC in leaf.block.annotations]
        for leaf in inside:
            if leaf not in updates:
                _check_spatial(leaf, self.loop.var, f"{self.where}: {self.what}")
        for writer in inside:
            for buffer in sorted(written_buffers(writer.block)):
                for reader in inside:
                    self.check_read(writer, reader, buffer)
                if buffer not in private and writer not in updates:
                    self.check_distinct(writer, buffer)

    def inside(self) -> list[LeafBlock]:
        """The leaves in the loop."""
        return [leaf for leaf in self.order if self.loop.var in _loop_vars(leaf)]

    def private(self) -> frozenset[str]:
        """The buffers that lowering allocates per iteration: accessed only inside the loop."""
        var = self.loop.var
        inside, outside = set[str](), set(self.fn.params)
        for leaf, buffers in zip(self.order, self.touching, strict=True):
            within = any(loop is self.loop for loop in leaf.loops) and _is_allocated_inside(leaf, var)
            (inside if within else outside).update(buffers)
        return frozenset(inside - outside)

    def check_read(self, writer: LeafBlock, reader: LeafBlock, buffer: str) -> None:
        """Refuse a read of what another iteration writes."""
        if not self.reads_others(writer, reader, buffer):
            return
        if reader.name == writer.name:
            rule = f"block {reader.name} must not read other iterations of {self.loop.var}"
            raise ScheduleError(f"{self.where}: {rule}, got a read of another element of {buffer}")
        check_pair(self.fn, self.order, writer, reader, buffer, self.where)
        _check_not_kept(writer, reader, buffer, self.loop.var, self.where)

    def reads_others(self, writer: LeafBlock, reader: LeafBlock, buffer: str) -> bool:
        """Whether the reader may read elements that the writer writes in the same iteration of the
        outer loops.

        A block's read of the element that it writes does not count.
        """
        names, shape = _loop_vars(writer), self.fn.buffers[buffer]
        outer = set(names[: names.index(self.loop.var)])
        written_indices = [store.indices for store in stores(writer.block) if store.buffer == buffer]
        accesses = [
            i for i in read_indices(reader.block, buffer) if reader.name != writer.name or i not in written_indices
        ]
        if not accesses:
            return False
        made = [access_region(writer, indices, shape, outer, self.ranges) for indices in written_indices]
        needs = [access_region(reader, indices, shape, outer, self.ranges) for indices in accesses]
        return any(all(a.meets(b, self.ranges) for a, b in zip(m, n, strict=True)) for m in made for n in needs)

    def check_distinct(self, leaf: LeafBlock, buffer: str) -> None:
        """Refuse a block that writes one element of `buffer` in several iterations."""
        for store in stores(leaf.block):
            if store.buffer == buffer and not elements_differ(leaf, store.indices, self.loop.var, self.ranges):
                forms = [index_form(leaf, index, self.ranges) for index in store.indices]
                text = ", ".join(expr_text(form.expr()) for form in forms)
                rule = f"must write other elements of {buffer} in each iteration of block {leaf.name}"
                raise ScheduleError(f"{self.where}: {self.what} {rule}, got {buffer}[{text}]")


def _check_not_kept(writer: LeafBlock, reader: LeafBlock, buffer: str, var: str, where: str) -> None:
    """Refuse a value that one iteration computes for the others."""
    for condition in writer.conditions:
        if is_equality(condition) and var in var_names(condition) and condition not in reader.conditions:
            rule = f"{reader.name} must read what its own iteration of {var} computes"
            text = f"{buffer} computed where {expr_text(condition)} only"
            raise ScheduleError(f"{where}: {rule}, got {text}")


def _is_allocated_inside(leaf: LeafBlock, var: str) -> bool:
    """Whether no `store_at` asks for an allocation outside of the loop."""
    place = leaf.block.annotations.get("store_at")
    names = _loop_vars(leaf)
    return place not in (ROOT, *names[: names.index(var)])


def elements_differ(leaf: LeafBlock, indices: Indices, var: str, ranges: Ranges) -> bool:
    """Whether each iteration of `var` has its own element at `indices`, for fixed outer loops."""
    names = _loop_vars(leaf)
    inner = set(names[names.index(var) :])
    forms = [index_form(leaf, index, ranges).only(lambda t: bool(var_names(t) & inner)) for index in indices]
    limits = limits_of(leaf.conditions, ranges)
    known: set[ir.Expr] = set()
    while ir.Var(var) not in known:
        forms = [_without(form, known) for form in forms]
        determined = {term for form in forms for term in _determined_terms(form, ranges, limits)}
        if not determined:
            return False
        known |= determined
        forms += [form.only(lambda t: bool(var_names(t) & inner)) for form in _recombined(known)]
    return True


def check_terms_once(leaf: LeafBlock, inner: list[ir.For], ranges: Domains, where: str) -> None:
    """Refuse loops that add a term of a reduction more than once."""
    axes = tuple(ir.Var(axis.var) for axis in leaf.block.axes)
    for step in inner:
        if step.extent != 1 and not elements_differ(leaf, axes, step.var, ranges):
            rule = f"each term of {leaf.name} must be added once inside the loop"
            raise ScheduleError(f"{where}: {rule}, got one term in several iterations of {step.var}")


def _without(form: Linear, known: set[ir.Expr]) -> Linear:
    """The form without its known terms."""
    return form.only(lambda term: term not in known)


def _determined_terms(form: Linear, ranges: Ranges, limits: list[Limit]) -> list[ir.Expr]:
    """The terms that the form's value determines: each outweighs all smaller ones, other than those
    that are always 0."""
    result = [term for term in form.terms if form_bounds(Linear({term: 1}), ranges) == (Linear({}), Linear({}))]
    rest = form
    others = [item for item in form.terms.items() if item[0] not in result]
    for term, factor in sorted(others, key=lambda item: -abs(item[1])):
        rest = _without(rest, {term})
        low, high = limited_bounds(rest, ranges, limits)
        if not at_least(low + (abs(factor) - 1), high, ranges):
            break
        result.append(term)
    return result


def _recombined(known: set[ir.Expr]) -> list[Linear]:
    """The forms whose quotient and remainder by one divisor are both known."""
    quotients = [t for t in known if isinstance(t, ir.Binary) and t.op == "floordiv"]
    return [linear(t.a) for t in quotients if ir.Binary("mod", t.a, t.b) in known]
