# SPDX-License-Identifier: Apache-2.0
"""Writes paddle.zip: layers and small networks of PaddlePaddle through Paddle2ONNX.

pip install paddlepaddle paddle2onnx onnxruntime
PYTHONPATH=. python tests/zoo/export_paddle.py
"""

from __future__ import annotations

import importlib.metadata
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import paddle
import paddle.nn.functional as F
from paddle import nn

from vdla.verification.zoo.archive import FOLDER, Entry, Input, Writer, onnxruntime_outputs, without_traces

Shapes = tuple[tuple[int, ...], ...]
OPSET = 17


class Function(nn.Layer):
    """A function of a tensor and sub-layers."""

    def __init__(self, function: Callable[..., object], **layers: nn.Layer) -> None:
        super().__init__()
        self.function = function
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, x: paddle.Tensor) -> object:
        return self.function(self, x)


def conv(inputs: int, outputs: int, kernel: int = 3, act: nn.Layer | None = None, **options: object) -> nn.Sequential:
    options = {"padding": kernel // 2, "bias_attr": False} | options
    layers = [nn.Conv2D(inputs, outputs, kernel, **options), nn.BatchNorm2D(outputs)]
    return nn.Sequential(*layers, act if act is not None else nn.ReLU())


def head(channels: int) -> list[nn.Layer]:
    return [nn.AdaptiveAvgPool2D(1), nn.Flatten(), nn.Linear(channels, 10)]


def convnet(act: nn.Layer) -> nn.Layer:
    return nn.Sequential(conv(3, 16, act=act, stride=2), conv(16, 32, act=act), *head(32))


def residual() -> nn.Layer:
    body = nn.Sequential(conv(16, 16), conv(16, 16, act=nn.Identity()))
    return Function(lambda self, x: F.relu(self.body(x) + x), body=body)


def separable(act: nn.Layer) -> nn.Layer:
    return nn.Sequential(conv(16, 16, act=act, groups=16), conv(16, 32, 1, act=act))


def excited() -> nn.Layer:
    def apply(self: nn.Layer, x: paddle.Tensor) -> paddle.Tensor:
        return x * F.hardsigmoid(self.up(F.relu(self.down(F.adaptive_avg_pool2d(x, 1)))))

    return Function(apply, down=nn.Conv2D(16, 4, 1), up=nn.Conv2D(4, 16, 1))


def pyramid() -> nn.Layer:
    def apply(self: nn.Layer, x: paddle.Tensor) -> paddle.Tensor:
        deep = self.deep(x)
        return self.join(paddle.concat([x, F.interpolate(deep, size=[8, 8], mode="nearest")], axis=1))

    return Function(apply, deep=conv(16, 16, stride=2), join=conv(32, 16, 1))


def shuffled() -> nn.Layer:
    def apply(self: nn.Layer, x: paddle.Tensor) -> paddle.Tensor:
        one, two = paddle.split(x, 2, axis=1)
        joined = paddle.concat([one, self.branch(two)], axis=1)
        n, c, h, w = joined.shape
        return joined.reshape([n, 2, c // 2, h, w]).transpose([0, 2, 1, 3, 4]).reshape([n, c, h, w])

    return Function(apply, branch=conv(8, 8))


def perceptron(act: nn.Layer) -> nn.Layer:
    return nn.Sequential(nn.Linear(16, 32), act, nn.Linear(32, 10), nn.Softmax())


def attention() -> nn.Layer:
    def apply(self: nn.Layer, x: paddle.Tensor) -> paddle.Tensor:
        query, key, value = (getattr(self, name)(x) for name in ("query", "key", "value"))
        scores = F.softmax(paddle.matmul(query, key, transpose_y=True) / 4.0, axis=-1)
        return x + self.out(paddle.matmul(scores, value))

    names = ("query", "key", "value", "out")
    return Function(apply, **{name: nn.Linear(16, 16) for name in names})


def mixer() -> nn.Layer:
    def apply(self: nn.Layer, x: paddle.Tensor) -> paddle.Tensor:
        x = x + self.tokens(self.first(x).transpose([0, 2, 1])).transpose([0, 2, 1])
        return x + self.wide(self.second(x))

    return Function(
        apply,
        first=nn.LayerNorm(16),
        second=nn.LayerNorm(16),
        tokens=nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Linear(24, 12)),
        wide=nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)),
    )


def boxes(self: nn.Layer, x: paddle.Tensor) -> tuple[paddle.Tensor, ...]:
    """Centres and sides to corners, and scores, as heads of detectors write them."""
    y = self.head(x).flatten(2).transpose([0, 2, 1])
    centre, side, score = y[:, :, 0:2], y[:, :, 2:4].exp(), F.sigmoid(y[:, :, 4:])
    return paddle.concat([centre - side / 2, centre + side / 2], axis=-1), score


IMAGE, WIDE, TOKENS, VECTOR = ((1, 3, 16, 16),), ((1, 16, 8, 8),), ((1, 12, 16),), ((4, 16),)


def networks() -> Iterator[tuple[str, Callable[[], nn.Layer], Shapes]]:
    """Name, what makes the network, shapes of its inputs."""

    def function(apply: Callable[..., object]) -> Callable[[], nn.Layer]:
        return lambda: Function(lambda _, x: apply(x))

    acts = {"relu": nn.ReLU, "hard_swish": nn.Hardswish, "silu": nn.Silu, "relu6": nn.ReLU6}
    for name, act in acts.items():
        yield f"convnet_{name}", lambda act=act: convnet(act()), IMAGE
    for name, act in {"relu": nn.ReLU, "tanh": nn.Tanh, "elu": nn.ELU, "mish": nn.Mish, "gelu": nn.GELU}.items():
        yield f"perceptron_{name}", lambda act=act: perceptron(act()), VECTOR
    yield from (
        ("residual", residual, WIDE),
        ("separable", lambda: separable(nn.Hardswish()), WIDE),
        ("squeeze_excite", excited, WIDE),
        ("pyramid", pyramid, WIDE),
        ("shuffled", shuffled, WIDE),
        ("grouped", lambda: conv(16, 32, groups=4), WIDE),
        ("dilated", lambda: conv(16, 16, dilation=2, padding=2), WIDE),
        ("transposed", lambda: nn.Sequential(nn.Conv2DTranspose(16, 8, 2, stride=2), nn.ReLU()), WIDE),
        ("temporal", lambda: nn.Sequential(nn.Conv1D(16, 32, 3, padding=1), nn.ReLU()), ((1, 16, 20),)),
        ("pools", lambda: nn.Sequential(nn.MaxPool2D(3, 2, 1), nn.AvgPool2D(2)), WIDE),
        ("instance_norm", lambda: nn.Sequential(nn.Conv2D(16, 8, 1), nn.InstanceNorm2D(8)), WIDE),
        ("group_norm", lambda: nn.Sequential(nn.Conv2D(16, 8, 1), nn.GroupNorm(2, 8)), WIDE),
        ("prelu", lambda: nn.Sequential(nn.Conv2D(16, 8, 3), nn.PReLU(8)), WIDE),
        ("attention", attention, TOKENS),
        ("mixer", mixer, TOKENS),
        ("embedding", lambda: Function(lambda self, x: self.table(x.abs().astype("int64")), table=nn.Embedding(9, 16)),
         ((2, 5),)),
        ("gru", lambda: Function(lambda self, x: self.cell(x)[0], cell=nn.GRU(8, 16)), ((1, 6, 8),)),
        ("lstm", lambda: Function(lambda self, x: self.cell(x)[0], cell=nn.LSTM(8, 16)), ((1, 6, 8),)),
        ("boxes", lambda: Function(boxes, head=nn.Conv2D(16, 9, 1)), WIDE),
        ("bilinear", function(lambda x: F.interpolate(x, size=[12, 20], mode="bilinear", align_corners=True)), WIDE),
        ("pads", function(lambda x: F.pad(x, [1, 2, 0, 1], mode="reflect")), WIDE),
        ("slices", function(lambda x: x[:, 2:8:2, 4:] - x[:, 3:9:2, :-4]), TOKENS),
        ("reductions", function(lambda x: (x.max(1), x.mean(2), x.sum([1, 2]), x.argmax(-1))), TOKENS),
        ("where", function(lambda x: paddle.where(x > 0, x.clip(0.1, 0.9), x.abs() ** 1.5)), TOKENS),
        ("top_k", function(lambda x: x.topk(3, axis=-1)), TOKENS),
        ("gather", function(lambda x: x.index_select(paddle.to_tensor([2, 0, 5]), axis=1)), TOKENS),
    )  # fmt: skip


def exported(network: nn.Layer, shapes: Shapes) -> onnx.ModelProto:
    """The model as Paddle2ONNX writes it."""
    given = [paddle.static.InputSpec(shape, "float32", f"x{i}") for i, shape in enumerate(shapes)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        try:
            paddle.onnx.export(network, str(path), input_spec=given, opset_version=OPSET)
        except SystemExit:  # what it raises for what it cannot convert, with its reason on the console
            raise RuntimeError("Paddle2ONNX declines the network") from None
        return onnx.load(path.with_suffix(".onnx"))


def main() -> None:
    writer = Writer(FOLDER / "paddle.zip")
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("paddle2onnx", "paddlepaddle")]
    for index, (name, make, shapes) in enumerate(networks()):
        with writer.attempt(name):
            paddle.seed(index)
            network = make()
            network.eval()
            proto = exported(network, shapes)
            opset = next(item.version for item in proto.opset_import if item.domain in ("", "ai.onnx"))
            labels = [item.name for item in proto.graph.input]
            inputs = tuple(Input(*part) for part in zip(labels, ["float32"] * len(labels), shapes, strict=True))
            entry = Entry(f"paddle_{name}", "network", ", ".join(versions), opset, inputs)
            content, fed = without_traces(proto), entry.draw()
            outputs = onnxruntime_outputs(content, fed)
            results = network(*map(paddle.to_tensor, fed.values()))
            expected = results if isinstance(results, list | tuple) else [results]
            for output, right in zip(outputs, expected, strict=True):
                np.testing.assert_allclose(output, right.numpy(), rtol=1e-3, atol=1e-3)
            writer.add(entry, content, outputs)
    print(writer.write())


if __name__ == "__main__":
    main()
