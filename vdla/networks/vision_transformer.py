# SPDX-License-Identifier: Apache-2.0
"""ViT-S/16: the small vision transformer (Dosovitskiy et al., 2021, in the size of Touvron et al.).

12 blocks of width 384 with 6 heads, patches of 16 pixels. Normalisation comes first in each branch;
the mean over all patches replaces the class token (Beyer et al., 2022).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vdla.networks.layers import EPSILON, dense
from vdla.networks.network_builder import Dimension, NetworkBuilder

if TYPE_CHECKING:
    from onnx import ModelProto

COLOURS = 3
MLP_RATIO = 4


def vit_small(
    batch: Dimension = 1,
    image: int = 224,
    patch: int = 16,
    width: int = 384,
    depth: int = 12,
    heads: int = 6,
    classes: int = 1000,
    seed: int = 0,
) -> ModelProto:
    """`image` [batch, 3, image, image] to `logits` [batch, classes]; patches divide the image."""
    net = NetworkBuilder("vit_small", seed)
    net.input("image", (batch, COLOURS, image, image))
    x = _patches(net, image, patch, width)
    heads_shape = net.constant("heads.shape", np.array([0, 0, heads, width // heads], np.int64))
    width_shape = net.constant("width.shape", np.array([0, 0, width], np.int64))
    scale = net.constant("attention.scale", np.array((width // heads) ** -0.5, np.float32))
    share = (1 / (2 * depth)) ** 0.5  # a branch's part of the residual stream, so that all add up to about 1
    for index in range(depth):
        name = f"block{index}"
        normal = _layer_norm(net, x, width, f"{name}.norm1")
        y = _attention(net, normal, width, name, (heads_shape, width_shape, scale), share)
        x = net.node("Add", [x, y], f"{name}.add1")
        normal = _layer_norm(net, x, width, f"{name}.norm2")
        x = net.node("Add", [x, _mlp(net, normal, width, name, share)], f"{name}.add2")
    x = _layer_norm(net, x, width, "norm")
    axes = net.constant("patches.axis", np.array([1], np.int64))
    net.node("ReduceMean", [x, axes], "features", keepdims=0)
    return net.model({dense(net, "features", width, classes, "logits"): (batch, classes)})


def _patches(net: NetworkBuilder, image: int, patch: int, width: int) -> str:
    """The embedded patches with their positions, [N, patches, width]."""
    inputs = COLOURS * patch * patch
    weight = net.constant("patches.weight", net.normal((width, COLOURS, patch, patch), (1 / inputs) ** 0.5))
    bias = net.constant("patches.bias", net.uniform(-0.1, 0.1, (width,)))
    net.node("Conv", ["image", weight, bias], "patches", kernel_shape=[patch] * 2, strides=[patch] * 2)
    shape = net.constant("patches.shape", np.array([0, width, -1], np.int64))
    net.node("Reshape", ["patches", shape], "patches.flat")
    net.node("Transpose", ["patches.flat"], "patches.rows", perm=[0, 2, 1])
    positions = net.constant("positions", net.normal((1, (image // patch) ** 2, width), 0.5))
    return net.node("Add", ["patches.rows", positions], "embedding")


def _layer_norm(net: NetworkBuilder, x: str, width: int, name: str) -> str:
    scale = net.constant(f"{name}.weight", net.uniform(0.8, 1.2, (width,)))
    shift = net.constant(f"{name}.bias", net.uniform(-0.2, 0.2, (width,)))
    return net.node("LayerNormalization", [x, scale, shift], name, axis=-1, epsilon=EPSILON)


def _attention(
    net: NetworkBuilder, x: str, width: int, name: str, constants: tuple[str, str, str], share: float
) -> str:
    heads_shape, width_shape, scale = constants
    split = {}
    # Queries and values as [N, heads, patches, size], keys as their transpose.
    for key, perm in (("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3])):
        y = _linear(net, x, width, width, f"{name}.{key}")
        net.node("Reshape", [y, heads_shape], f"{name}.{key}.split")
        split[key] = net.node("Transpose", [f"{name}.{key}.split"], f"{name}.{key}.heads", perm=perm)
    net.node("MatMul", [split["query"], split["key"]], f"{name}.products")
    net.node("Mul", [f"{name}.products", scale], f"{name}.scores")
    net.node("Softmax", [f"{name}.scores"], f"{name}.attention", axis=-1)
    net.node("MatMul", [f"{name}.attention", split["value"]], f"{name}.context")
    net.node("Transpose", [f"{name}.context"], f"{name}.context.rows", perm=[0, 2, 1, 3])
    net.node("Reshape", [f"{name}.context.rows", width_shape], f"{name}.context.joined")
    return _linear(net, f"{name}.context.joined", width, width, f"{name}.output", share)


def _mlp(net: NetworkBuilder, x: str, width: int, name: str, share: float) -> str:
    y = _linear(net, x, width, MLP_RATIO * width, f"{name}.mlp1")
    net.node("Gelu", [y], f"{name}.gelu")
    return _linear(net, f"{name}.gelu", MLP_RATIO * width, width, f"{name}.mlp2", share)


def _linear(net: NetworkBuilder, x: str, inputs: int, outputs: int, name: str, share: float = 1.0) -> str:
    """Matrix product `{name}.product` and bias on [..., inputs]; `share` scales the weights."""
    weight = net.constant(f"{name}.weight", net.normal((inputs, outputs), share / inputs**0.5))
    bias = net.constant(f"{name}.bias", net.uniform(-0.1, 0.1, (outputs,)))
    net.node("MatMul", [x, weight], f"{name}.product")
    return net.node("Add", [f"{name}.product", bias], name)
