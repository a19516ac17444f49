# SPDX-License-Identifier: Apache-2.0
"""Writes jax.zip: functions and layers of JAX through jax2onnx.

pip install jax jax2onnx onnxruntime
PYTHONPATH=. python tests/zoo/export_jax.py
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, nn
from jax2onnx import to_onnx

from vdla.verification.zoo.archive import FOLDER, Entry, Input, Writer, onnxruntime_outputs, without_traces

Function = Callable[..., object]
Shapes = tuple[tuple[int, ...], ...]
RNG = np.random.default_rng(0)


def weights(*shape: int) -> np.ndarray:
    """Weights that keep the variance of what passes through them."""
    fan_in = int(np.prod(shape[:-1]))
    return (RNG.standard_normal(shape) / np.sqrt(max(fan_in, 1))).astype(np.float32)


def convolution(
    kernel: np.ndarray, stride: int = 1, padding: str = "SAME", groups: int = 1, dilation: int = 1
) -> Function:
    """A convolution of images with the channels last, as layers of Flax write it."""

    def apply(x: jax.Array) -> jax.Array:
        return lax.conv_general_dilated(
            x,
            kernel,
            (stride, stride),
            padding,
            rhs_dilation=(dilation, dilation),
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=groups,
        )

    return apply


def convnet(act: Function) -> Function:
    first, second, last = convolution(weights(3, 3, 3, 16), 2), convolution(weights(3, 3, 16, 32)), weights(32, 10)

    def apply(x: jax.Array) -> jax.Array:
        return act(second(act(first(x)))).mean((1, 2)) @ last

    return apply


def residual() -> Function:
    first, second = convolution(weights(3, 3, 16, 16)), convolution(weights(3, 3, 16, 16))
    scale, shift = weights(16) + 1, weights(16)

    def norm(x: jax.Array) -> jax.Array:
        return (x - 0.1) * lax.rsqrt(jnp.float32(1.2)) * scale + shift

    return lambda x: nn.relu(x + norm(second(nn.relu(norm(first(x))))))


def separable() -> Function:
    depthwise, pointwise = convolution(weights(3, 3, 1, 16), groups=16), convolution(weights(1, 1, 16, 32))
    return lambda x: nn.relu6(pointwise(nn.relu6(depthwise(x))))


def perceptron(act: Function) -> Function:
    first, bias, last = weights(16, 32), weights(32), weights(32, 10)
    return lambda x: nn.softmax(act(x @ first + bias) @ last)


def layer_norm(x: jax.Array) -> jax.Array:
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5)


def encoder() -> Function:
    query, key, value, out = (weights(32, 32) for _ in range(4))
    wide, narrow = weights(32, 64), weights(64, 32)

    def heads(x: jax.Array) -> jax.Array:
        return x.reshape(x.shape[0], x.shape[1], 4, 8)

    def apply(x: jax.Array) -> jax.Array:
        inner = layer_norm(x)
        scores = jnp.einsum("bqhd,bkhd->bhqk", heads(inner @ query), heads(inner @ key)) / np.sqrt(np.float32(8))
        mixed = jnp.einsum("bhqk,bkhd->bqhd", nn.softmax(scores), heads(inner @ value)).reshape(x.shape)
        x = x + mixed @ out
        return x + nn.gelu(layer_norm(x) @ wide) @ narrow

    return apply


def causal() -> Function:
    query, key, value = (weights(16, 16) for _ in range(3))

    def apply(x: jax.Array) -> jax.Array:
        scores = (x @ query) @ jnp.swapaxes(x @ key, 1, 2) / 4
        mask = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
        return nn.softmax(jnp.where(mask, scores, -1e9)) @ (x @ value)

    return apply


def mixer() -> Function:
    tokens, back, wide, narrow = weights(12, 24), weights(24, 12), weights(16, 32), weights(32, 16)

    def apply(x: jax.Array) -> jax.Array:
        x = x + jnp.swapaxes(nn.gelu(jnp.swapaxes(layer_norm(x), 1, 2) @ tokens) @ back, 1, 2)
        return x + nn.gelu(layer_norm(x) @ wide) @ narrow

    return apply


def recurrent() -> Function:
    inner, outer = weights(8, 16), weights(16, 16)

    def apply(x: jax.Array) -> jax.Array:
        state = jnp.zeros((x.shape[0], 16), jnp.float32)
        for step in range(x.shape[1]):
            state = jnp.tanh(x[:, step] @ inner + state @ outer)
        return state

    return apply


def temporal() -> Function:
    kernel = weights(3, 8, 16)

    def apply(x: jax.Array) -> jax.Array:
        return nn.relu(
            lax.conv_general_dilated(
                x, kernel, (1,), [(4, 0)], rhs_dilation=(2,), dimension_numbers=("NWC", "WIO", "NWC")
            )
        )

    return apply


def excited() -> Function:
    down, up = weights(16, 4), weights(4, 16)
    return lambda x: x * nn.sigmoid(nn.relu(x.mean((1, 2)) @ down) @ up)[:, None, None, :]


IMAGE, WIDE, TOKENS = ((1, 16, 16, 3),), ((1, 8, 8, 16),), ((1, 12, 16),)


def functions() -> Iterator[tuple[str, Function, Shapes]]:
    """Name, function, shapes of its inputs."""
    yield from (
        ("convnet_relu", convnet(nn.relu), IMAGE),
        ("convnet_silu", convnet(nn.silu), IMAGE),
        ("convnet_gelu", convnet(nn.gelu), IMAGE),
        ("residual", residual(), WIDE),
        ("separable", separable(), WIDE),
        ("dilated", convolution(weights(3, 3, 16, 16), dilation=2), WIDE),
        ("grouped", convolution(weights(3, 3, 4, 16), groups=4), WIDE),
        ("valid", convolution(weights(3, 3, 16, 16), padding="VALID"), WIDE),
        ("squeeze_excite", excited(), WIDE),
        ("perceptron_relu", perceptron(nn.relu), ((4, 16),)),
        ("perceptron_tanh", perceptron(jnp.tanh), ((4, 16),)),
        ("perceptron_elu", perceptron(nn.elu), ((4, 16),)),
        ("perceptron_leaky", perceptron(nn.leaky_relu), ((4, 16),)),
        ("perceptron_softplus", perceptron(nn.softplus), ((4, 16),)),
        ("encoder", encoder(), ((1, 10, 32),)),
        ("causal", causal(), TOKENS),
        ("mixer", mixer(), TOKENS),
        ("recurrent", recurrent(), ((2, 5, 8),)),
        ("temporal", temporal(), ((1, 20, 8),)),
        ("layer_norm", layer_norm, TOKENS),
        ("concatenate", lambda x, y: jnp.concatenate([nn.relu(x), y[:, ::-1]], -1), TOKENS * 2),
        ("slices", lambda x: x[:, 2:8:2, 4:] - x[:, 3:9:2, :-4], TOKENS),
        ("reductions", lambda x: (x.max(1), x.min(2), x.sum((1, 2)), jnp.argmax(x, -1)), TOKENS),
        ("where_clip", lambda x: jnp.where(x > 0, jnp.clip(x, 0.1, 0.9), jnp.abs(x) ** 1.5), TOKENS),
    )


def main() -> None:
    writer = Writer(FOLDER / "jax.zip")
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("jax2onnx", "jax")]
    for name, function, shapes in functions():
        with writer.attempt(name):
            proto = to_onnx(function, [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes], model_name=name)
            opset = next(item.version for item in proto.opset_import if item.domain in ("", "ai.onnx"))
            parts = zip((item.name for item in proto.graph.input), shapes, strict=True)
            inputs = tuple(Input(label, "float32", shape) for label, shape in parts)
            entry = Entry(f"jax_{name}", "network", ", ".join(versions), opset, inputs)
            content, fed = without_traces(proto), entry.draw()
            outputs = onnxruntime_outputs(content, fed)
            expected = jax.tree.leaves(function(*fed.values()))
            for output, right in zip(outputs, expected, strict=True):
                np.testing.assert_allclose(output, right, rtol=1e-3, atol=1e-3)
            writer.add(entry, content, outputs)
    print(writer.write())


if __name__ == "__main__":
    main()
