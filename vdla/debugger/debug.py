# SPDX-License-Identifier: Apache-2.0
"""`debug`: a debugger of a program or of a compiled network, once it is known to be safe to run."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from vdla.debugger.debugger import Debugger
from vdla.debugger.program_run import ProgramRun
from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.simulator.support.errors import require_program
from vdla.simulator.verify import VerifyError, verify
from vdla.simulator.verify.verdict import Kind
from vdla.support.arrays import Array

if TYPE_CHECKING:
    from vdla.runtime.executor.artifact import Artifact
    from vdla.runtime.executor.model import Model

OF_ORDER = (Kind.DEADLOCK, Kind.RACE, Kind.UNBALANCED)
"""Findings of programs that can be debugged nevertheless: this is how to find out."""


def debug(
    run: Program | Model | Artifact, inputs: Mapping[str, Array] = MappingProxyType({}), config: Config | None = None
) -> Debugger:
    """A debugger of a run of a program, or of all programs of a network, which stands at its first
    cycle.

    `inputs` and `config` as for `simulate`; of a network, its inputs by name. Programs that hang or
    race can be debugged as well.

    Raises:
        VerifyError: a program that accesses memory out of bounds, or is invalid in another way.
        ProgramError, ExecutorError: arrays that do not fit the inputs.
        SimulationError: a configuration that does not fit the program.
        DebugError: a network that runs no program of the accelerator.
    """
    if not isinstance(run, Program):
        from vdla.debugger.network_runs import artifact_of, network_runs  # which takes a while

        artifact = artifact_of(run)
        if artifact is not None:
            return Debugger(artifact.plan.name, network_runs(artifact, inputs), config)
    require_program("debug", run, config)
    assert isinstance(run, Program), "else it was refused"
    verdict = verify(run)
    if any(finding.kind not in OF_ORDER for finding in verdict.findings):
        raise VerifyError(verdict)
    return Debugger(run.name, [ProgramRun.alone(run, inputs)], config)
