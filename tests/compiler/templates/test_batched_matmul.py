# SPDX-License-Identifier: Apache-2.0
"""Products of activations: layouts of attention, and arrays that are given apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vdla.compiler.operators.vdla.chain import Chain, ChainStep
from vdla.compiler.operators.vdla.operator import TemplateError
from vdla.compiler.templates.products import batched_matmul, dense
from vdla.hardware.config import Config
from vdla.simulator.simulate import simulate

SHAPE = {"batch": 2, "rows": 5, "depth": 32, "columns": 16}


BATCH4 = Config.preset("batch4")
SQUARE = [Config.preset("pynq_z1"), Config.preset("tiny"), replace(BATCH4, block_in=BATCH4.block_out)]


@pytest.mark.parametrize("config", SQUARE, ids=["pynq_z1", "tiny", "batch4"])
def test_results_of_a_dense_layer_are_the_second_factor_as_they_are(config: Config) -> None:
    """A layer makes the heads of all tokens; the product reads its bytes."""
    rng = np.random.default_rng(0)
    layer = dense(config, rows=16, in_features=8, out_features=64)
    x, weight = rng.integers(-128, 128, (16, 8)), rng.integers(-128, 128, (64, 8))
    made = simulate(layer.program, layer.pack(x, weight, multiplier=0.01))
    heads = layer.unpack(made.outputs).reshape(16, 2, 32).transpose(1, 0, 2)
    product = batched_matmul(config, **SHAPE)
    packed = product.pack_inputs(other=heads)["other"]
    assert packed.tobytes() == made.outputs["output"].tobytes()


def test_the_share_of_a_zero_point_needs_the_sums_of_the_second_factor() -> None:
    operator = batched_matmul(Config.preset("tiny"), input_zero_point=-7, **SHAPE)
    rng = np.random.default_rng(0)
    a, b = rng.integers(-128, 128, (2, 5, 32)), rng.integers(-128, 128, (2, 16, 32))
    with pytest.raises(TemplateError) as refused:
        operator.pack_constants(0.01)
    rule = "batched_matmul: sums of the second factor must be given with a zero point, got None"
    assert str(refused.value) == rule
    apart = operator.pack_inputs(a) | operator.pack_inputs(other=b) | operator.pack_constants(0.01, b.sum(axis=2))
    together = operator.pack(a, b, 0.01)
    assert apart.keys() == together.keys()
    for name, array in apart.items():
        np.testing.assert_array_equal(array, together[name])


@pytest.mark.parametrize("config", SQUARE[:2], ids=["pynq_z1", "tiny"])
def test_a_chain_multiplies_the_results_of_two_layers(config: Config) -> None:
    """Queries and keys of two heads, and their scores, in one program."""
    rng, factor = np.random.default_rng(0), float(np.float32(0.01))
    layer = dense(config, rows=16, in_features=8, out_features=64)
    product = batched_matmul(config, batch=2, rows=16, depth=32, columns=16)
    steps = [
        ChainStep("keys", layer, {"data": "x", "output": "k"}),
        ChainStep("queries", layer, {"data": "x", "output": "q"}),
        ChainStep("scores", product, {"data": "q", "other": "k", "output": "s"}),
    ]
    chain = Chain(config, "attention", steps, ("s",))
    x, weights = rng.integers(-128, 128, (16, 8)), rng.integers(-128, 128, (2, 64, 8))
    arrays = chain.pack_input("x", x) | chain.pack_constants("scores", 0.01)
    for name, weight in zip(("keys", "queries"), weights, strict=True):
        arrays |= chain.pack_constants(name, weight, multiplier=0.01)
    found = chain.unpack("s", simulate(chain.program, arrays).outputs)

    def rounded(sums: np.ndarray) -> np.ndarray:
        return np.clip(np.rint(sums * factor), -128, 127)

    k, q = (rounded(x @ weight.T).reshape(16, 2, 32).transpose(1, 0, 2) for weight in weights)
    np.testing.assert_array_equal(found, rounded(q @ k.transpose(0, 2, 1)))
