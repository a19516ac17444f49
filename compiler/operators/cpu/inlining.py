"""Inlining of element-wise stages, which saves their round trip through memory.

A stage is inlined if each of its elements is read once, or if recomputing an element costs no more
than loading it. Stages of operators and outputs are never inlined.
"""

from __future__ import annotations

from vdla.compiler import ir
from vdla.compiler.analysis import loads, read_buffers, stores
from vdla.compiler.operators.cpu.block_nest import BlockNest, block_nests, iteration_count, nominal_extent
from vdla.compiler.operators.cpu.stage_schedule import attempt
from vdla.compiler.operators.roles import OPERATOR
from vdla.compiler.schedule import Schedule

_CHEAP = 3  # operations that cost less than an element's round trip through memory


def inline_stages(schedule: Schedule) -> None:
    """Inline element-wise stages where that pays."""
    done: set[str] = set()
    while True:
        candidates = [nest for nest in block_nests(schedule.fn) if nest.leaf.name not in done and _is_elementwise(nest)]
        if not candidates:
            return
        done.add(candidates[0].leaf.name)
        if _pays(candidates[0]):
            attempt(schedule, lambda block=candidates[0].leaf.name: schedule.inline(block))  # type: ignore[misc]


def _is_elementwise(nest: BlockNest) -> bool:
    """Whether a block is an intermediate stage without reduction, and of no operator."""
    block = nest.leaf.block
    if OPERATOR in block.annotations or block.init is not None or not isinstance(block.body, ir.Store):
        return False
    spatial = all(axis.kind is ir.AxisKind.SPATIAL for axis in block.axes)
    return nest.is_alone and spatial and block.body.buffer not in nest.fn.params


def _pays(nest: BlockNest) -> bool:
    """Whether inlining a stage saves more loads than it repeats operations."""
    (store,) = stores(nest.leaf.block)
    readers = [other for other in block_nests(nest.fn) if store.buffer in read_buffers(other.leaf.block)]
    if any(OPERATOR in reader.leaf.block.annotations for reader in readers):
        return False
    if operation_count(store.value) == 0:
        return True
    elements = 1
    for extent in nest.fn.buffers[store.buffer].shape:
        elements *= nominal_extent(extent)
    times = sum(iteration_count(r.own) * _reads_per_iteration(r, store.buffer) for r in readers)
    return times <= elements or (operation_count(store.value) <= _CHEAP and times <= 2 * elements)


def _reads_per_iteration(reader: BlockNest, buffer: str) -> int:
    """The elements of a buffer that a block reads in one iteration."""
    return sum(load.buffer == buffer for load in loads(reader.leaf.block))


def operation_count(value: ir.Expr) -> int:
    """The operations of an expression without index arithmetic; a call counts as several."""
    match value:
        case ir.Load() | ir.Var() | ir.Const():
            return 0
        case ir.Select(cond=_, a=a, b=b):
            return operation_count(a) + operation_count(b)
        case ir.Call(args=args):
            return 4 * _CHEAP + sum(operation_count(arg) for arg in args)
    own = 0 if isinstance(value, ir.Cast) else 1
    return own + sum(operation_count(operand) for operand in ir.operands(value))
