# SPDX-License-Identifier: Apache-2.0
"""The benchmark of memory: sums of a small network by hand, and the bound under every plan."""

import math

from vdla.benchmarks import memory
from vdla.hardware.config import Config
from vdla.networks.registry import NETWORKS


def test_figures_of_a_small_network(monkeypatch):
    monkeypatch.setattr(memory, "NETWORK", "digits")
    steps = []
    result = memory.run(lambda what, done, total: steps.append((what, done, total)))
    rows = {row["artifact"]: row for row in result.rows}
    assert list(rows) == ["float_cpu", "int8_cpu", "pynq_z1"] and steps[-1] == ("done", 3, 3)
    for row in rows.values():
        assert row["live_bytes"] <= row["planned_bytes"]
        assert row["share_of_network"] == round(row["planned_bytes"] / row["network_bytes"], 4)
    assert rows["float_cpu"]["device_bytes"] == 0 < rows["pynq_z1"]["device_bytes"]
    assert result.figures["peak_share"] == max(rows[name]["share_of_network"] for name in ("float_cpu", "int8_cpu"))
    assert result.figures["pynq_z1_share_of_steps"] == rows["pynq_z1"]["share_of_steps"]


def test_the_sum_of_the_network_counts_every_tensor(monkeypatch):
    """Without fusion, the float digits have an input and the result of each node of the graph."""
    cases = memory._cases(NETWORKS["digits"], Config.preset("pynq_z1"), 0)
    graph, target = cases["float_cpu"]
    row, artifact = memory._measure(graph, target)
    names = (*graph.inputs, *(node.outputs[0] for node in graph.nodes))
    assert row["network_bytes"] == sum(4 * math.prod(graph.tensor(name).extents) for name in names)
    assert row["planned_bytes"] == artifact.plan.arena_bytes
