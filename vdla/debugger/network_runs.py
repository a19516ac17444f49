# SPDX-License-Identifier: Apache-2.0
"""The runs of the programs of a network, in their order.

What the network feeds each of them is kept from a run of the network on the simulator.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vdla.debugger.errors import DebugError
from vdla.debugger.program_run import ProgramRun
from vdla.hardware.program import Program, input_tensors
from vdla.runtime.executor.artifact import Artifact
from vdla.runtime.executor.model import Model
from vdla.runtime.executor.operator_cycles import operator_of
from vdla.runtime.executor.plan import ProgramStep
from vdla.support.arrays import Array


def artifact_of(run: object) -> Artifact | None:
    """The compiled network that something is, or None."""
    return run.artifact if isinstance(run, Model) else run if isinstance(run, Artifact) else None


def network_runs(artifact: Artifact, inputs: Mapping[str, Array]) -> list[ProgramRun]:
    """The programs that a run of a network on `inputs` runs; DebugError where there are none.

    Raises:
        ExecutorError: inputs that do not fit the network.
    """
    result: list[ProgramRun] = []

    def add(step: ProgramStep, program: Program, arrays: Mapping[str, Array]) -> None:
        varying = {name for name, value in step.tensors.items() if value in step.inputs}
        copies = {name: array.copy() if name in varying else array for name, array in arrays.items()}
        given = {tensor.name: copies[tensor.name].reshape(tensor.shape) for tensor in input_tensors(program)}
        names = tuple(operator.name for operator in step.placement.operators) if step.lines else ()
        layer_of = operator_of(program, step.lines) if step.lines else np.full(len(program), -1)
        result.append(ProgramRun(step.name, program, given, names, layer_of))

    with Model(artifact) as model:
        model.run(inputs, observe_program=add)
    if not result:
        raise DebugError(f"debug: a network must run programs of the accelerator, got {artifact.plan.name} with none")
    return result
