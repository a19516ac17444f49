"""The reduction loops of a tile of sums: their order, and how many steps are unrolled.

Both are choices; by default channels are outside of the taps of a window, and no step is unrolled.
"""

from __future__ import annotations

from collections.abc import Sequence

from vdla.compiler.operators.cpu.block_nest import block_nest, nominal_extent
from vdla.compiler.operators.cpu.choices import Choices
from vdla.compiler.schedule import Schedule

_UNROLLED = (1, 2, 4)


def reduction_order(
    schedule: Schedule, block: str, channel: str, taps: Sequence[str], choices: Choices
) -> tuple[str, ...]:
    """The loops over channels and taps, outermost first."""
    extents = _extents(schedule, block)
    if extents[channel] == 1 or all(extents[tap] == 1 for tap in taps):
        return channel, *taps
    return (*taps, channel) if choices.value("taps_outside", False, (False, True)) else (channel, *taps)


def unroll_steps(schedule: Schedule, block: str, reduce: Sequence[str], choices: Choices) -> tuple[str, ...]:
    """Unroll some steps of the innermost of the loops that iterates; the loops with its parts."""
    extents = _extents(schedule, block)
    moving = [loop for loop in reduce if extents[loop] > 1]
    if not moving:
        return tuple(reduce)
    last = moving[-1]
    fewest = min(extents[loop] for loop in moving)
    steps = choices.value("unrolled_steps", 1, (steps for steps in _UNROLLED if steps <= fewest))
    if steps == 1:
        return tuple(reduce)
    at = list(reduce).index(last)
    outer, inner = schedule.split(last, factor=steps)
    schedule.unroll(inner)
    return (*reduce[:at], outer, inner, *reduce[at + 1 :])


def _extents(schedule: Schedule, block: str) -> dict[str, int]:
    return {loop.var: nominal_extent(loop.extent) for loop in block_nest(schedule.fn, block).leaf.loops}
