"""Element-wise stages written into their readers, so that fewer arrays go through memory.

A stage is written into its readers where that computes nothing more often than it saves reading: where each of its
elements is read once, or where computing it costs no more than a load. Stages of operators and outputs stay.
"""

from __future__ import annotations

from vdla.compiler import ir
from vdla.compiler.analysis.access import loads, read_buffers, stores
from vdla.compiler.operators.cpu.nest import Nest, nests, points, size_of
from vdla.compiler.operators.cpu.stages import attempt
from vdla.compiler.schedule import Schedule

OPERATOR = "operator"
CHEAP = 3  # operations that cost less than an element's way through memory


def inline_stages(schedule: Schedule) -> None:
    """Write element-wise stages into their readers, where that pays."""
    done: set[str] = set()
    while True:
        candidates = [nest for nest in nests(schedule.fn) if nest.leaf.name not in done and is_elementwise(nest)]
        if not candidates:
            return
        done.add(candidates[0].leaf.name)
        if pays(candidates[0]):
            attempt(schedule, lambda block=candidates[0].leaf.name: schedule.inline(block))  # type: ignore[misc]


def is_elementwise(nest: Nest) -> bool:
    """Whether a block is an intermediate stage that combines no elements of its own, and no operator."""
    block = nest.leaf.block
    if OPERATOR in block.annotations or block.init is not None or not isinstance(block.body, ir.Store):
        return False
    spatial = all(axis.kind is ir.AxisKind.SPATIAL for axis in block.axes)
    return nest.alone and spatial and block.body.buffer not in nest.fn.params


def pays(nest: Nest) -> bool:
    """Whether writing a stage into its readers saves more than it repeats."""
    (store,) = stores(nest.leaf.block)
    readers = [other for other in nests(nest.fn) if store.buffer in read_buffers(other.leaf.block)]
    if any(OPERATOR in reader.leaf.block.annotations for reader in readers):
        return False
    if cost(store.value) == 0:
        return True
    elements = 1
    for extent in nest.fn.buffers[store.buffer].shape:
        elements *= size_of(extent)
    times = sum(points(r.own) * reads_at(r, store.buffer) for r in readers)
    return times <= elements or (cost(store.value) <= CHEAP and times <= 2 * elements)


def reads_at(reader: Nest, buffer: str) -> int:
    """How many elements of a buffer a block reads at one point."""
    return sum(load.buffer == buffer for load in loads(reader.leaf.block))


def cost(value: ir.Expr) -> int:
    """The operations of an expression, those of indices apart; a function counts as many."""
    match value:
        case ir.Load() | ir.Var() | ir.Const():
            return 0
        case ir.Select(cond=_, a=a, b=b):
            return cost(a) + cost(b)
        case ir.Call(args=args):
            return 4 * CHEAP + sum(cost(arg) for arg in args)
    own = 0 if isinstance(value, ir.Cast) else 1
    return own + sum(cost(operand) for operand in ir.operands(value))
