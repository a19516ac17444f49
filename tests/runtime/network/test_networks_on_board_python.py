# SPDX-License-Identifier: Apache-2.0
"""Networks as a board runs them: loaded, linked and executed by the runtime in an emulated Python
for 32-bit Arm and AArch64, their programs on the simulator; the same bits as on this machine.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.board_python import run_model
from helpers.integer_evaluator import evaluate as exact
from helpers.quantiser import to_qdq

from vdla.cli import main
from vdla.networks.registry import NETWORKS
from vdla.runtime.executor.artifact import Artifact
from vdla.runtime.executor.model import Model
from vdla.runtime.network.compile_network import compile_network

CASES = [
    ("pynq_z1", "cortex-a9"),
    ("ultra96", "cortex-a53"),
    pytest.param("kv260", "cortex-a53", marks=pytest.mark.long),
]
"""The presets of boards and the CPUs beside them."""


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, dict[str, Any]]:
    """A file of a quantised network, the network, an input."""
    network = NETWORKS["digits"]
    model = network.build(**network.small)
    quantised = to_qdq(model, [network.inputs(model, seed=seed) for seed in (1, 2)])
    file = tmp_path_factory.mktemp("digits") / "digits.onnx"
    file.write_bytes(quantised.SerializeToString())
    return file, quantised, network.inputs(model)


def require_equal_bits(outputs: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert outputs.keys() == wanted.keys()
    for name, array in wanted.items():
        assert outputs[name].dtype == array.dtype
        np.testing.assert_array_equal(outputs[name].view(np.uint8), array.view(np.uint8), err_msg=name)


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize(("preset", "cpu"), CASES)
def test_a_network_gives_the_same_bits(
    digits: tuple[Path, Any, dict[str, Any]], preset: str, cpu: str, tmp_path: Path
) -> None:
    file, quantised, inputs = digits
    model = tmp_path / "digits.vdla"
    assert main(["compile", str(file), "--target", preset, "--cpu", "board", "-o", str(model)]) == 0
    artifact = Artifact.load(model)
    assert artifact.cpu.name == cpu and artifact.kernels and artifact.programs
    outputs, programs = run_model(artifact, inputs, cpu, tmp_path)
    assert programs == len(artifact.programs)
    require_equal_bits(outputs, exact(quantised, inputs).outputs)


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("cpu", ["cortex-a9", "cortex-a53"])
def test_a_network_on_the_cpu_alone_gives_the_same_bits(
    digits: tuple[Path, Any, dict[str, Any]], cpu: str, tmp_path: Path
) -> None:
    file, _, inputs = digits
    here, there = (compile_network(file, target).artifact for target in ("host", cpu))
    assert len(there.kernels) >= 8 and not there.programs
    outputs, programs = run_model(there, inputs, cpu, tmp_path)
    assert programs == 0
    with Model(here) as model:
        require_equal_bits(outputs, dict(model.run(inputs).outputs))


def test_the_process_of_a_board_runs_here_too(digits: tuple[Path, Any, dict[str, Any]], tmp_path: Path) -> None:
    file, quantised, inputs = digits
    artifact = compile_network(file, "pynq_z1").artifact
    outputs, programs = run_model(artifact, inputs, "host", tmp_path)
    assert programs == len(artifact.programs) > 0
    require_equal_bits(outputs, exact(quantised, inputs).outputs)
