"""The benchmark of whole networks, on the small variant of one."""

from dataclasses import replace

from vdla.benchmarks import network
from vdla.benchmarks.networks.registry import NETWORKS


def test_the_figures_of_a_small_network(monkeypatch):
    small = NETWORKS["resnet18"]
    monkeypatch.setattr(
        network, "NETWORKS", {"tiny": replace(small, build=lambda seed: small.build(seed=seed, **small.small))}
    )
    monkeypatch.setattr(network, "MEASURED", ("tiny",))
    monkeypatch.setattr(network, "REPEATS", 1)
    result = network.run()
    figures = result.figures
    assert figures["all_exact"] == 1
    assert 0.95 < figures["tiny_offloaded_share"] <= 1
    assert figures["tiny_cycles"] == sum(row["cycles"] for row in result.rows)
    assert 0 < figures["tiny_bound_share"] <= 1
    first, *others = [row for row in result.rows if row["op"] in ("vdla.QConv", "vdla.QAdd")]
    assert first["op"] == "vdla.QConv"
    assert figures["tiny_offloaded_cycles"] == sum(row["cycles"] for row in others)
