# SPDX-License-Identifier: Apache-2.0
"""The roofline: no run is above its roof, whichever channel limits it."""

import pytest

from vdla.commands.run_tables import attained_gops, roof_gops
from vdla.compiler.operators.workloads import workload
from vdla.hardware.config import Config
from vdla.runtime.diagnosis.layers import layer_operator
from vdla.simulator.timing import time_program


@pytest.mark.parametrize("name", ["C3", "C5", "C11"])
def test_no_layer_is_above_its_roof(name):
    operator = layer_operator(workload(name), Config.preset("pynq_z1"), 2)
    stats = time_program(operator.program)
    assert 0.8 < attained_gops(stats) / roof_gops(stats) <= 1
    assert max(stats.memory_bound_cycles, stats.compute_bound_cycles) <= stats.total_cycles
