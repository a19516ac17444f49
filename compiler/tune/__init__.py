# SPDX-License-Identifier: Apache-2.0
"""The tuner: search spaces of schedules, features, the cost model, searches.

    task = expression_task(output, config)
    program = task.build(task.space.sample(rng, 1)[0])

A search proposes points; what they cost comes from outside.
"""

from vdla.compiler.tune.cpu_features import CPU_FEATURES
from vdla.compiler.tune.cpu_task import CpuTask, function_task, kernel_task
from vdla.compiler.tune.knobs import Knobs, KnobTask, knob_task
from vdla.compiler.tune.space import Knob, Point, Space, TuneError, Value
from vdla.compiler.tune.task import Built, TuningTask
from vdla.compiler.tune.vdla_task import VdlaTask, expression_task, layer_task, template_task

__all__ = [
    "CPU_FEATURES",
    "Built",
    "CpuTask",
    "Knob",
    "KnobTask",
    "Knobs",
    "Point",
    "Space",
    "TuneError",
    "TuningTask",
    "Value",
    "VdlaTask",
    "expression_task",
    "function_task",
    "kernel_task",
    "knob_task",
    "layer_task",
    "template_task",
]
