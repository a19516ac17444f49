# SPDX-License-Identifier: Apache-2.0
"""Whole networks through the RTL: the results and every cycle of the simulator."""

import numpy as np
import pytest
from helpers.seeds import ALL

from vdla.networks.registry import NETWORKS
from vdla.runtime.executor.model import Model
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.network.quantise import quantise

pytestmark = pytest.mark.rtl


def compiled(name):
    """A quantised network for pynq_z1, of its full size in a release, and inputs."""
    network = NETWORKS[name]
    model = network.build(**({} if ALL else network.small))
    data = [network.inputs(model, seed=seed) for seed in range(2)]
    graph = quantise(model, calibration=data[1:], method="minmax").graph
    return compile_network(graph, "pynq_z1").artifact, data[0]


@pytest.mark.parametrize("name", ["digits", pytest.param("resnet18", marks=pytest.mark.long)])
def test_the_rtl_equals_the_simulator(name):
    artifact, inputs = compiled(name)
    with Model(artifact, "sim") as simulated, Model(artifact, "rtl") as verilated:
        expected, got = simulated.run(inputs), verilated.run(inputs)
    assert expected.cycles > 0
    for ours, theirs in zip(got.steps, expected.steps, strict=True):
        assert (ours.statistics is None) == (theirs.statistics is None)
        if ours.statistics is not None:
            assert ours.statistics.differences(theirs.statistics) == []
    for output, array in expected.outputs.items():
        assert np.array_equal(got.outputs[output], array)
