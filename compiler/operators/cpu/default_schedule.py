"""The default schedule of any function for a CPU.

Blocks annotated with an operator get its schedule, element-wise stages are inlined where that pays,
and all other blocks are vectorised and parallelised by `stage_schedule.py`. Steps that are illegal
for a function are skipped, so that every function has a default schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from vdla.compiler import ir
from vdla.compiler.operators.checks import target_of
from vdla.compiler.operators.cpu.block_nest import block_nests
from vdla.compiler.operators.cpu.choices import Choices
from vdla.compiler.operators.cpu.inlining import inline_stages
from vdla.compiler.operators.cpu.stage_schedule import attempt, schedule_stage
from vdla.compiler.operators.roles import OPERATOR
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import Target

_OperatorSchedule = Callable[[Schedule, str, Target, Choices], None]


def operator_schedules() -> Mapping[str, _OperatorSchedule]:
    """The schedule of each operator, of `Schedule`, block of sums, target and choices."""
    from vdla.compiler.operators.cpu.blocked_qconv2d_schedule import schedule_blocked_qconv2d
    from vdla.compiler.operators.cpu.blocked_qdepthwise_schedule import schedule_blocked_qdepthwise_conv2d
    from vdla.compiler.operators.cpu.blocked_window_schedule import schedule_blocked_window
    from vdla.compiler.operators.cpu.conv2d_schedule import schedule_conv2d
    from vdla.compiler.operators.cpu.conv_transpose_schedule import schedule_conv_transpose
    from vdla.compiler.operators.cpu.dense_schedule import schedule_bitserial_dense, schedule_qdense
    from vdla.compiler.operators.cpu.depthwise_schedule import schedule_depthwise_conv2d
    from vdla.compiler.operators.cpu.matmul_schedule import schedule_matmul
    from vdla.compiler.operators.cpu.qconv2d_schedule import schedule_qconv2d
    from vdla.compiler.operators.cpu.qdepthwise_schedule import schedule_qdepthwise_conv2d
    from vdla.compiler.operators.cpu.winograd_schedule import schedule_winograd_conv2d

    return {
        "bitserial_dense": schedule_bitserial_dense,
        "blocked_qconv2d": schedule_blocked_qconv2d,
        "blocked_qdepthwise_conv2d": schedule_blocked_qdepthwise_conv2d,
        "blocked_window": schedule_blocked_window,
        "conv2d": schedule_conv2d,
        "conv_transpose": schedule_conv_transpose,
        "depthwise_conv2d": schedule_depthwise_conv2d,
        "matmul": schedule_matmul,
        "winograd_conv2d": schedule_winograd_conv2d,
        "qconv2d": schedule_qconv2d,
        "qdense": schedule_qdense,
        "qdepthwise_conv2d": schedule_qdepthwise_conv2d,
    }


def default_schedule(fn: ir.Function, target: Target | str = "host", choices: Choices | None = None) -> Schedule:
    """A schedule of `fn` for `target`; it may change the order in which a sum is added.

    `choices` answers the decisions of the first operator of `fn`, by default as the schedule does.
    """
    machine = target_of("default_schedule", target)
    schedule = Schedule(fn)
    inline_stages(schedule)
    schedules = operator_schedules()
    answers = choices or Choices()
    for block in _operator_blocks(schedule.fn):
        name = _operator_of(schedule.fn, block)
        if name in schedules:
            if not attempt(schedule, partial(schedules[name], schedule, block, machine, answers)):
                answers.refused(name)
            answers = Choices()
    for nest in block_nests(schedule.fn):
        schedule_stage(schedule, nest.leaf.name, machine)
    return schedule


def _operator_blocks(fn: ir.Function) -> list[str]:
    """The blocks of operators, in program order."""
    return [nest.leaf.name for nest in block_nests(fn) if OPERATOR in nest.leaf.block.annotations]


def _operator_of(fn: ir.Function, block: str) -> str:
    """The operator that a block is annotated with; empty if the block no longer exists."""
    found = (nest.leaf.block.annotations.get(OPERATOR, "") for nest in block_nests(fn) if nest.leaf.name == block)
    return str(next(found, ""))
