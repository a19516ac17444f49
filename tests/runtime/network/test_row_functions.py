# SPDX-License-Identifier: Apache-2.0
"""Softmax and norms of networks, on machines with plug-ins that compute them and without."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import vdla
from vdla import definitions, te
from vdla.compiler.graph.accelerator import ACCELERATED, REGION
from vdla.hardware.config import Config
from vdla.networks.vision_transformer import vit_small
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.network.evaluator import Evaluator
from vdla.runtime.network.plug_in_choice import PlugInChoice
from vdla.runtime.network.quantise import quantise

PLAIN = Config.preset("pynq_z1")
SIZES = {"image": 32, "patch": 8, "width": 32, "depth": 1, "heads": 2, "classes": 10}
IMAGES = [{"image": image} for image in np.random.default_rng(0).normal(0, 1, (2, 1, 3, 32, 32)).astype(np.float32)]


@pytest.fixture(scope="module")
def quantised():
    return quantise(vit_small(**SIZES), calibration=IMAGES).graph


def compiled(graph, machine):
    """A model, and the graph whose nodes have devices."""
    seen = {}
    model = compile_network(graph, machine, certify=False, observe=lambda name, _, after: seen.update({name: after}))
    return model, seen


def test_a_machine_with_plug_ins_computes_softmax_and_norms_in_integers(quantised):
    model, seen = compiled(quantised, vdla.extend(PLAIN, "softmax", "norm"))
    ops = Counter(node.op for node in seen["for_machine"].nodes)
    assert (ops["vdla.QRowSoftmax"], ops["vdla.QRowNorm"], ops["Softmax"]) == (1, 2, 0)
    with model:
        result = model.run(IMAGES[0])
    wanted = Evaluator(seen["for_machine"], prefer="definition").run(IMAGES[0])
    floats = Evaluator(seen["simplify_integers"], prefer="definition").run(IMAGES[0])
    for name, array in result.outputs.items():
        np.testing.assert_array_equal(array, wanted[name])
        assert np.abs(array - floats[name]).max() < 0.02 * np.abs(floats[name]).max()


def test_a_block_is_one_program_where_the_machine_lays_out_factors_too(quantised):
    machine = vdla.extend(PLAIN, "softmax", "norm", "transpose", "lut")
    model, seen = compiled(quantised, machine)
    regions = [node.attributes[REGION] for node in seen["partition"].nodes if node.op == ACCELERATED]
    block = next(region for region in regions if len(region.calls) > 10)
    ops = Counter(node.op for node, _, _ in block.calls)
    assert (ops["vdla.QRowSoftmax"], ops["vdla.QRowNorm"], ops["vdla.QFactor"], ops["vdla.QMatMul"]) == (1, 2, 2, 2)
    assert (ops["vdla.QTable"], ops["vdla.QDense"], ops["vdla.QAdd"]) == (1, 6, 2)
    with model:
        result = model.run(IMAGES[0])
    wanted = Evaluator(seen["for_machine"], prefer="definition").run(IMAGES[0])
    for name, array in result.outputs.items():
        np.testing.assert_array_equal(array, wanted[name])


def test_factors_of_attention_have_no_zero_points(quantised):
    _, seen = compiled(quantised, vdla.extend(PLAIN, "softmax"))
    products = [node for node in seen["for_machine"].nodes if node.op == "vdla.QMatMul"]
    assert [(node.attributes["a_zero_point"], node.attributes["b_zero_point"]) for node in products] == [(0, 0)] * 2
    before = [node for node in seen["machine_rounding"].nodes if node.op == "vdla.QMatMul"]
    assert any(node.attributes["a_zero_point"] for node in before)


def test_a_machine_without_them_has_floats(quantised):
    _, seen = compiled(quantised, PLAIN)
    ops = Counter(node.op for node in seen["for_machine"].nodes)
    assert (ops["Softmax"], ops["LayerNormalization"]) == (1, 3)
    assert not any(op.startswith("vdla.QRow") for op in ops)


def failing(config):
    """An instruction whose author expects windows of every layer."""
    x = te.placeholder((config.batch, config.block_out), config.inp_dtype, "x")
    return vdla.Extension(
        name="failing",
        doc="Copies elements.",
        output=te.compute(x.shape, lambda b, o: te.cast("int32", x[b, o]), "acc"),
        scopes={"x": "inp", "acc": "acc"},
        program=lambda layer, config: layer.options["kernel"],
    )


@pytest.mark.parametrize(("source", "accepted"), [("softmax", True), ("norm", False), (failing, False)])
def test_only_plug_ins_with_a_program_are_asked_for_it(source, accepted):
    made = definitions.row_softmax(matrices=1, rows=4, keys=16, factor=1)
    choice = PlugInChoice(vdla.extend(PLAIN, source), None, None)
    assert choice.accepts(made) is accepted
