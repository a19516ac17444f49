"""The form of a function: that of the block which does most of its work.

The other blocks keep the tiles that they have by default.
"""

from __future__ import annotations

from typing import NamedTuple

from vdla.compiler import ir
from vdla.compiler.analysis import loads
from vdla.compiler.operators.cpu.block_nest import BlockNest, block_nest, block_nests, iteration_count, nominal_extent
from vdla.compiler.operators.cpu.inlining import inline_stages
from vdla.compiler.operators.gpu import grid_tiles
from vdla.compiler.operators.gpu.conv2d_schedule import Conv2dTiles
from vdla.compiler.operators.gpu.depthwise_schedule import DepthwiseTiles
from vdla.compiler.operators.gpu.element_schedule import ElementTiles, contiguous_elements
from vdla.compiler.operators.gpu.matmul_schedule import MatmulTiles
from vdla.compiler.operators.gpu.reduction_schedule import ReductionTiles
from vdla.compiler.operators.gpu.row_schedule import RowTiles, row_loops, row_producers
from vdla.compiler.operators.gpu.tensor_core_schedule import TensorCoreTiles, tensor_core_operands
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import GridLimits
from vdla.compiler.tune.errors import TuneError
from vdla.compiler.tune.grid.conv2d_form import Conv2dForm
from vdla.compiler.tune.grid.depthwise_form import DepthwiseForm
from vdla.compiler.tune.grid.flat_forms import ElementForm, ReductionForm
from vdla.compiler.tune.grid.form import GridForm, GroupRoom, Tiles
from vdla.compiler.tune.grid.matmul_form import MatmulForm
from vdla.compiler.tune.grid.row_form import RowForm
from vdla.compiler.tune.grid.tensor_core_form import TensorCoreForm

OPERATORS = ("matmul", "conv2d", "depthwise_conv2d", "rows", "reduction", "elements", "tensor_cores")
"""The kinds of forms."""


class BlockForm(NamedTuple):
    """A form and the block that it is of."""

    block: str
    form: GridForm


def form_of(fn: ir.Function, limits: GridLimits) -> BlockForm:
    """The form of the block with the most iterations, of those whose tiles can be chosen.

    Raises:
        TuneError: there is none.
    """
    schedule = Schedule(fn)
    inline_stages(schedule)
    found: list[tuple[int, BlockForm]] = []
    for block, default in grid_tiles(fn, limits).items():
        form = _form(schedule, block, default, limits)
        work = sum(iteration_count(nest.leaf.loops) for nest in _nests(schedule, block, default))
        if form is not None:
            found.append((work, BlockForm(block, form)))
    if not found:
        raise TuneError(f"tune {fn.name}: a block must have tiles to choose on a grid, got none")
    return max(found, key=lambda pair: pair[0])[1]


def _nests(schedule: Schedule, block: str, default: Tiles) -> list[BlockNest]:
    """The nests that a block's tiles schedule."""
    names = {nest.leaf.name for nest in block_nests(schedule.fn)}
    if block not in names:  # made by the schedule of another block
        return []
    producers = row_producers(schedule, block) if isinstance(default, RowTiles) else []
    return [block_nest(schedule.fn, name) for name in (*producers, block)]


def _form(schedule: Schedule, block: str, default: Tiles, limits: GridLimits) -> GridForm | None:
    """The form of a block by the type of its tiles; None if it has none."""
    nests = _nests(schedule, block, default)
    if not nests:
        return None
    nest = nests[-1]
    match default:
        case TensorCoreTiles():
            return TensorCoreForm.of(nest, tensor_core_operands(schedule, block), default, limits)
        case MatmulTiles():
            return MatmulForm.of(nest, default, limits)
        case Conv2dTiles():
            return Conv2dForm.of(nest, default, limits)
        case DepthwiseTiles():
            return DepthwiseForm.of(nest, default, limits)
        case RowTiles():
            return _row_form(nests, default, limits)
        case ReductionTiles():
            results, terms = iteration_count(nest.loops("spatial")), iteration_count(nest.loops("reduce"))
            room = GroupRoom.beside(limits, default.threads)
            return ReductionForm(default, results, terms, nest.element_bytes, room)
        case ElementTiles():
            return _element_form(nest, default, limits)
    return None


def _row_form(nests: list[BlockNest], default: RowTiles, limits: GridLimits) -> RowForm:
    *producers, nest = nests
    steps = row_loops(nest, producers)
    counts = [nominal_extent(loop.extent) // steps[loop.var] for loop in nest.own if loop.var in steps] or [1]
    rows = 1
    for count in counts:
        rows *= count
    return RowForm(
        default=default,
        rows=rows,
        last=counts[-1],
        length=max(iteration_count(each.own) for each in nests) // rows,
        stages=len(nests),
        itemsize=nest.element_bytes,
        room=RowForm.room_of(default, limits),
    )


def _element_form(nest: BlockNest, default: ElementTiles, limits: GridLimits) -> ElementForm:
    return ElementForm(
        default=default,
        elements=iteration_count(nest.loops("spatial")),
        contiguous=contiguous_elements(nest),
        terms=iteration_count(nest.loops("reduce")),
        operands=len(set(loads(nest.leaf.block))),
        itemsize=nest.element_bytes,
        room=GroupRoom.beside(limits, default.threads),
    )
