# SPDX-License-Identifier: Apache-2.0
"""Instructions that the mapper finds in layers of networks, against the operators' definitions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vdla
from vdla.benchmarks.evaluate.networks import in_network
from vdla.compiler.extensions import ExtensionError, NetworkLayer, extend
from vdla.compiler.graph.machine.layer_call import ROW_REDUCTIONS
from vdla.compiler.graph.passes import fuse_qdq
from vdla.hardware.config import Config
from vdla.networks import gallery
from vdla.networks.binary_resnet import binary_resnet18
from vdla.networks.network_builder import NetworkBuilder
from vdla.networks.quantised_values import requantised
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.network.evaluator import evaluate
from vdla.runtime.network.import_network import import_network
from vdla.runtime.network.plug_in_choice import PlugInChoice
from vdla.runtime.network.quantise import quantise

EXAMPLES = Path(__file__).parents[3] / "examples"
PYNQ, ULTRA = Config.preset("pynq_z1"), Config.preset("ultra96")
NARROW = replace(PYNQ, wgt_bits=4)
SIGNS = partial(gallery.perceptron, weights=gallery.signs, activation="Sign")
FOUR = partial(gallery.perceptron, weights=gallery.four_bits)
SPARSE = partial(gallery.perceptron, weights=gallery.two_of_four)
BLOCKS = partial(gallery.perceptron, weights=gallery.blocks_of_fifteen)
PLANES = partial(gallery.perceptron, weights=gallery.signs)


def example(name: str) -> Path:
    return EXAMPLES / name / f"{name}.py"


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "network", "machine"),
    [
        pytest.param("max_pool", gallery.sound, PYNQ, id="max_pool"),
        pytest.param("max_pool", partial(gallery.sound, samples=517, width=21), PYNQ, id="max_pool_odd"),
        pytest.param("max_pool", partial(gallery.sound, samples=4099, width=48), ULTRA, id="max_pool_ultra96"),
        pytest.param("int4", partial(FOUR, features=(256, 256, 16)), PYNQ, id="int4"),
        pytest.param("int4", partial(FOUR, features=(250, 259, 13)), PYNQ, id="int4_odd"),
        pytest.param("int4", partial(FOUR, features=(1024, 1024, 16)), ULTRA, id="int4_ultra96"),
        pytest.param("sparse", partial(SPARSE, features=(256, 300, 16)), PYNQ, id="sparse"),
        pytest.param("sparse", partial(SPARSE, features=(1004, 1028, 9)), ULTRA, id="sparse_odd"),
        pytest.param("bit_serial", partial(PLANES, features=(256, 200, 16)), PYNQ, id="bit_serial"),
        pytest.param("xnor", partial(SIGNS, features=(64, 1024, 1024, 16)), PYNQ, id="xnor"),
        pytest.param("xnor", partial(SIGNS, features=(64, 1000, 1016, 7)), PYNQ, id="xnor_odd"),
        pytest.param(
            "block_floating", partial(BLOCKS, features=(960, 960, 15)), replace(PYNQ, wgt_bits=4), id="blocks"
        ),
        pytest.param("argmax", gallery.tokens, PYNQ, id="argmax"),
        pytest.param("sad", gallery.codebook, PYNQ, id="sad"),
        pytest.param("rms_norm", partial(gallery.tokens, rows=96, width=80, classes=48), PYNQ, id="rms_norm"),
        pytest.param("prelu", partial(gallery.faces, image=14, width=24, features=40), PYNQ, id="prelu"),
        pytest.param("prelu", partial(gallery.faces, image=9, width=20, features=21), ULTRA, id="prelu_odd"),
        pytest.param("softmax", gallery.tokens, PYNQ, id="softmax"),
        pytest.param("hard_swish", gallery.swishes, PYNQ, id="hard_swish"),
        pytest.param("hard_swish", partial(gallery.swishes, image=19, width=56), ULTRA, id="hard_swish_odd"),
    ],
)
def test_an_instruction_runs_layers_exactly(name: str, network: Callable[..., Any], machine: Config) -> None:
    row = in_network(example(name), network(seed=1), 1, machine)
    assert row["applied"] == 1, row["reason"]
    assert (row["wrong"], row["cycles"]) == (0, row["verdict"])


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize(("width", "machine"), [(24, PYNQ), (16, ULTRA)])
def test_a_network_of_binary_convolutions_runs_exactly(width: int, machine: Config) -> None:
    network = binary_resnet18(image=64, width=width, blocks=(1, 1, 0, 1), classes=7, seed=1)
    row = in_network(example("xnor"), network, 1, machine)
    assert (row["applied"], row["operators"], row["wrong"]) == (1, 6, 0), row["reason"]
    assert row["cycles"] < row["before"]
    assert row["cycles"] == row["verdict"]


def reduced(op: str, rows: tuple[int, ...], features: int) -> Any:
    """A number for each row of a dense layer's results."""
    net = NetworkBuilder("reduced", 0)
    x = requantised(net, net.input("rows", (1, *rows, 16)), 1 / 16, "rows")
    x = gallery._rows_product(net, x, (16, features), "dense")
    last = net.constant("last", np.array([-1]))
    if op == "ArgMax":
        return net.model({net.node(op, [x], "y", axis=-1, keepdims=1): (1, *rows, 1)}, "int64")
    if op == "ReduceSumSquare":
        return net.model({net.node(op, [x, last], "y", keepdims=0): (1, *rows)})
    return net.model({net.node(op, [x, last], "y", keepdims=1): (1, *rows, 1)})


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("preset", ["pynq_z1", "tiny", "batch4"])
@pytest.mark.parametrize(("rows", "features"), [((16,), 32), ((3, 7), 21), ((1,), 5)])
@pytest.mark.parametrize(
    ("name", "op"), [("argmax", "ArgMax"), ("rms_norm", "ReduceSumSquare"), ("softmax", "ReduceMax")]
)
def test_numbers_of_rows_of_any_size_are_those_of_the_host(
    name: str, op: str, rows: tuple[int, ...], features: int, preset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PlugInChoice, "_require_faster_than_host", lambda *_: None)
    graph = import_network(reduced(op, rows, features))
    graph = fuse_qdq(graph)
    row = next(node.outputs[0] for node in graph.nodes if node.op in ROW_REDUCTIONS)
    data = {"rows": np.random.default_rng(0).standard_normal((1, *rows, 16)).astype(np.float32)}
    place = {row: "vdla", "dense": "vdla"}
    with compile_network(graph, extend(Config.preset(preset), example(name)), place=place) as made:
        used = {item for step in made.artifact.plan.steps for op in step.placement.operators for item in op.extensions}
        assert used
        wanted, got = evaluate(graph, data, prefer="definition"), made.run(data).outputs
        np.testing.assert_array_equal(got["y"], wanted["y"])


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["pynq_z1", "batch4"])
@pytest.mark.parametrize("sizes", [(37, 50, 21), (1, 5, 3), (16, 64, 40)])
def test_distances_of_any_size_are_those_of_the_host(
    sizes: tuple[int, ...], preset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PlugInChoice, "_require_faster_than_host", lambda *_: None)
    rows, width, codes = sizes
    graph = import_network(gallery.codebook(seed=2, rows=rows, width=width, codes=codes))
    graph = fuse_qdq(graph)
    far = next(node.outputs[0] for node in graph.nodes if node.op == "vdla.QDistances")
    data = {"patches": np.random.default_rng(0).standard_normal((1, rows, width)).astype(np.float32)}
    with compile_network(graph, extend(Config.preset(preset), example("sad")), place={far: "vdla"}) as made:
        used = [op.extensions for step in made.artifact.plan.steps for op in step.placement.operators]
        assert used.count(("sad",)) == 1
        wanted, got = evaluate(graph, data, prefer="definition"), made.run(data).outputs
        np.testing.assert_array_equal(got["nearest"], wanted["nearest"])


def joined(seed: int) -> Any:
    """Two pools whose results one convolution reads behind each other."""
    net = NetworkBuilder("joined", seed)
    x = net.input("sound", (1, 16, 1, 64))
    parts = []
    for part in range(2):
        weight = net.constant(f"conv{part}.weight", net.normal((16, 16, 1, 3), 0.2))
        y = net.node("Conv", [x, weight], f"conv{part}", kernel_shape=[1, 3], pads=[0, 1, 0, 1])
        parts.append(net.node("MaxPool", [y], f"pool{part}", kernel_shape=[1, 4], strides=[1, 4]))
    y = net.node("Concat", parts, "both", axis=1)
    weight = net.constant("last.weight", net.normal((16, 32, 1, 1), 0.2))
    net.node("Conv", [y, weight], "last", kernel_shape=[1, 1])
    return net.model({"last": (1, 16, 1, 16)})


@pytest.mark.slow
def test_results_of_an_instruction_are_joined_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlugInChoice, "_require_faster", lambda *_: None)
    data = np.random.default_rng(0).standard_normal((2, 1, 16, 1, 64)).astype(np.float32)
    graph = quantise(joined(0), calibration=[{"sound": data[0]}]).graph
    place = dict.fromkeys(("conv0", "conv1", "pool0", "pool1", "both", "last"), "vdla")
    with compile_network(graph, extend(PYNQ, example("max_pool")), place=place) as made:
        used = {op.name for step in made.artifact.plan.steps for op in step.placement.operators if op.extensions}
        assert used == {"pool0", "pool1"} and len(made.artifact.programs) == 1
        for sound in data:
            wanted = evaluate(graph, {"sound": sound}, prefer="definition")
            np.testing.assert_array_equal(made.run({"sound": sound}).outputs["last"], wanted["last"])


# --- reasons --------------------------------------------------------------------------------------


def reasons(source: Any, model: Any, machine: Config = PYNQ) -> dict[str, str]:
    """Why the extension does not run an operator, by the name of the operator."""
    with compile_network(model, extend(machine, source)) as made:
        placed = [op for step in made.artifact.plan.steps for op in step.placement.operators]
    return {op.name: op.no_extension for op in placed if op.no_extension}


SMALL = {"seed": 0, "features": (64, 64)}


@pytest.mark.parametrize(
    ("name", "weights", "reason"),
    [
        ("int4", gallery.two_of_four, "have weights of int4, -8 to 7, got -32 to 31"),
        (
            "sparse",
            gallery.four_bits,
            "have a formulation for sparse; weights must have six bits, and two of every four be 0, got others",
        ),
        (
            "bit_serial",
            gallery.four_bits,
            "have a formulation for bit_serial; weights must be odd, and features a multiple of 8, got others",
        ),
        (
            "xnor",
            gallery.signs,
            "have a formulation for xnor; activations and weights must be +1 or -1, and channels a multiple of 8, "
            "got others",
        ),
        (
            "block_floating",
            gallery.signs,
            "have a formulation for block_floating; features must be a multiple of 15, got 64",
        ),
        (
            "sad",
            gallery.signs,
            "fit a program of an extension; the value must have the form abs(int32(inp[vb, vi]) - int32(wgt[vo, vi])), "
            "got int32(data[vm, vk]) * int32(weight[vn, vk])",
        ),
    ],
)
def test_a_layer_that_an_instruction_cannot_run_has_the_reason(
    name: str, weights: gallery.Weights, reason: str
) -> None:
    assert set(reasons(example(name), gallery.perceptron(weights=weights, **SMALL)).values()) == {reason}


def test_an_operator_that_is_no_layer_has_the_reason() -> None:
    net = NetworkBuilder("sums", 0)
    x = net.input("image", (1, 16, 8, 8))
    weight = net.constant("weight", net.normal((16, 16, 1, 1), 0.2))
    net.node("Add", [net.node("Conv", [x, weight], "conv", kernel_shape=[1, 1]), x], "sum")
    data = net.normal((1, 16, 8, 8), 1.0)
    graph = quantise(net.model({"sum": (1, 16, 8, 8)}), calibration=[{"image": data}]).graph
    rule = "be a convolution, a product with constant weights or by channel, a maximum, a row's number, or a table"
    assert reasons(example("max_pool"), graph)["sum"] == f"{rule}, got QAdd"


# --- steps behind products ------------------------------------------------------------------------


def multiples(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Weights in -3..3, times a factor of their channel."""
    return (rng.integers(-3, 4, shape) * rng.choice([1, 5, 12, 37], (shape[0], 1))).astype(np.int8)


def stretched(layer: NetworkLayer, config: Config) -> Any:
    """Weights without the common factor of their channel, which multiplies sums."""
    if "weight" not in layer.constants:
        raise vdla.LayerError("a layer with weights")
    data, weight = layer.definition.inputs[:2]
    plain = layer.constants["weight"].astype(np.int64)
    common = np.maximum(np.gcd.reduce(plain, axis=1), 1)
    k = vdla.te.reduce_axis(weight.shape[1], "k")
    factor = vdla.te.placeholder((weight.shape[0],), "int8", "factor")
    quotient = vdla.te.placeholder(weight.shape, "int8", "quotient")
    wide = partial(vdla.te.cast, "int32")
    shape = layer.definition.output.shape
    sums = vdla.te.compute(shape, lambda n, m: vdla.te.sum(wide(data[n, k]) * wide(quotient[m, k]), axis=k), "product")
    whole = vdla.te.compute(shape, lambda n, m: sums[n, m] * wide(factor[m]), "whole")
    constants = {"factor": common.astype(np.int8), "quotient": (plain // common[:, None]).astype(np.int8)}
    return vdla.Formulation(vdla.definitions.requantised(whole, 1)[1], constants)


def declare_stretch(config: Config) -> Any:
    """Sums times a factor of their lane."""
    sums = vdla.te.placeholder((config.batch, config.block_out), "int32", "sums")
    factor = vdla.te.placeholder((config.block_out,), config.wgt_dtype, "factor")
    value = vdla.te.compute(sums.shape, lambda b, o: sums[b, o] * vdla.te.cast("int32", factor[o]), "acc")
    scopes = {"sums": "acc", "factor": "wgt", "acc": "acc"}
    return vdla.Extension(
        name="stretch", doc="Own.", output=value, scopes=scopes, in_place="sums", formulation=stretched
    )


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["pynq_z1", "batch4"])
@pytest.mark.parametrize("features", [(48, 64, 32), (50, 37, 9)])
def test_a_factor_for_each_channel_follows_a_product(
    features: tuple[int, ...], preset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PlugInChoice, "_require_faster", lambda *_: None)
    graph = import_network(gallery.perceptron(weights=multiples, features=features))
    data = {"features": np.random.default_rng(0).standard_normal((1, features[0])).astype(np.float32)}
    machine = extend(Config.preset(preset), declare_stretch)
    dense = {node.name: "vdla" for node in fuse_qdq(graph).nodes if node.op == "vdla.QDense"}
    with compile_network(graph, machine, place=dense) as made:
        used = [op.extensions for step in made.artifact.plan.steps for op in step.placement.operators]
        assert used.count(("stretch",)) == len(features) - 1
        wanted, got = evaluate(graph, data, prefer="definition"), made.run(data).outputs
        for name, values in wanted.items():
            np.testing.assert_array_equal(got[name], values)


# --- formulations ---------------------------------------------------------------------------------


def formulating(formulation: Any) -> Any:
    """The instruction of sparse products with another formulation."""
    names: dict[str, Any] = {}
    exec(compile(example("sparse").read_text(), str(example("sparse")), "exec"), names)

    def declare(config: Config) -> Any:
        return replace(names["declare"](config), formulation=formulation)

    return declare


def other_inputs(layer: NetworkLayer, config: Config) -> Any:
    x = vdla.te.placeholder((1, 64), "int8", "others")
    return vdla.Formulation(vdla.te.compute(layer.definition.output.shape, lambda n, m: x[n, m], "result"))


def other_constants(layer: NetworkLayer, config: Config) -> Any:
    x = vdla.te.placeholder((1, 64), "int8", "w")
    output = vdla.te.compute(layer.definition.output.shape, lambda n, m: x[n, m], "result")
    return vdla.Formulation(output, {"w": np.full((1, 64), 200)})


def other_bits(layer: NetworkLayer, config: Config) -> Any:
    x = vdla.te.placeholder((1, 64), "int8", "bits")
    output = vdla.te.compute(layer.definition.output.shape, lambda n, m: x[n, m], "result")
    return vdla.Formulation(output, bits={"bits": "data"})


def other_packed(layer: NetworkLayer, config: Config) -> Any:
    x, data = vdla.te.placeholder((1, 64), "int8", "packed"), layer.definition.inputs[0]
    output = vdla.te.compute(layer.definition.output.shape, lambda n, m: x[n, m], "result")
    return vdla.Formulation(output, packed=[vdla.te.compute((1, 64), lambda n, k: data[n, k] + data[n, k], "packed")])


def bits_of_computed(layer: NetworkLayer, config: Config) -> Any:
    return replace(other_packed(layer, config), bits={"packed": "packed"})


def bits_of_short_rows(layer: NetworkLayer, config: Config) -> Any:
    x, data = vdla.te.placeholder((16,), "int8", "bits"), layer.definition.inputs[0]
    output = vdla.te.compute(layer.definition.output.shape, lambda n, m: x[m // 4], "result")
    rows = vdla.te.compute((16, 4), lambda n, k: data[0, 4 * n + k], "rows")
    return vdla.Formulation(output, bits={"bits": "rows"}, packed=[rows])


def wrong_weights(layer: NetworkLayer, config: Config) -> Any:
    source: dict[str, Any] = {}
    exec((example("sparse").parent / "layer.py").read_text(), source)
    made = source["formulation"](layer, config)
    return replace(made, constants={"pairs": made.constants["pairs"] ^ 4})


@pytest.mark.parametrize(
    ("formulation", "rule"),
    [
        (lambda layer, config: None, r"formulation of sparse must return a vdla.Formulation, got None$"),
        (
            lambda layer, config: vdla.Formulation(layer.definition.inputs[0]),
            r"formulation of sparse must have the layer's result, int8\[1, 32\], got int8\[1, 64\]$",
        ),
        (other_inputs, r"formulation of sparse: input others must be one of data, weight, scale, got an unknown name$"),
        (other_constants, r"constant w must be an array of int8\[1, 64\], got int64\[1, 64\], 200 to 200$"),
        (other_bits, r"bits bits must be int8\[1, 8\] of a multiple of 8 elements, got int8\[1, 64\]$"),
        (
            other_packed,
            r"packed packed must have elements of one input of the layer, or constants, got another computation$",
        ),
        (
            bits_of_computed,
            r"packed packed must have elements of one input of the layer, or constants, got another computation$",
        ),
        (bits_of_short_rows, r"bits bits must be int8\[16, 0\] of a multiple of 8 elements, got int8\[16\]$"),
        (lambda layer, config: layer.nothing, r"AttributeError: 'NetworkLayer' object has no attribute 'nothing'"),
        (wrong_weights, r"result\[.*\] must be -?[0-9]+, by the definition of vdla.QDense, got .* elements differ$"),
    ],
)
def test_a_formulation_that_is_wrong_is_refused(formulation: Any, rule: str) -> None:
    model = import_network(gallery.perceptron(weights=gallery.two_of_four, features=(64, 32)))
    with pytest.raises(ExtensionError, match=rule):
        compile_network(model, extend(PYNQ, formulating(formulation)))
