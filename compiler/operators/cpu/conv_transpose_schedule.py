"""The CPU schedule of a transposed convolution: tiles of channels by a vector of results.

Each phase of the stride is a convolution of its own: the weight is the same in all lanes, and an
input vector is loaded once for all channels of a tile.
"""

from __future__ import annotations

from vdla.compiler.operators.cpu.block_nest import block_nest, nominal_extent
from vdla.compiler.operators.cpu.choices import Choices
from vdla.compiler.operators.cpu.register_tile import largest_divisor
from vdla.compiler.operators.cpu.stage_schedule import FEWEST_LANES
from vdla.compiler.operators.cpu.threads import thread_plan
from vdla.compiler.schedule import Schedule, ScheduleError
from vdla.compiler.target import Target

_MOST_CHANNELS = 8


def schedule_conv_transpose(schedule: Schedule, block: str, target: Target, choices: Choices) -> None:
    """Tile the sums of `block`, and store a tile once its sums are complete."""
    nest = block_nest(schedule.fn, block)
    lanes, steps = target.lanes(nest.element_bytes), nominal_extent(nest.loops("spatial")[-1].extent)
    if steps < FEWEST_LANES:
        raise ScheduleError(f"lanes of {block}: the steps must be at least {FEWEST_LANES}, got {steps}")
    copy = schedule.cache_write(block, "stack")
    n, channel, *outer, phase, step = schedule.loops(copy)
    every = nominal_extent(nest.own[1].extent)
    legal = (n for n in range(1, min(every, target.vector_registers // 2) + 1) if every % n == 0)
    channels = choices.value("tile_channels", largest_divisor(every, _MOST_CHANNELS), legal)
    channel_outer, channel_inner = schedule.split(channel, factor=channels)
    step_outer, lane = schedule.split(step, factor=min(lanes, steps))
    schedule.reorder(n, channel_outer, *outer, phase, step_outer, channel_inner, lane)
    schedule.unroll(channel_inner)
    schedule.vectorize(lane)
    schedule.compute_at(block, step_outer)
    _schedule_sums(schedule, block, step_outer)
    thread_plan(choices).run(schedule, schedule.fuse(n, channel_outer))


def _schedule_sums(schedule: Schedule, block: str, place: str) -> None:
    """The loops of a tile: reductions outermost, channels unrolled, lanes innermost."""
    nest = block_nest(schedule.fn, block)
    spatial, terms = ([loop.var for loop in nest.loops(kind) if loop in nest.own] for kind in ("spatial", "reduce"))
    _, channel, *rest = [loop for loop in spatial]
    schedule.reorder(*rest[:-1], *terms, channel, rest[-1])
    schedule.unroll(channel)
    schedule.vectorize(rest[-1])
