"""The default schedule of any function for a CPU.

Blocks that carry `annotations["operator"]` get the schedule of that operator; element-wise stages are written into
their readers where that pays, and all other blocks get lanes and threads from `stages.py`. A schedule is a matter of
speed only, so what is not legal is left out: every legal function has a default schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from vdla.compiler import ir
from vdla.compiler.operators.checks import machine_of
from vdla.compiler.operators.cpu.fusion import OPERATOR, inline_stages
from vdla.compiler.operators.cpu.nest import nests
from vdla.compiler.operators.cpu.stages import attempt, schedule_stage
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import Target

ScheduleOperator = Callable[[Schedule, str, Target], None]


def operators() -> Mapping[str, ScheduleOperator]:
    """The schedule of each annotated operator: a function of the schedule, the block's name and the target."""
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
        "conv2d": schedule_conv2d,
        "conv_transpose": schedule_conv_transpose,
        "depthwise_conv2d": schedule_depthwise_conv2d,
        "matmul": schedule_matmul,
        "winograd_conv2d": schedule_winograd_conv2d,
        "qconv2d": schedule_qconv2d,
        "qdense": schedule_qdense,
        "qdepthwise_conv2d": schedule_qdepthwise_conv2d,
    }


def default_schedule(fn: ir.Function, target: Target | str = "host") -> Schedule:
    """A schedule of `fn` that computes the same; sums may be added in another order."""
    machine = machine_of("default_schedule", target)
    schedule = Schedule(fn)
    inline_stages(schedule)
    known = operators()
    for block in annotated(schedule.fn):
        name = operator_of(schedule.fn, block)
        if name in known:
            attempt(schedule, lambda b=block, n=name: known[n](schedule, b, machine))  # type: ignore[misc]
    for nest in nests(schedule.fn):
        schedule_stage(schedule, nest.leaf.name, machine)
    return schedule


def annotated(fn: ir.Function) -> list[str]:
    """The blocks of operators, in program order."""
    return [nest.leaf.name for nest in nests(fn) if OPERATOR in nest.leaf.block.annotations]


def operator_of(fn: ir.Function, block: str) -> str:
    """The operator that a block is annotated with; none for a block that is no more."""
    found = (nest.leaf.block.annotations.get(OPERATOR, "") for nest in nests(fn) if nest.leaf.name == block)
    return str(next(found, ""))
