# SPDX-License-Identifier: Apache-2.0
"""The default schedule of any function for a CPU.

Blocks annotated with an operator get its schedule, element-wise stages are inlined where that pays,
and all other blocks are vectorised and parallelised by `stage_schedule.py`. Illegal steps are
skipped, so that every function has a default schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from vdla.compiler import ir
from vdla.compiler.operators.checks import target_of
from vdla.compiler.operators.cpu.block_nest import block_nests
from vdla.compiler.operators.cpu.choices import Choices
from vdla.compiler.operators.cpu.row_schedule import fuse_rows, parallelize_rows
from vdla.compiler.operators.cpu.stage_schedule import attempt, inline_stages, schedule_stage
from vdla.compiler.operators.roles import OPERATOR, TILED_TRANSPOSE, WINDOW_ROWS
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import Target

_OperatorSchedule = Callable[[Schedule, str, Target, Choices], None]


def operator_schedules() -> Mapping[str, _OperatorSchedule]:
    """The schedule of each operator, of `Schedule`, block of sums, target and choices."""
    from vdla.compiler.operators.cpu import conv2d_schedule, dense_schedule, depthwise_schedule
    from vdla.compiler.operators.cpu.matmul_schedule import schedule_matmul
    from vdla.compiler.operators.cpu.step_schedule import schedule_step_product
    from vdla.compiler.operators.cpu.transpose_schedule import schedule_tiled_transpose
    from vdla.compiler.operators.cpu.winograd_schedule import schedule_winograd_conv2d

    return {
        "bitserial_dense": dense_schedule.schedule_bitserial_dense,
        "blocked_qconv2d": conv2d_schedule.schedule_conv2d,
        "blocked_qdepthwise_conv2d": depthwise_schedule.schedule_blocked_qdepthwise_conv2d,
        "blocked_window": depthwise_schedule.schedule_blocked_window,
        "conv2d": conv2d_schedule.schedule_conv2d,
        "conv_transpose": conv2d_schedule.schedule_conv_transpose,
        "depthwise_conv2d": depthwise_schedule.schedule_depthwise_conv2d,
        "matmul": schedule_matmul,
        "step_product": schedule_step_product,
        TILED_TRANSPOSE: schedule_tiled_transpose,
        WINDOW_ROWS: depthwise_schedule.schedule_depthwise_conv2d,
        "winograd_conv2d": schedule_winograd_conv2d,
        "qconv2d": conv2d_schedule.schedule_qconv2d,
        "qdense": dense_schedule.schedule_qdense,
        "qdepthwise_conv2d": depthwise_schedule.schedule_qdepthwise_conv2d,
    }


def default_schedule(fn: ir.Function, target: Target | str = "host", choices: Choices | None = None) -> Schedule:
    """A schedule of `fn` for `target`; it may change the order in which a sum is added.

    `choices` decides for the first operator of `fn`, by default with the schedule's defaults.
    """
    machine = target_of("default_schedule", target)
    schedule = Schedule(fn)
    inline_stages(schedule)
    schedules = operator_schedules()
    answers = choices or Choices()
    for block in [nest.name for nest in block_nests(schedule.fn) if OPERATOR in nest.leaf.block.annotations]:
        operators = {nest.name: str(nest.leaf.block.annotations.get(OPERATOR)) for nest in block_nests(schedule.fn)}
        name = operators.get(block, "")  # an earlier schedule may have removed the block
        if name in schedules:
            if not attempt(schedule, partial(schedules[name], schedule, block, machine, answers)):
                answers.refused(name)
            answers = Choices()
    rows = fuse_rows(schedule)
    for nest in block_nests(schedule.fn):
        schedule_stage(schedule, nest.name, machine)
    for last in rows:
        parallelize_rows(schedule, last)
    return schedule
