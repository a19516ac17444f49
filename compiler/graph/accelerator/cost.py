# SPDX-License-Identifier: Apache-2.0
"""What an operator costs on each device, in seconds: the basis of the choice between them.

Cycles of the accelerator are the estimates of the tiling search; the simulator gives exact ones
afterwards. A CPU is described by a few rates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from vdla.compiler.graph.graph import Graph, Node, TensorType
from vdla.compiler.graph.machine.call import OperatorCall
from vdla.compiler.graph.machine.packing import InputLayout
from vdla.hardware.config import Config


@dataclass(frozen=True, slots=True)
class CpuModel:
    """Rates of a CPU: products of 8 bits, bytes of tensors read and written, and one call.

    `source` says where the numbers come from.
    """

    name: str
    macs_per_second: float
    bytes_per_second: float
    call_seconds: float
    source: str

    def seconds(self, macs: int, nbytes: int) -> float:
        """The time of one operator."""
        return self.call_seconds + max(macs / self.macs_per_second, nbytes / self.bytes_per_second)


CPU_MODELS: Mapping[str, CpuModel] = {
    model.name: model
    for model in (
        CpuModel("cortex-a9", 1.0e9, 0.5e9, 2e-6, "data sheet of a core at 650 MHz, 40 % of its peak"),
        CpuModel("cortex-a53", 4.0e9, 2.0e9, 1e-6, "data sheet of a core at 1.3 GHz, 40 % of its peak"),
    )
}
BOARD_CPUS: Mapping[str, str] = {"ultra96": "cortex-a53", "zcu104": "cortex-a53", "kv260": "cortex-a53"}
"""The host CPU of each machine preset; cortex-a9 for all others."""

PROGRAM_SECONDS = 50e-6
"""The time to start a program and to wait for its end."""


def board_cpu(config: Config) -> CpuModel:
    """The CPU on the board of a machine."""
    return CPU_MODELS[BOARD_CPUS.get(config.name, "cortex-a9")]


def modelled_cpu(config: Config, cpu: str) -> CpuModel:
    """The CPU that runs the nodes not on the accelerator: `cpu` if it has a model, else the CPU on
    the board.
    """
    board = board_cpu(config)
    return CPU_MODELS.get(cpu) or replace(board, name=f"the board's {board.name}")


@dataclass(frozen=True, slots=True)
class AcceleratorTime:
    """The seconds of an operator on the accelerator, accurate to the factor `error`."""

    seconds: float
    error: float = 1.0

    @staticmethod
    def of(call: OperatorCall, config: Config) -> AcceleratorTime:
        """The estimate; a concatenation without a copy takes no time, and a table on the way out of
        another operator takes that of its load, a stage without one none.
        """
        operator = call.operator
        if operator is None:
            return AcceleratorTime(0.0)
        if call.with_maker is not None:
            table = config.stage is not None and bool(config.stage.states)
            return AcceleratorTime(seconds_of(1 << config.out_bits if table else 0, config))
        return AcceleratorTime(seconds_of(operator.estimated_cycles, config), operator.estimate_error)


def seconds_of(cycles: float, config: Config) -> float:
    """Cycles of a machine as seconds."""
    return cycles / (config.clock_mhz * 1e6)


def cpu_seconds(graph: Graph, node: Node, macs: int, cpu: CpuModel) -> float:
    """The time of a node on a CPU."""
    return cpu.seconds(macs, sum(tensor_bytes(graph, name) for name in (*node.inputs, *node.outputs) if name))


def handover_seconds(layout: InputLayout, cpu: CpuModel) -> float:
    """The time to pack or unpack a tensor."""
    return cpu.seconds(0, 2 * layout.nbytes)


def tensor_bytes(graph: Graph, name: str) -> int:
    """The bytes of a tensor; 0 where its extents are unknown."""
    kind = graph.types.get(name)
    return kind.nbytes if isinstance(kind, TensorType) and kind.static else 0
