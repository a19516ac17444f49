"""The times of programs, by the simulator, whose event loop must be compiled first.

That takes seconds where no run has left it on disk, so it begins before there is a program, and a
program is verified before it waits for that.
"""

from __future__ import annotations

from vdla.compiler.operators.vdla import Operator
from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.simulator.stats import RunStats
from vdla.simulator.verify import require_verified
from vdla.support.background import Background


class ProgramTimer:
    """Times programs for a machine; compiles the event loop in the background if need be."""

    def __init__(self, config: Config, background: Background) -> None:
        from vdla.simulator.timing import is_prepared, prepare

        self._background = background
        self._preparation = [] if is_prepared() else [background.submit(prepare, config, patience_s=0.0)]

    def __call__(self, program: Program) -> RunStats:
        """The run of a program.

        VerifyError: the program is not safe, and might not end.
        """
        from vdla.simulator.timing import time_program

        require_verified(program)
        self._background.results(self._preparation)
        return time_program(program)

    def cycles(self, operator: Operator) -> int:
        """The cycles of an operator alone."""
        return self(operator.program).total_cycles
