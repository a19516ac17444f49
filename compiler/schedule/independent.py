"""Whether the iterations of a loop may run at once: the check behind parallel, vectorize and bind.

They may where no iteration writes an element that another one reads or writes. A buffer all of whose accesses lie
inside the loop, written before it is read in each iteration, is private: lowering allocates it inside a parallel loop,
so its elements may coincide. The lanes of a vectorized loop share their buffers.
"""

from __future__ import annotations

from vdla.compiler import ir
from vdla.compiler.affine import Linear, Ranges, linear, var_names
from vdla.compiler.printer import expr_text
from vdla.compiler.schedule.access import Indices, Leaf, leaves, reads, stores, written
from vdla.compiler.schedule.flow import check_pair, is_equality
from vdla.compiler.schedule.region import Limit, bound_form, limited_bounds, limits_of, touched
from vdla.compiler.schedule.symbols import at_least, domains_of
from vdla.compiler.schedule.tree import ScheduleError, paths

ROOT = "root"  # `store_at` of a buffer that is allocated outside of every loop
THREAD = "thread"  # the annotation of a loop that `bind` made an axis of a grid


def check_marked(fn: ir.Function, where: str) -> None:
    """Refuse `fn` if the iterations of a loop that is parallel, vectorized or bound depend on each other."""
    for path in paths(fn.body):
        loop = path[-1]
        if isinstance(loop, ir.For) and (what := mark_of(loop)):
            check_independent(fn, loop, where, f"the {what} loop {loop.var}", shared=what == "vectorized")


def mark_of(loop: ir.For) -> str:
    """How a loop runs its iterations at once; "" if it does not."""
    match loop.kind:
        case ir.LoopKind.PARALLEL:
            return "parallel"
        case ir.LoopKind.VECTORIZE:
            return "vectorized"
    return "bound" if THREAD in loop.annotations else ""


def check_independent(fn: ir.Function, loop: ir.For, where: str, what: str, shared: bool) -> None:
    """Refuse a loop that carries a dependence. `shared`: iterations share buffers that they could have one each of."""
    order = leaves(fn)
    inside = [leaf for leaf in order if loop.var in loop_vars(leaf)]
    for leaf in inside:
        check_role(leaf, loop.var, f"{where}: {what}")
    for writer in inside:
        for buffer in sorted(written(writer.block)):
            check_reads(fn, order, writer, buffer, loop, where)
            if shared or not is_private(fn, order, buffer, loop):
                check_distinct(fn, writer, buffer, loop, f"{where}: {what}")


def loop_vars(leaf: Leaf) -> list[str]:
    """The variables of the loops around a leaf, outermost first."""
    return [loop.var for loop in leaf.loops]


def check_role(leaf: Leaf, var: str, where: str) -> None:
    """Refuse a loop over which a block sums, or along which it goes on from what it left."""
    kinds = {axis.kind for axis in leaf.block.axes if var in var_names(leaf.values[axis.var])}
    for kind in (ir.AxisKind.REDUCE, ir.AxisKind.SCAN):
        if kind in kinds:
            raise ScheduleError(f"{where} must be spatial in block {leaf.name}, got {kind.value}")


def check_reads(fn: ir.Function, order: list[Leaf], writer: Leaf, buffer: str, loop: ir.For, where: str) -> None:
    """Refuse a read inside the loop of what another iteration writes."""
    for reader in order:
        if loop.var in loop_vars(reader) and reads_others(fn, writer, reader, buffer, loop):
            if reader.name == writer.name:
                found = f"a read of {buffer} beside the element that it writes"
                raise ScheduleError(f"{where}: block {reader.name} must not read other iterations of {loop.var}, "
                                    f"got {found}")  # fmt: skip
            check_pair(fn, order, writer, reader, buffer, where)
            check_no_keep(writer, reader, buffer, loop.var, where)


def reads_others(fn: ir.Function, writer: Leaf, reader: Leaf, buffer: str, loop: ir.For) -> bool:
    """Whether a block reads elements that the writer may write, other than in place, while the loops outside stand
    still."""
    ranges, outer = domains_of(fn), set(loop_vars(writer)[: loop_vars(writer).index(loop.var)])
    own = [store.indices for store in stores(writer.block) if store.buffer == buffer]
    accesses = [i for i in reads(reader.block, buffer) if reader.name != writer.name or i not in own]
    made = [touched(writer, indices, fn.buffers[buffer], outer, ranges) for indices in own]
    needs = [touched(reader, indices, fn.buffers[buffer], outer, ranges) for indices in accesses]
    return any(all(a.meets(b, ranges) for a, b in zip(m, n, strict=True)) for m in made for n in needs)


def check_no_keep(writer: Leaf, reader: Leaf, buffer: str, var: str, where: str) -> None:
    """Refuse a value that one iteration leaves for the others."""
    for condition in writer.conditions:
        if is_equality(condition) and var in var_names(condition) and condition not in reader.conditions:
            rule = f"{reader.name} must read what its own iteration of {var} computes"
            found = f"{buffer} computed where {expr_text(condition)} only"
            raise ScheduleError(f"{where}: {rule}, got {found}")


def is_private(fn: ir.Function, order: list[Leaf], buffer: str, loop: ir.For) -> bool:
    """Whether lowering gives each iteration a buffer of its own: nothing outside of the loop touches it."""
    if buffer in fn.params:
        return False
    users = [leaf for leaf in order if buffer in written(leaf.block) or reads(leaf.block, buffer)]
    return all(loop.var in loop_vars(leaf) and allocated_inside(leaf, loop.var) for leaf in users)


def allocated_inside(leaf: Leaf, var: str) -> bool:
    """Whether no `store_at` asks for an allocation outside of the loop."""
    place = leaf.block.annotations.get("store_at")
    names = loop_vars(leaf)
    return place not in (ROOT, *names[: names.index(var)])


def check_distinct(fn: ir.Function, leaf: Leaf, buffer: str, loop: ir.For, where: str) -> None:
    """Refuse a block that writes one element of `buffer` in several iterations."""
    ranges = domains_of(fn)
    for store in stores(leaf.block):
        if store.buffer == buffer and not distinct(leaf, store.indices, loop.var, ranges):
            found = ", ".join(expr_text(bound_form(leaf, index, ranges).expr()) for index in store.indices)
            rule = f"must write other elements of {buffer} in each iteration of block {leaf.name}"
            raise ScheduleError(f"{where} {rule}, got {buffer}[{found}]")


def distinct(leaf: Leaf, indices: Indices, var: str, ranges: Ranges) -> bool:
    """Whether the element at `indices` tells the iteration of `var`, the loops outside of it standing still."""
    names = loop_vars(leaf)
    inner = set(names[names.index(var) :])
    forms = [bound_form(leaf, index, ranges).only(lambda t: bool(var_names(t) & inner)) for index in indices]
    limits = limits_of(leaf.conditions, ranges)
    known: set[ir.Expr] = set()
    while ir.Var(var) not in known:
        forms = [without(form, known) for form in forms]
        found = {term for form in forms for term in leading(form, ranges, limits)}
        if not found:
            return False
        known |= found
        forms += [form.only(lambda t: bool(var_names(t) & inner)) for form in rejoined(known)]
    return True


def without(form: Linear, known: set[ir.Expr]) -> Linear:
    """The terms that are not known."""
    return form.only(lambda term: term not in known)


def leading(form: Linear, ranges: Ranges, limits: list[Limit]) -> list[ir.Expr]:
    """The terms whose values follow from that of the sum: each outweighs all that have smaller coefficients."""
    result: list[ir.Expr] = []
    rest = form
    for term, factor in sorted(form.terms.items(), key=lambda item: -abs(item[1])):
        rest = without(rest, {term})
        low, high = limited_bounds(rest, ranges, limits)
        if not at_least(low + Linear({}, abs(factor) - 1), high, ranges):
            break
        result.append(term)
    return result


def rejoined(known: set[ir.Expr]) -> list[Linear]:
    """The sums whose quotient and remainder are both known."""
    quotients = [t for t in known if isinstance(t, ir.Binary) and t.op == "floordiv"]
    return [linear(t.a) for t in quotients if ir.Binary("mod", t.a, t.b) in known]
