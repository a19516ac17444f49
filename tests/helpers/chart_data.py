# SPDX-License-Identifier: Apache-2.0
"""What charts show: profiles of small networks, and layers for verdicts on extensions."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

import vdla
from helpers.quantiser import to_qdq
from vdla import te
from vdla.hardware.config import Config
from vdla.networks.registry import NETWORKS
from vdla.runtime.executor.artifact import Artifact
from vdla.runtime.executor.profile import NetworkProfile, profile_of
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.studies.layers import EvaluatedLayer, layer_of

Made = tuple[onnx.ModelProto, dict[str, np.ndarray]]


def ahead() -> Made:
    """A layer that computes long, and one whose weights are loaded meanwhile."""
    rng = np.random.default_rng(0)
    shapes = {"w": (64, 64, 3, 3), "v": (256, 64, 1, 1)}
    weights = [numpy_helper.from_array(rng.normal(0, 0.1, shape).astype("f4"), name) for name, shape in shapes.items()]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "long"),
        helper.make_node("Conv", ["a", "v"], ["y"], "wide", strides=[7, 7]),
    ]
    x, y = (helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", (1, 64, 16, 16)), ("y", None)))
    graph = helper.make_graph(nodes, "ahead", [x], [y], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return onnx.shape_inference.infer_shapes(model), {"x": rng.normal(size=(1, 64, 16, 16)).astype("f4")}


def digits() -> Made:
    """The network for digits, and an image."""
    model = NETWORKS["digits"].build()
    return model, NETWORKS["digits"].inputs(model, seed=1)


def profiled(made: Made, config: Config) -> tuple[Artifact, NetworkProfile]:
    """A network, quantised and compiled, and the profile of a run."""
    model, inputs = made
    with compile_network(to_qdq(model, [inputs]), config) as compiled:
        return compiled.artifact, profile_of(compiled.artifact, [compiled.run(inputs)])


def wide(value: te.Value) -> te.Value:
    return te.cast("int32", value)


def declare_written_out(config: Config) -> vdla.Extension:
    """Distances from a vector of weights, in a step whose sum is written out."""
    lanes, terms = config.block_out, config.block_in
    inp = te.placeholder((config.batch, terms), config.inp_dtype, "inp")
    wgt = te.placeholder((lanes, terms), config.wgt_dtype, "wgt")
    total = lambda b, o: sum(te.abs(wide(inp[b, k]) - wide(wgt[o, k])) for k in range(terms))  # noqa: E731
    output = te.compute((config.batch, lanes), total, "acc")
    scopes = {"inp": "inp", "wgt": "wgt", "acc": "acc"}
    return vdla.Extension(name="unrolled", doc="Distances.", output=output, scopes=scopes)


def declare_product(config: Config) -> vdla.Extension:
    inp = te.placeholder((config.batch, config.block_in), config.inp_dtype, "inp")
    wgt = te.placeholder((config.block_out, config.block_in), config.wgt_dtype, "wgt")
    i = te.reduce_axis(config.block_in, "i")
    product = lambda b, o: te.sum(wide(inp[b, i]) * wide(wgt[o, i]), axis=i)  # noqa: E731
    output = te.compute((config.batch, config.block_out), product, "acc")
    scopes = {"inp": "inp", "wgt": "wgt", "acc": "acc"}
    return vdla.Extension(name="again", doc="As GEMM.", output=output, scopes=scopes)


def dense(terms: int, name: str = "dense") -> EvaluatedLayer:
    return layer_of(name, vdla.definitions.dense(rows=64, in_features=terms, out_features=64).output)


def cheaper_before() -> EvaluatedLayer:
    """A product whose terms are added six times, and the same with one product before."""
    x, w = te.placeholder((64, 32), "int8", "x"), te.placeholder((64, 32), "int8", "w")
    k, again = te.reduce_axis(32, "k"), te.reduce_axis(6, "again")
    once = te.compute((64, 64), lambda n, m: te.sum(wide(x[n, k]) * wide(w[m, k]), axis=k), "y")
    product = lambda n, m: te.sum(wide(x[n, k]) * wide(w[m, k]), axis=[again, k])  # noqa: E731
    return layer_of("cheaper", te.compute((64, 64), product, "y"), once)
