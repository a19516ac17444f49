"""The CPU schedule of a transposed convolution: a vector of neighbouring steps, by some output channels.

Each phase of the stride is a convolution of its own; its weights are the same in all lanes, and the input's elements
are loaded once for all channels of a tile.
"""

from __future__ import annotations

from vdla.compiler.operators.cpu.nest import nest_named, size_of
from vdla.compiler.operators.cpu.stages import FEWEST_LANES
from vdla.compiler.schedule import Schedule, ScheduleError
from vdla.compiler.target import Target

MOST_CHANNELS = 8


def schedule_conv_transpose(schedule: Schedule, block: str, target: Target) -> None:
    """Tile the sums of `block`, and bring them out of registers once they are complete."""
    nest = nest_named(schedule.fn, block)
    lanes, steps = target.lanes(nest.element_bytes), size_of(nest.loops("spatial")[-1].extent)
    if steps < FEWEST_LANES:
        raise ScheduleError(f"lanes of {block}: the steps must be at least {FEWEST_LANES}, got {steps}")
    copy = schedule.cache_write(block, "stack")
    n, channel, *outer, phase, step = schedule.loops(copy)
    channels = next(c for c in range(MOST_CHANNELS, 0, -1) if size_of(nest.own[1].extent) % c == 0)
    channel_outer, channel_inner = schedule.split(channel, factor=channels)
    step_outer, lane = schedule.split(step, factor=min(lanes, steps))
    schedule.reorder(n, channel_outer, *outer, phase, step_outer, channel_inner, lane)
    schedule.unroll(channel_inner)
    schedule.vectorize(lane)
    schedule.compute_at(block, step_outer)
    sum_tile(schedule, block, step_outer)
    schedule.parallel(schedule.fuse(n, channel_outer))


def sum_tile(schedule: Schedule, block: str, place: str) -> None:
    """The loops of a tile: terms outside, channels written out, a vector of steps innermost."""
    nest = nest_named(schedule.fn, block)
    spatial, terms = ([loop.var for loop in nest.loops(kind) if loop in nest.own] for kind in ("spatial", "reduce"))
    _, channel, *rest = [loop for loop in spatial]
    schedule.reorder(*rest[:-1], *terms, channel, rest[-1])
    schedule.unroll(channel)
    schedule.vectorize(rest[-1])
