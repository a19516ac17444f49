# SPDX-License-Identifier: Apache-2.0
"""Random float ONNX models of convolutions, pools, sums and products; a seed replays a model.

Each node reads earlier tensors, so that there are residual sums, branches and concatenations.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

OPSET = 21
Shape = tuple[int, ...]


@dataclass(slots=True)
class RandomNetwork:
    """`exact_averages`: windows of pools hold 2 or 4 elements, so that float32 averages exactly."""

    seed: int
    length: int = 8
    exact_averages: bool = False
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    shapes: dict[str, Shape] = field(default_factory=dict)

    def build(self) -> onnx.ModelProto:
        """From `image` [N, C, H, W] to `result` [N, M]."""
        rng = np.random.default_rng(self.seed)
        image = (int(rng.integers(1, 3)), int(rng.integers(1, 9)), int(rng.integers(6, 13)), int(rng.integers(6, 13)))
        self.shapes["image"] = image
        steps = (
            self._conv, self._conv, self._depthwise, self._conv_transpose, self._pool, self._pool, self._add, self._add,
            self._concat, self._copy, self._activation,
        )  # fmt: skip
        self._conv(rng)
        for _ in range(self.length - 1):
            steps[rng.integers(len(steps))](rng)
        last = list(self.shapes)[-1]
        self._node("Flatten", [last], self._flat(last), axis=1)
        inputs, outputs = self.shapes[self._last][1], int(rng.integers(1, 12))
        weight = self._constant(rng.normal(0, inputs**-0.5, (inputs, outputs)))
        self._node("MatMul", [self._last, weight], (image[0], outputs))
        graph = helper.make_graph(
            self.nodes,
            f"random{self.seed}",
            [helper.make_tensor_value_info("image", 1, image)],
            [helper.make_tensor_value_info(self._last, 1, self.shapes[self._last])],
            self.constants,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
        onnx.checker.check_model(model, full_check=True)
        return model

    def inputs(self, seed: int) -> dict[str, np.ndarray]:
        """Random images for the model that was built."""
        return {"image": np.random.default_rng([self.seed, seed]).normal(0.2, 1, self.shapes["image"]).astype("f4")}

    # --- tensors

    @property
    def _last(self) -> str:
        return next(reversed(self.shapes))

    def _flat(self, name: str) -> Shape:
        shape = self.shapes[name]
        return shape[0], int(np.prod(shape[1:]))

    def _constant(self, values: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values, np.float32), name))
        return name

    def _integers(self, *values: int) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def _node(self, operator: str, inputs: list[str], shape: Shape, **attributes: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name=f"n{len(self.nodes)}", **attributes))
        self.shapes[name] = tuple(map(int, shape))
        return name

    def _pick(self, rng: np.random.Generator) -> tuple[str, Shape]:
        """An earlier tensor, the last one most often."""
        names = list(self.shapes)
        name = names[-1] if rng.random() < 0.7 else names[rng.integers(len(names))]
        return name, self.shapes[name]

    # --- operators

    def _conv(self, rng: np.random.Generator, depthwise: bool = False) -> None:
        x, (count, channels, *sizes) = self._pick(rng)
        kernel = [int(rng.integers(1, min(4, size + 1))) for size in sizes]
        strides, pads = rng.integers(1, 3, 2).tolist(), rng.integers(0, 2, 4).tolist()
        group = channels if depthwise else 2 if channels % 2 == 0 and rng.random() < 0.3 else 1
        outputs = channels if depthwise else group * int(rng.integers(1, 9))
        shape = (outputs, channels // group, *kernel)
        operands = [x, self._constant(rng.normal(0, (2 / np.prod(shape[1:])) ** 0.5, shape))]
        if rng.random() < 0.6:
            operands.append(self._constant(rng.normal(0, 0.3, outputs)))
        results = [
            (n + pads[at] + pads[2 + at] - kernel[at]) // strides[at] + 1 for at, n in enumerate(sizes)
        ]  # fmt: skip
        known = {"kernel_shape": kernel, "strides": strides, "pads": pads, "group": group}
        self._node("Conv", operands, (count, outputs, *results), **known)
        if rng.random() < 0.6:
            self._activation(rng, newest=True)

    def _depthwise(self, rng: np.random.Generator) -> None:
        self._conv(rng, depthwise=True)

    def _conv_transpose(self, rng: np.random.Generator) -> None:
        x, (count, channels, *sizes) = self._pick(rng)
        if max(sizes) > 12:
            return
        kernel, strides = rng.integers(1, 4, 2).tolist(), rng.integers(1, 3, 2).tolist()
        outputs = int(rng.integers(1, 9))
        weight = self._constant(rng.normal(0, (2 / channels / np.prod(kernel)) ** 0.5, (channels, outputs, *kernel)))
        results = [(n - 1) * s + k for n, s, k in zip(sizes, strides, kernel, strict=True)]
        shape = (count, outputs, *results)
        self._node("ConvTranspose", [x, weight], shape, kernel_shape=kernel, strides=strides)

    def _activation(self, rng: np.random.Generator, newest: bool = False) -> None:
        x, shape = (self._last, self.shapes[self._last]) if newest else self._pick(rng)
        if rng.random() < 0.6:
            self._node("Relu", [x], shape)
        else:
            low, high = sorted(rng.normal(0, 1.5, 2))
            self._node("Clip", [x, self._constant(low), self._constant(high)], shape)

    def _pool(self, rng: np.random.Generator) -> None:
        x, (count, channels, *sizes) = self._pick(rng)
        if min(sizes) < 3:
            return
        is_average = rng.random() < 0.5
        kernel = (rng.integers(1, 3, 2) if is_average and self.exact_averages else rng.integers(1, 4, 2)).tolist()
        strides = rng.integers(1, 3, 2).tolist()
        known: dict[str, Any] = {"kernel_shape": kernel, "strides": strides}
        if not (is_average and self.exact_averages):
            known["pads"] = [int(rng.integers(0, k)) for k in kernel] * 2
        if is_average:
            known["count_include_pad"] = int(rng.integers(2))
        pads = known.get("pads", [0] * 4)
        results = [
            (n + 2 * pads[at] - kernel[at]) // strides[at] + 1 for at, n in enumerate(sizes)
        ]  # fmt: skip
        self._node("AveragePool" if is_average else "MaxPool", [x], (count, channels, *results), **known)

    def _add(self, rng: np.random.Generator) -> None:
        """A residual sum where an earlier tensor has the shape, else a convolution makes one."""
        x, shape = self._pick(rng)
        others = [name for name, known in self.shapes.items() if known == shape and name != x]
        if others:
            other = others[rng.integers(len(others))]
        else:
            weight = self._constant(rng.normal(0, shape[1] ** -0.5, (shape[1], shape[1], 1, 1)))
            other = self._node("Conv", [x, weight], shape, kernel_shape=[1, 1])
        self._node("Add", [x, other] if rng.random() < 0.5 else [other, x], shape)

    def _concat(self, rng: np.random.Generator) -> None:
        x, shape = self._pick(rng)
        alike = [name for name, known in self.shapes.items() if (known[0], *known[2:]) == (shape[0], *shape[2:])]
        other = alike[rng.integers(len(alike))]
        self._node("Concat", [x, other], (shape[0], shape[1] + self.shapes[other][1], *shape[2:]), axis=1)

    def _copy(self, rng: np.random.Generator) -> None:
        x, (count, channels, height, width) = self._pick(rng)
        match rng.integers(4):
            case 0:
                self._node("Transpose", [x], (count, channels, width, height), perm=[0, 1, 3, 2])
            case 1 if height * width <= 144:
                scales = self._constant([1, 1, 2, 2])
                self._node(
                    "Resize", [x, "", scales], (count, channels, 2 * height, 2 * width), mode="nearest",
                    coordinate_transformation_mode="asymmetric", nearest_mode="floor",
                )  # fmt: skip
            case 2:
                pads = self._integers(0, 0, 1, 0, 0, 0, 0, 2)
                self._node("Pad", [x, pads], (count, channels, height + 1, width + 2))
            case _ if height > 2:
                ends = [self._integers(1), self._integers(height - 1), self._integers(2)]
                self._node("Slice", [x, *ends], (count, channels, height - 2, width))
