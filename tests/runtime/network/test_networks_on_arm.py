# SPDX-License-Identifier: Apache-2.0
"""Networks for the CPUs of boards: kernels in an emulated process, programs on the simulator."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.elf_tools import EmulatedProcess, skip_without
from helpers.integer_evaluator import evaluate as exact
from helpers.quantiser import to_qdq

from vdla.hardware.config import Config
from vdla.networks.registry import NETWORKS
from vdla.runtime.devices import open_device
from vdla.runtime.executor.artifact import Artifact
from vdla.runtime.executor.executor import Executor
from vdla.runtime.native.elf_image import ElfLayout
from vdla.runtime.native.elf_object import ElfObject
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.numpy_operators import FUNCTIONS

BASE = 0x5A000000
BOARDS = {"pynq_z1": ("cortex-a9", "cortex-a9"), "ultra96": ("cortex-a53", "aarch64")}


class EmulatedKernels:
    """Kernels of an artifact, each called in a process of its own."""

    def __init__(self, artifact: Artifact, folder: Path, tools: str) -> None:
        self.artifact = artifact
        self.layouts = [ElfLayout.of(ElfObject.parse(k.object, "k"), "k") for k in artifact.kernels]
        functions = sorted({name for layout in self.layouts for name in layout.externals})
        self.process = EmulatedProcess.start(folder, tools, functions)
        self.calls = 0

    def bind(self, index: int, arrays: Sequence[Any]) -> Callable[[], object]:
        """A call of a kernel on these arrays."""
        signature = self.artifact.kernels[index].signature
        by_name = dict(zip((a.name for a in signature.arguments), arrays, strict=True))

        def run() -> None:
            self.calls += 1
            for name, array in self.process.call(self.layouts[index], BASE, signature, by_name).items():
                by_name[name][...] = array

        return run


@pytest.mark.sampled
@pytest.mark.parametrize("place", ["chosen", "cpu"])
@pytest.mark.parametrize("board", BOARDS)
def test_a_network_on_a_board(board: str, place: str, tmp_path: Path) -> None:
    cpu, tools = BOARDS[board]
    skip_without(tools)
    network = NETWORKS["digits"]
    float_model = network.build(**network.small)
    model = to_qdq(float_model, [network.inputs(float_model, seed=seed) for seed in (1, 2)])
    inputs = network.inputs(float_model)
    compiled = compile_network(model, board, cpu=cpu) if place == "chosen" else compile_network(model, cpu)
    artifact = Artifact.from_bytes(compiled.artifact.to_bytes(), "m")
    assert (artifact.cpu.name, len(artifact.programs) > 0) == (cpu, place == "chosen")
    kernels = EmulatedKernels(artifact, tmp_path, tools)
    with open_device("sim", artifact.config or Config.preset(board)) as device:
        executor = Executor(artifact, kernels.bind, FUNCTIONS, device)
        results = executor.run(inputs).outputs
        executor.close()
    assert kernels.calls > 0
    for name, wanted in exact(model, inputs).outputs.items():
        np.testing.assert_array_equal(results[name], wanted, err_msg=name)
