"""The CPU schedule of a quantised depthwise convolution: lanes along rows, the padded data of some channels at a time.

The data of a channel are read soon after they are made, but not at once: a load that covers several stores waits until
they have left the store buffer.
"""

from __future__ import annotations

from math import prod

from vdla.compiler.codegen.llvm.intrinsics.window_dot import vnni_windows
from vdla.compiler.operators.cpu.nest import nest_named, size_of
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import Target

PADDED_BYTES = 6144  # of data that are made before any of them are read
MOST_TAPS = 25  # of a window whose taps are written out


def schedule_qdepthwise_conv2d(schedule: Schedule, block: str, target: Target) -> None:
    """Rows of lanes, one after another: sums, rescaling, the result."""
    leaf = nest_named(schedule.fn, block).leaf.block
    data, lanes, result = (str(leaf.annotations[key]) for key in ("data", "lanes", "result"))
    columns, width = size_of(schedule.fn.buffers[result].shape[3]), size_of(leaf.axes[4].extent)
    if columns % width:
        channels, place = through_lanes(schedule, lanes, result, data)
    else:
        channels, place = into_result(schedule, lanes, result, width, data)
    schedule.compute_at(block, place)
    sum_windows(schedule, block, place)
    schedule.compute_at(data, channels)
    schedule.vectorize(schedule.loops(data)[-1])
    schedule.parallel(channels)


def into_result(schedule: Schedule, lanes: str, result: str, width: int, data: str) -> tuple[str, str]:
    """Rows that are whole vectors: rescaled into the result. The loops of some channels, and of a vector."""
    n, channel, _, column = schedule.loops(result)
    outer, inner = schedule.split(column, factor=width)
    schedule.vectorize(inner)
    channels, _ = schedule.split(channel, factor=channels_at_once(schedule, data))
    schedule.compute_at(lanes, outer)
    schedule.vectorize(schedule.loops(lanes)[-1])
    return schedule.fuse(n, channels), outer


def through_lanes(schedule: Schedule, lanes: str, result: str, data: str) -> tuple[str, str]:
    """Rows that end inside of a vector: rescaled as whole vectors, then copied. The loops as for `into_result`."""
    n, channel, row, column, lane = schedule.loops(lanes)
    schedule.vectorize(lane)
    channels, _ = schedule.split(channel, factor=channels_at_once(schedule, data))
    schedule.reverse_compute_at(result, row)
    schedule.vectorize(schedule.loops(result)[-1])
    return schedule.fuse(n, channels), column


def channels_at_once(schedule: Schedule, data: str) -> int:
    """How many channels' data are made together."""
    _, channels, rows, columns = (size_of(extent) for extent in schedule.fn.buffers[data].shape)
    most = max(1, PADDED_BYTES // (rows * columns))
    return max(size for size in range(1, min(most, channels) + 1) if channels % size == 0)


def sum_windows(schedule: Schedule, block: str, place: str) -> None:
    """The sums of one vector, with the taps of small windows written out."""
    leaf = nest_named(schedule.fn, block).leaf.block
    loops = schedule.loops(block)
    n, channel, row, column, lane, *taps = loops[loops.index(place) + 1 :]
    if schedule.fn.buffers[str(leaf.annotations["data"])].dtype == "uint8":
        schedule.reorder(n, channel, row, column, *taps[:-1], lane, taps[-1])
        schedule.tensorize(lane, vnni_windows(size_of(leaf.axes[4].extent), leaf.annotations["stride"]))
        taps.pop()
    else:
        schedule.reorder(n, channel, row, column, *taps, lane)
        schedule.vectorize(lane)
    if prod(size_of(axis.extent) for axis in leaf.axes[5 : 5 + len(taps)]) <= MOST_TAPS:
        for loop in taps:
            schedule.unroll(loop)
