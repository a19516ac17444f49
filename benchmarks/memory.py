# SPDX-License-Identifier: Apache-2.0
"""Memory for the activations of ResNet-18: planned bytes against those of executors without reuse.

Three artifacts: `float_cpu` and `int8_cpu` for the CPU alone, `pynq_z1` for the accelerator and the
CPU beside it. Of each,

- `planned_bytes` is what its plan takes: the arena, and the accelerator's memory for inputs,
  outputs and intermediate tensors of the program that needs most; a tensor that the CPU hands to
  the accelerator counts on both sides;
- `live_bytes` is the largest sum of values that are live together: no plan of these steps needs
  less;
- `steps_bytes` is the sum of all values of its own steps, each in a buffer of its own. Fusion has
  removed values before, so that `planned / steps` is the share by the plan alone;
- `network_bytes` is the sum of all tensors of the network, each in a buffer of its own: input and
  result of every operator of the graph after batch norms are folded and, in int8, integer operators
  made, before fusion and placement. That is what an executor takes which neither fuses nor plans.

`peak_share` is the worst `planned / network` of the artifacts for the CPU, since all activations of
a network are those of its operators; `peak_share_of_steps` is the worst `planned / steps` of these,
for which the float network has no better plan: input and result of its first pool are live
together. The accelerator's artifact has figures of its own. It takes more than the network's
tensors: the windows of the first convolution, laid out as channels, are 13 times the int8 image,
and they are in the memory of both devices.
"""

from __future__ import annotations

from collections.abc import Iterator

from vdla.benchmarks.harness import BenchmarkResult, Figures, Row, receipt
from vdla.compiler.graph import Graph, TensorType
from vdla.compiler.graph.accelerator import ACCELERATED, REGION, AcceleratedRegion
from vdla.compiler.operators.vdla.roles import OUTPUT
from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.networks.registry import NETWORKS, Network
from vdla.runtime.executor.arena_blocks import arena_blocks
from vdla.runtime.executor.artifact import Artifact
from vdla.runtime.executor.plan import Plan, size_bytes
from vdla.runtime.executor.resident_program import activation_bytes
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.network.quantise import quantise
from vdla.support.progress import Progress, silent, steps

NETWORK = "resnet18"
PRESET = "pynq_z1"
_LAST_PASS = "simplify_integers"  # before placement and fusion


def run(progress: Progress = silent, seed: int = 0) -> BenchmarkResult:
    """A row for each artifact of NETWORK; the shares of each, and the worst."""
    network, config = NETWORKS[NETWORK], Config.preset(PRESET)
    cases = _cases(network, config, seed)
    rows: list[Row] = []
    programs: list[Program] = []
    for name in steps(progress, list(cases)):
        row, artifact = _measure(*cases[name])
        rows.append({"artifact": name, **row})
        programs += artifact.programs
    on_cpu = [row for row in rows if not row["device_bytes"]]
    worst = {"peak_share": "share_of_network", "peak_share_of_steps": "share_of_steps"}
    figures: Figures = {figure: max(row[share] for row in on_cpu) for figure, share in worst.items()}
    figures |= {f"{row['artifact']}_{share}": row[share] for row in rows for share in _SHARES}
    made = receipt(config, programs, seed, f"vdla bench memory --seed {seed}")
    return BenchmarkResult("memory", figures, rows, made)


_SHARES = ("share_of_network", "share_of_steps")


def _cases(network: Network, config: Config, seed: int) -> dict[str, tuple[Graph, Config | str]]:
    """The graph and the target of each artifact."""
    model = network.build(seed=seed)
    made = quantise(model, calibration=[network.inputs(model, seed=seed + 1)], method="minmax")
    return {"float_cpu": (made.float_graph, "host"), "int8_cpu": (made.graph, "host"), PRESET: (made.graph, config)}


def _measure(graph: Graph, target: Config | str) -> tuple[Row, Artifact]:
    graphs: dict[str, Graph] = {}
    with compile_network(graph, target, observe=lambda name, _, after: graphs.__setitem__(name, after)) as model:
        artifact = model.artifact
    on_device = max(map(activation_bytes, artifact.programs), default=0)
    planned = artifact.plan.arena_bytes + on_device
    steps = artifact.plan.arena_bytes_without_reuse + sum(_region_bytes(region) for region in _regions(graphs["fuse"]))
    network = _graph_bytes(graphs[_LAST_PASS])
    row = {
        "planned_bytes": planned,
        "device_bytes": on_device,
        "live_bytes": _live_bytes(artifact.plan) + on_device,
        "steps_bytes": steps,
        "network_bytes": network,
        "share_of_network": round(planned / network, 4),
        "share_of_steps": round(planned / steps, 4),
    }
    return row, artifact


def _live_bytes(plan: Plan) -> int:
    """The largest sum of the arena's values that are live at one step."""
    blocks = list(arena_blocks(plan))
    sums = (
        sum(b.end - b.start for b in blocks if b.first <= step <= b.last) for step in range(-1, len(plan.steps) + 1)
    )
    return max(sums)


def _graph_bytes(graph: Graph) -> int:
    """All tensors of a graph but its constants."""
    kinds = [graph.types[name] for name in graph.values if name not in graph.constants]
    return sum(size_bytes(kind.dtype, kind.extents) for kind in kinds if isinstance(kind, TensorType))


def _regions(graph: Graph) -> Iterator[AcceleratedRegion]:
    for node in graph.nodes:
        if node.op == ACCELERATED:
            yield node.attributes[REGION]


def _region_bytes(region: AcceleratedRegion) -> int:
    """The packed tensors of a region: its inputs, and the result of every operator."""
    inputs = sum(region.chain.program.tensor(tensor).nbytes for tensor in region.inputs.values())
    results = (step.operator.program.tensor(OUTPUT).nbytes for step in region.chain.steps)
    return inputs + sum(results)
