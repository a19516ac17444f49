# SPDX-License-Identifier: Apache-2.0
"""Concatenations on the accelerator: their operands are written where the result lies."""

import numpy as np
import pytest
from helpers.accelerated_graph import run_accelerated
from helpers.graphs import operators_of

from vdla.compiler.graph import Graph, Node, TensorType, check_graph
from vdla.compiler.graph.accelerator import ACCELERATED, REGION, board_cpu, candidates, choose, partition
from vdla.compiler.graph.accelerator.partition import SCATTERED
from vdla.hardware.config import Config
from vdla.runtime.network.evaluator import evaluate

PYNQ = Config.preset("pynq_z1")
RESULTS = {"multiplier": np.array([1 << 23]), "shift": np.array([30]), "y_zero_point": 0, "low": -128, "high": 127}
WINDOW = {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1), "group": 1, "x_zero_point": 3}


class Building:
    """A graph of convolutions and concatenations of images [1, channels, size, size]."""

    def __init__(self, channels=16, size=6, seed=0):
        self.rng, self.size = np.random.default_rng(seed), size
        self.nodes, self.constants, self.channels = [], {}, {"x": channels}

    def conv(self, x, channels=16):
        name = f"v{len(self.nodes)}"
        weight = self.rng.integers(-128, 128, (channels, self.channels[x], 3, 3), np.int8)
        self.constants |= {f"{name}.w": weight, f"{name}.b": self.rng.integers(-999, 999, channels, np.int32)}
        return self._add("vdla.QConv", (x, f"{name}.w", f"{name}.b"), channels, {**RESULTS, **WINDOW})

    def concat(self, *names, axis=1):
        return self._add("Concat", names, sum(self.channels[name] for name in names), {"axis": axis})

    def _add(self, op, inputs, channels, attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(Node(op, inputs, (name,), attributes, name))
        self.channels[name] = channels
        return name

    def graph(self, *outputs):
        types = {name: TensorType("int8", (1, count, self.size, self.size)) for name, count in self.channels.items()}
        types |= {name: TensorType(str(value.dtype), value.shape) for name, value in self.constants.items()}
        return check_graph(Graph("g", ("x",), outputs, tuple(self.nodes), self.constants, types))


def placed_and_exact(graph, config=PYNQ, without=()):
    """The partitioned graph, whose results are those of the definitions."""
    calls = {name: call for name, call in candidates(graph, config).calls.items() if name not in without}
    placed = check_graph(partition(graph, config, calls))
    kind = graph.tensor("x")
    inputs = {"x": np.random.default_rng(1).integers(-128, 128, kind.extents, np.int8)}
    wanted = evaluate(graph, inputs, prefer="numpy")
    for name, array in run_accelerated(placed, inputs).items():
        assert np.array_equal(array, wanted[name]), name
        assert np.unique(array).size > 3
    return placed


def joined(placed):
    """The wholes of all regions."""
    return [whole for node in placed.nodes if node.op == ACCELERATED for whole in node.attributes[REGION].chain.joined]


def stores(placed):
    """The tensors of all programs but for weights and inputs."""
    regions = [node.attributes[REGION] for node in placed.nodes if node.op == ACCELERATED]
    return [t for region in regions for t in region.chain.program.tensors if t.role in ("output", "scratch")]


@pytest.mark.parametrize("preset", ["pynq_z1", "tiny"])
def test_producers_write_into_the_result(preset):
    build = Building()
    parts = [build.conv("x"), build.conv("x", 32), build.conv("x", 16)]
    graph = build.graph(build.conv(build.concat(*parts)))
    placed = placed_and_exact(graph, Config.preset(preset))
    assert operators_of(placed).count(ACCELERATED) == 1
    assert "Concat" not in operators_of(placed)
    assert sorted(t.nbytes for t in stores(placed)) == [16 * 36, 64 * 36]


def test_a_result_that_only_the_host_reads():
    build = Building()
    placed = placed_and_exact(build.graph(build.concat(build.conv("x"), build.conv("x", 20))))
    assert len(joined(placed)) == 1
    assert [t.role for t in stores(placed)] == ["output"]


def test_blocks_of_a_dense_network():
    """Each layer reads all that the layers before it have made."""
    build = Building()
    value = build.conv("x")
    for _ in range(3):
        value = build.concat(value, build.conv(value))
    placed = placed_and_exact(build.graph(build.conv(value)))
    assert len(joined(placed)) == 3
    assert max(t.nbytes for t in stores(placed)) == 64 * 36


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(12))
def test_random_graphs(seed):
    build, rng = Building(seed=seed, size=5), np.random.default_rng(seed)
    values, free = ["x", build.conv("x")], ["v0"]
    for _ in range(8):
        if rng.random() < 0.4 and len(free) > 1:
            name = build.concat(*rng.permutation(free)[: rng.integers(2, 4)].tolist())
            free = [value for value in free if value not in build.nodes[-1].inputs or rng.random() < 0.1]
        else:
            name = build.conv(str(rng.choice(values)), int(rng.choice([16, 16, 32, 20])))
        values.append(name)
        free.append(name)
    read = {name for node in build.nodes for name in node.inputs}
    without = [name for name in values if rng.random() < 0.05]
    placed_and_exact(build.graph(*(name for name in values if name not in read)), without=without)


def test_operands_that_others_read_are_copied_by_the_host():
    build = Building()
    first, second = build.conv("x"), build.conv("x")
    whole = build.concat(first, second)
    graph = build.graph(build.conv(whole), first)
    placed = placed_and_exact(graph)
    assert not joined(placed)
    assert "Concat" in operators_of(placed)
    decision = choose(graph, PYNQ, candidates(graph, PYNQ), board_cpu(PYNQ)).decisions[whole]
    assert decision.device == "cpu"
    forced = choose(graph, PYNQ, candidates(graph, PYNQ), board_cpu(PYNQ), dict.fromkeys(build.channels, "vdla"))
    assert forced.decisions[whole].reason == f"on the accelerator it must {SCATTERED}"
    assert forced.decisions[whole].change == "other readers of its operands"


def test_operands_of_two_concatenations():
    build = Building()
    parts = [build.conv("x"), build.conv("x")]
    graph = build.graph(build.concat(*parts), build.concat(*parts[::-1]))
    assert not joined(placed_and_exact(graph))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda b: b.concat("x", b.conv("x")), "join results of the accelerator, got x"),
        (lambda b: b.concat(*[b.conv("x")] * 2), "join each operand once, got v0 twice"),
        (
            lambda b: b.concat(b.conv("x", 20), b.conv("x")),
            "join whole blocks of 16 channels, got 20 of v0",
        ),
    ],
)
def test_reasons_to_stay(make, reason):
    build = Building()
    name = make(build)
    found = candidates(build.graph(name), PYNQ)
    assert found.reasons[name] == f"on the accelerator it must {reason}"


def test_other_dimensions_stay():
    build = Building()
    name = build.concat(build.conv("x"), build.conv("x"), axis=-1)
    graph = build.graph(name)
    types = {**graph.types, name: TensorType("int8", (1, 16, 6, 12))}
    found = candidates(graph.replace(types=types), PYNQ)
    assert found.reasons[name] == "on the accelerator it must join channels, dimension 1, got -1"
