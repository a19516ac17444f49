# SPDX-License-Identifier: Apache-2.0
"""The benchmark of whole networks, on small variants."""

from dataclasses import replace

import pytest

from vdla.benchmarks import network
from vdla.networks.registry import NETWORKS, NetworkError


def measure_small(monkeypatch, name, **extents):
    """The benchmark measures a small network, once."""
    found = NETWORKS[name]
    variant = replace(found, build=lambda seed: found.build(seed=seed, **found.small | extents))
    monkeypatch.setattr(network, "network", {name: variant}.__getitem__)
    monkeypatch.setattr(network, "REPEATS", 1)


def test_the_figures_of_a_small_network(monkeypatch):
    measure_small(monkeypatch, "resnet18")
    monkeypatch.setattr(network, "MEASURED", ("resnet18",))
    result = network.run()
    figures = result.figures
    assert figures["all_exact"] == 1
    assert 0.95 < figures["resnet18_offloaded_share"] <= 1
    assert figures["resnet18_cycles"] == sum(row["cycles"] for row in result.rows)
    assert 0 < figures["resnet18_bound_share"] <= 1
    assert 0 < figures["resnet18_product_bound_share"] <= 1
    first, *others = [row for row in result.rows if row["op"] in ("vdla.QConv", "vdla.QAdd")]
    assert first["op"] == "vdla.QConv"
    assert figures["resnet18_offloaded_cycles"] == sum(row["cycles"] for row in others)


def test_the_products_of_a_transformer_are_offloaded(monkeypatch):
    """Its softmax and normalisations are kernels of the CPU, in float, without plug-ins."""
    measure_small(monkeypatch, "vit_small", image=64, width=128, depth=1)
    result = network.run(subjects=["vit_small"])
    assert result.figures["all_exact"] == 1
    assert result.figures["vit_small_offloaded_share"] > 0.9
    products = [row for row in result.rows if row["macs"]]
    assert {row["op"] for row in products} == {"vdla.QConv", "vdla.QDense", "vdla.QMatMul"}
    assert all(row["bound_cycles"] > 0 for row in products)
    assert result.receipt["command"] == "vdla bench network vit_small --seed 0"


def test_a_transformer_is_measured_with_plug_ins_too(monkeypatch):
    measure_small(monkeypatch, "vit_small", image=64, width=128, depth=1)
    figures = network.run(subjects=["vit_small"]).figures
    assert figures["vit_small_plug_ins_exact"] == 1
    assert figures["vit_small_plug_ins_largest_program"] > 12 > figures["vit_small_largest_program"]
    assert figures["vit_small_work_share"] < figures["vit_small_plug_ins_work_share"] <= 1


def test_an_unknown_network_is_refused():
    with pytest.raises(
        NetworkError, match=r"^network: name must be one of .*, got vit_smal \(did you mean vit_small\?\)$"
    ):
        network.run(subjects=["vit_smal"])
