# SPDX-License-Identifier: Apache-2.0
"""The reprs of results: one line each."""

from vdla.compiler.templates.products import dense
from vdla.hardware.config import Config
from vdla.simulator.simulate import simulate
from vdla.simulator.timing import time_program


def test_results_have_one_line_reprs():
    operator = dense(Config.preset("tiny"), rows=4, in_features=4, out_features=4, raw=True)
    program = operator.program
    stats = time_program(program)
    result = simulate(program, mode="timing")
    assert repr(operator).startswith("<Operator dense for tiny: ")
    assert repr(operator.function) == "<Function dense(data, weight, output)>"
    assert repr(program) == f"<Program dense for tiny: {len(program)} instructions, hash {program.hash}>"
    assert repr(result) == f"<Result of dense: outputs none; {stats.total_cycles:,} cycles>"
    assert repr(result.trace) == f"<RunTrace dense: {len(program)} instructions>"
    assert repr(stats) == f"<RunStats dense: {stats.total_cycles:,} cycles, utilisation {stats.utilisation:.1%}>"
