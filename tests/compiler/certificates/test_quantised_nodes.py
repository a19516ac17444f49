# SPDX-License-Identifier: Apache-2.0
"""Certificates of the passes to integers: random quantised networks, planted faults, roundings."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from helpers.quantiser import to_qdq
from helpers.random_network import RandomNetwork
from numpy.random import default_rng

from vdla.benchmarks.certify_passes import INTEGER_KINDS, faults_of, judged_pass
from vdla.compiler.certificates.pass_certificate import certify_pass, run_before
from vdla.compiler.certificates.rounded_sums import Rounding, difference, rounded, values_difference
from vdla.compiler.graph import Graph, Node, TensorType
from vdla.compiler.graph.onnx import import_model
from vdla.compiler.graph.passes import fuse_qdq, run_passes
from vdla.compiler.graph.passes.fuse_qdq import prepared
from vdla.runtime.network.evaluate_nodes import INTEGER, evaluate_node


def quantised(seed: int, *, uint8: bool = False) -> Graph:
    """A random network of layers between QuantizeLinear and DequantizeLinear."""
    network = RandomNetwork(seed, length=4 + seed % 9)
    floats = network.build()
    data = [network.inputs(at) for at in (0, 1)]
    return import_model(to_qdq(floats, data, uint8=uint8, per_channel=seed % 3 > 0))


@pytest.mark.sampled
@pytest.mark.parametrize("uint8", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_the_passes_to_integers_are_certified(seed: int, *, uint8: bool) -> None:
    certificates = {}

    def observe(name: str, before: Graph, after: Graph) -> None:
        if before is not after:
            certificates[name] = certify_pass(name, before, after)

    run_passes(quantised(seed, uint8=uint8), INTEGER, observe)
    assert all(one.holds for one in certificates.values()), certificates
    made = certificates["fuse_qdq"].rounding
    assert made.count > 1000
    assert made.differing < made.count / 1000
    assert made.near < 1e-4


def with_functions() -> Graph:
    """A convolution, a sum of values of other scales, a function, and a product of two values."""
    shape, rng = (1, 4, 3, 3), default_rng(0)
    scales = {"s": 0.05, "t": 0.037, "u": 0.011, "w": 0.02}
    constants = {name: np.float32(value).reshape(()) for name, value in scales.items()}
    constants |= {"z": np.array(3, np.int8), "zw": np.array(0, np.int8)}
    constants |= {"weight": rng.integers(-127, 128, (4, 4, 1, 1)).astype(np.int8)}
    constants |= {"bias": rng.standard_normal(4).astype(np.float32)}
    nodes: list[Node] = []
    types = {name: TensorType(value.dtype.name, value.shape) for name, value in constants.items()}

    def node(op: str, inputs: tuple[str, ...], result: str, dtype: str = "float32") -> str:
        types[result] = TensorType(dtype, (4, 4, 1, 1) if result == "weights" else shape)
        nodes.append(Node(op, inputs, (result,)))
        return result

    def again(value: str, scale: str) -> str:
        q = node("QuantizeLinear", (value, scale, "z"), f"{value}_q", "int8")
        return node("DequantizeLinear", (q, scale, "z"), f"{value}_d")

    types["x"] = TensorType("float32", shape)
    x = again("x", "s")
    weight = node("DequantizeLinear", ("weight", "w", "zw"), "weights")
    y = again(node("Conv", (x, weight, "bias"), "conv"), "t")
    total = again(node("Add", (x, y), "sum"), "u")
    sigmoid = again(node("Sigmoid", (total,), "sigmoid"), "s")
    again(node("Mul", (sigmoid, y), "product"), "t")
    return Graph("small", ("x",), ("product_d",), tuple(nodes), constants, types)


@pytest.fixture(scope="module")
def fused() -> tuple[Graph, Graph]:
    """The graphs before and after the pass to integers."""
    before = prepared(with_functions())
    after = fuse_qdq(before, lambda node, inputs: evaluate_node(node, inputs, prefer="numpy"))
    operators = {node.op for node in after.nodes}
    assert operators >= {"vdla.QConv", "vdla.QAdd", "vdla.QTable", "vdla.QMul"}
    assert certify_pass("fuse_qdq", before, after).holds
    return before, after


@pytest.mark.sampled
@pytest.mark.parametrize("kind", INTEGER_KINDS)
def test_planted_faults_are_refused(kind: str, fused: tuple[Graph, Graph]) -> None:
    before, after = fused
    first = run_before(before)
    faults = faults_of(after, kind, default_rng(0), 12)
    assert faults
    for fault in faults:
        assert judged_pass(before, after, fault, first, 0) != "accepted"
    refused = [fault for fault in faults if not certify_pass("wrong", before, fault, first=first).holds]
    assert len(refused) > len(faults) / 2


def test_the_certificate_says_how_many_sums_are_rounded_otherwise(fused: tuple[Graph, Graph]) -> None:
    certificate = certify_pass("fuse_qdq", *fused)
    made = certificate.rounding
    if made.differing:
        shown = f"{made.differing:,} of {made.count:,} sums differ by 1, within {made.near:.0e} of a half"
    else:
        shown = f"all {made.count:,} sums are rounded alike"
    assert str(certificate) == f"pass fuse_qdq: certified, 36 results; {shown}"


# --- roundings ------------------------------------------------------------------------------------


def random_rounding(rng: np.random.Generator, *, ties: bool) -> Rounding:
    """A rounding whose factor is one of float32, or one with many ties."""
    low, high = sorted(rng.integers(-128, 128, 2).tolist())
    factor = Fraction(int(rng.integers(1, 40)), 8) if ties else Fraction(float(np.float32(rng.uniform(0.001, 3))))
    shift = Fraction(int(rng.integers(-16, 17)), 4) if ties else Fraction(float(rng.uniform(-5, 5)))
    return Rounding(factor, shift, int(rng.integers(-128, 128)), low, high)


@pytest.mark.parametrize("seed", range(60))
def test_differences_are_those_of_every_integer(seed: int) -> None:
    rng = default_rng(seed)
    one = random_rounding(rng, ties=seed % 2 == 0)
    other = replace(one, factor=one.factor * Fraction(int(rng.integers(990, 1011)), 1000), shift=Fraction(0))
    if seed % 3 == 0:
        other = replace(other, low=max(-128, other.low - 1), zero=other.zero)
    low, high = -int(rng.integers(1, 900)), int(rng.integers(1, 900))
    pairs = [(one.of(n), other.of(n)) for n in range(low, high + 1)]
    made = difference(one, other, low, high)
    if max(abs(a - b) for a, b in pairs) > 1:
        assert made is None
        return
    assert made is not None
    assert (made.count, made.differing) == (len(pairs), sum(a != b for a, b in pairs))


@pytest.mark.parametrize("seed", range(20))
def test_rounded_integers_are_those_of_fractions(seed: int) -> None:
    rng = default_rng(seed)
    one = replace(random_rounding(rng, ties=seed % 2 == 0), shift=Fraction(0))
    sums = rng.integers(-500, 500, 200)
    assert rounded(sums, one).tolist() == [one.of(int(n)) for n in sums]
    made = values_difference(
        sums * float(one.factor), lambda place: one.factor * int(sums[place]), one, rounded(sums, one)
    )
    assert made is not None
    assert made.differing == 0
