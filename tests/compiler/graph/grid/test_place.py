# SPDX-License-Identifier: Apache-2.0
"""The choice between CPU and GPU, compared with the best of all choices, tried one by one."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from vdla.compiler.graph import Graph, Node, TensorType
from vdla.compiler.graph.accelerator import CpuModel, cpu_seconds, tensor_bytes
from vdla.compiler.graph.grid import GPU_MODEL, GRID, group_for_grid, place_on_grid
from vdla.compiler.graph.groups import BODY
from vdla.compiler.graph.operators.macs import macs_of
from vdla.compiler.graph.operators.table import alias_sources


def random_graph(seed, count=6):
    """Element-wise nodes of several sizes, some with a reshaped view before them."""
    rng = np.random.default_rng(seed)
    kind = TensorType("float32", (int(rng.integers(1, 9)) * 64,))
    nodes, types, values = [], {"x": kind}, ["x"]
    for number in range(count):
        name, given = f"v{number}", [str(each) for each in rng.choice(values, 2)]
        if rng.random() < 0.3:
            nodes.append(Node("Identity", (given[0],), (f"{name}view",), {}, ""))
            types[f"{name}view"] = kind
            given[0] = f"{name}view"
        nodes.append(Node("Add", tuple(given), (name,), {}, name))
        types[name] = kind
        values.append(name)
    return Graph("g", ("x",), (values[-1], values[-2]), tuple(nodes), {}, types)


def seconds(graph, on_grid, gpu, cpu):
    """The cost of a choice, from its definition."""
    sources = alias_sources(graph)
    nodes = [node for node in graph.nodes if node.outputs[0] not in sources]
    total, readers = 0.0, {value: {"cpu"} for value in graph.outputs}
    side = {"x": "cpu", **{node.outputs[0]: "gpu" if node.outputs[0] in on_grid else "cpu" for node in nodes}}
    for node in nodes:
        macs, here = macs_of(graph, node), side[node.outputs[0]]
        values = dict.fromkeys((*node.inputs, *node.outputs))
        nbytes = sum(tensor_bytes(graph, value) for value in values)
        total += gpu.seconds(macs, nbytes) if here == "gpu" else cpu_seconds(graph, node, macs, cpu)
        for value in node.inputs:
            readers.setdefault(sources.get(value, value), set()).add(here)
    for value, sides in readers.items():
        total += len(sides - {side[value]}) * gpu.seconds_to_copy(tensor_bytes(graph, value))
    return total


def test_no_other_choice_is_cheaper():
    sizes = set()
    for seed in range(8):
        graph, rates = random_graph(seed), np.random.default_rng(seed)
        cpu = CpuModel("cpu", 1e9, 1e9, 1e-6, "")
        call, copy = 10.0 ** -rates.uniform(5, 6.5), 10.0 ** -rates.uniform(5, 7)
        gpu = replace(GPU_MODEL, call_seconds=call, copy_seconds=copy)
        forced = {f"v{seed % 6}": "gpu", f"v{(seed + 3) % 6}": "cpu"}
        found = place_on_grid(graph, {}, gpu, cpu, forced).on_grid
        names = [f"v{number}" for number in range(6)]
        choices = ({n for n, here in zip(names, each, strict=True) if here} for each in product((0, 1), repeat=6))
        allowed = (each for each in choices if all((n in each) == (at == "gpu") for n, at in forced.items()))
        best = min(seconds(graph, each, gpu, cpu) for each in allowed)
        assert seconds(graph, found, gpu, cpu) == pytest.approx(best, rel=1e-3)
        sizes.add(len(found))
    assert len(sizes) > 2  # not only what is named is where it is


def test_named_places_and_reasons_hold_and_are_told():
    graph = random_graph(0)
    found = place_on_grid(graph, {"v1": "have a tensor expression"}, GPU_MODEL, None, {"v2": "cpu", "v1": "gpu"})
    assert found.on_grid == {"v0", "v3", "v4", "v5"}
    assert {name: why.reason for name, why in found.decisions.items() if name in ("v0", "v1", "v2")} == {
        "v0": "the target is the GPU",
        "v1": "on the GPU it must have a tensor expression",
        "v2": "placed on the CPU by the user",
    }


def test_nodes_of_the_gpu_are_fused_among_themselves_only():
    kind = TensorType("float32", (8,))
    nodes = [Node("Relu", (a,), (b,), {}, b) for a, b in ("xa", "ab", "bc", "cd")]
    graph = Graph("g", ("x",), ("d",), tuple(nodes), {}, dict.fromkeys("xabcd", kind))
    made = group_for_grid(graph, {"a", "b", "d"})
    assert [node.op for node in made.nodes] == [GRID, "Relu", GRID]
    assert [[inner.name for inner in node.attributes[BODY].nodes] for node in made.nodes if node.op == GRID] == [
        ["a", "b"],
        ["d"],
    ]
