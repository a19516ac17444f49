"""The CPU schedule of a quantised depthwise convolution: lanes along rows, few channels at a time.

The data of a channel are read soon after they are stored, but not immediately: a load that spans
several stores stalls until they have left the store buffer.
"""

from __future__ import annotations

from math import prod

from vdla.compiler.codegen.llvm.intrinsics.window_dot import vnni_windows
from vdla.compiler.operators.cpu.block_nest import block_nest, nominal_extent
from vdla.compiler.operators.cpu.choices import Choices
from vdla.compiler.operators.cpu.register_tile import largest_divisor
from vdla.compiler.operators.cpu.threads import thread_plan
from vdla.compiler.operators.roles import DATA, RESCALED, RESULT, STRIDE
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import Target

_PADDED_BYTES = 6144  # of data that are stored before any are read
_MOST_TAPS = 25  # of a window whose taps are unrolled


def schedule_qdepthwise_conv2d(schedule: Schedule, block: str, target: Target, choices: Choices) -> None:
    """Compute padding, sums and rescaling inside of the rows of the result."""
    leaf = block_nest(schedule.fn, block).leaf.block
    data, rescaled, result = (str(leaf.annotations[role]) for role in (DATA, RESCALED, RESULT))
    at_once = _channels_at_once(schedule, data, choices)
    columns, lanes = nominal_extent(schedule.fn.buffers[result].shape[3]), nominal_extent(leaf.axes[4].extent)
    if columns % lanes:
        channels, place = _copy_from_lanes(schedule, rescaled, result, at_once)
    else:
        channels, place = _rescale_into_result(schedule, rescaled, result, lanes, at_once)
    schedule.compute_at(block, place)
    _schedule_sums(schedule, block, place)
    schedule.compute_at(data, channels)
    schedule.vectorize(schedule.loops(data)[-1])
    thread_plan(choices).run(schedule, channels)


def _rescale_into_result(schedule: Schedule, rescaled: str, result: str, lanes: int, at_once: int) -> tuple[str, str]:
    """Rescale rows of whole vectors into the result; the loops of some channels and a vector."""
    n, channel, _, column = schedule.loops(result)
    outer, inner = schedule.split(column, factor=lanes)
    schedule.vectorize(inner)
    channels, _ = schedule.split(channel, factor=at_once)
    schedule.compute_at(rescaled, outer)
    schedule.vectorize(schedule.loops(rescaled)[-1])
    return schedule.fuse(n, channels), outer


def _copy_from_lanes(schedule: Schedule, rescaled: str, result: str, at_once: int) -> tuple[str, str]:
    """Rescale whole vectors and copy rows that end inside of one; the same two loops."""
    n, channel, row, column, lane = schedule.loops(rescaled)
    schedule.vectorize(lane)
    channels, _ = schedule.split(channel, factor=at_once)
    schedule.reverse_compute_at(result, row)
    schedule.vectorize(schedule.loops(result)[-1])
    return schedule.fuse(n, channels), column


def _channels_at_once(schedule: Schedule, data: str, choices: Choices) -> int:
    """The channels whose data are padded together."""
    _, channels, rows, columns = (nominal_extent(extent) for extent in schedule.fn.buffers[data].shape)
    best = largest_divisor(channels, max(1, _PADDED_BYTES // (rows * columns)))
    return choices.value("channels_at_once", best, (n for n in range(1, channels + 1) if channels % n == 0))


def _schedule_sums(schedule: Schedule, block: str, place: str) -> None:
    """The sums of one vector, with the taps of small windows unrolled."""
    leaf = block_nest(schedule.fn, block).leaf.block
    loops = schedule.loops(block)
    n, channel, row, column, lane, *taps = loops[loops.index(place) + 1 :]
    if schedule.fn.buffers[str(leaf.annotations[DATA])].dtype == "uint8":
        schedule.reorder(n, channel, row, column, *taps[:-1], lane, taps[-1])
        schedule.tensorize(lane, vnni_windows(nominal_extent(leaf.axes[4].extent), leaf.annotations[STRIDE]))
        taps.pop()
    else:
        schedule.reorder(n, channel, row, column, *taps, lane)
        schedule.vectorize(lane)
    if prod(nominal_extent(axis.extent) for axis in leaf.axes[5 : 5 + len(taps)]) <= _MOST_TAPS:
        for loop in taps:
            schedule.unroll(loop)
