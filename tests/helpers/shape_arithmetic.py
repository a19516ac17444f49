# SPDX-License-Identifier: Apache-2.0
"""Random networks whose shapes follow from arithmetic on constants, written so that only evaluating
the constants tells the shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_RANK = 3


class ShapeArithmetic:
    """A network of x [2, 3, 4] and its results, as far as it has been written."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.in_branch = False
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.value, self.shape = "x", (2, 3, 4)

    def model(self, steps: int, in_branch: bool = False) -> onnx.ModelProto:
        """A network of that many steps, all of which are in a branch of an If where asked for."""
        self.in_branch = in_branch
        for _ in range(steps):
            self._step()
        self.value = self.node("Neg", [self.value])
        nodes, inputs = self.nodes, [_info("x", TensorProto.FLOAT, (2, 3, 4))]
        if in_branch:
            other = helper.make_graph([helper.make_node("Identity", ["x"], ["o"])], "other", [], [_info("o")])
            branch = helper.make_graph(self.nodes, "branch", [], [_info(self.value)])
            choice = helper.make_node("If", ["choice"], ["r"], then_branch=branch, else_branch=other)
            nodes, self.value = [choice, helper.make_node("Neg", ["r"], ["y"])], "y"
            inputs.append(_info("choice", TensorProto.BOOL, ()))
        graph = helper.make_graph(nodes, "shapes", inputs, [_info(self.value)], self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)

    def node(self, op: str, inputs: Sequence[str], outputs: int = 1, **attributes: Any) -> str:
        """A node; its first result."""
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        return names[0]

    def constant(self, value: Any) -> str:
        """A constant."""
        self.constants.append(numpy_helper.from_array(np.asarray(value), f"c{len(self.constants)}"))
        return self.constants[-1].name

    # --- constants in disguise

    def numbers(self, value: Any, depth: int = 2) -> str:
        """The name of int64 numbers that nodes compute."""
        value = np.asarray(value, np.int64)
        match int(self.rng.integers(8)) if depth else -1:
            case 0:
                return self.node("Cast", [self.constant(value.astype(np.float32))], to=TensorProto.INT64)
            case 1:
                factor = int(self.rng.integers(1, 5))
                return self.node("Div", [self.numbers(value * factor, depth - 1), self.constant(np.int64(factor))])
            case 2:
                moved = self.rng.integers(-4, 5, value.shape)
                return self.node("Sub", [self.numbers(value + moved, depth - 1), self.numbers(moved, depth - 1)])
            case 3:
                return self.node("Mul", [self.numbers(value, depth - 1), self.numbers(1, depth - 1)])
            case 4 if value.ndim:
                found = self.rng.permutation(len(value) + 2)
                table = np.zeros(len(found), np.int64)
                table[found[: len(value)]] = value
                return self.node("Gather", [self.numbers(table, depth - 1), self.constant(found[: len(value)])])
            case 5 if value.ndim:
                parts = [self.numbers(value[i : i + 1], depth - 1) for i in range(len(value))]
                return self.node("Concat", parts, axis=0)
            case 6 if value.ndim:
                longer = self.numbers([7, *value, 9], depth - 1)
                return self.node("Slice", [longer, self.constant([1]), self.constant([len(value) + 1])])
            case 7 if value.shape == (1,):
                return self.node("Unsqueeze", [self.numbers(value[0], depth - 1), self.constant([0])])
            case 7 if value.shape == (_RANK,):
                own = self.node("Shape", [self.value])
                return self.node("Add", [own, self.numbers(value - self.shape, depth - 1)])
            case _:
                return self.constant(value)

    # --- steps

    def _step(self) -> None:
        """A node whose result has a shape that numbers decide, and one that computes with it."""
        steps = (
            self._slice, self._pad, self._reshape, self._expand, self._tile, self._resize, self._range, self._top,
            self._split, self._squeeze,
        )  # fmt: skip
        steps[int(self.rng.integers(len(steps)))]()
        if self.rng.integers(2):
            self.value = self.node("Relu" if self.rng.integers(2) else "Abs", [self.value])

    def _axis(self) -> int:
        return int(self.rng.integers(_RANK))

    def _set(self, axis: int, extent: int) -> None:
        self.shape = (*self.shape[:axis], extent, *self.shape[axis + 1 :])

    def _slice(self) -> None:
        axis = self._axis()
        start = int(self.rng.integers(self.shape[axis]))
        end = int(self.rng.integers(start, self.shape[axis])) + 1
        operands = [self.numbers([number]) for number in (start, end, axis)]
        self.value = self.node("Slice", [self.value, *operands])
        self._set(axis, end - start)

    def _pad(self) -> None:
        pads = self.rng.integers(0, 2, 2 * _RANK)
        self.value = self.node("Pad", [self.value, self.numbers(pads)], mode="edge")
        self.shape = tuple(int(n + a + b) for n, a, b in zip(self.shape, pads[:_RANK], pads[_RANK:], strict=True))

    def _reshape(self) -> None:
        shape = tuple(int(n) for n in self.rng.permutation(self.shape))
        self.value, self.shape = self.node("Reshape", [self.value, self.numbers(shape)]), shape

    def _expand(self) -> None:
        axis, extent = self._axis(), int(self.rng.integers(1, 4))
        self.value = self.node("ReduceMax", [self.value, self.numbers([axis])], keepdims=1)
        self._set(axis, 1)
        wanted = self.numbers((*self.shape[:axis], extent, *self.shape[axis + 1 :]))
        self.value = self.node("Expand", [self.value, wanted])
        self._set(axis, extent)

    def _tile(self) -> None:
        axis = self._axis()
        counts = np.ones(_RANK, np.int64)
        counts[axis] = 2 if np.prod(self.shape) < 400 else 1
        self.value = self.node("Tile", [self.value, self.numbers(counts)])
        self._set(axis, self.shape[axis] * int(counts[axis]))

    def _resize(self) -> None:
        if self.in_branch:
            return  # ONNX's inference takes some sizes of a Resize in a branch for empty, and refuses the model
        sizes = (*self.shape[:2], int(self.rng.integers(1, 8)))
        modes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        self.value, self.shape = self.node("Resize", [self.value, "", "", self.numbers(sizes)], **modes), sizes

    def _range(self) -> None:
        found = self.node("Range", [self.numbers(number) for number in (0, 3 * self.shape[2], 3)])
        self.value = self.node("Add", [self.value, self.node("Cast", [found], to=TensorProto.FLOAT)])

    def _top(self) -> None:
        axis = self._axis()
        count = int(self.rng.integers(self.shape[axis])) + 1
        self.value = self.node("TopK", [self.value, self.numbers([count])], outputs=2, axis=axis)
        self._set(axis, count)

    def _split(self) -> None:
        axis = self._axis()
        first = int(self.rng.integers(self.shape[axis] + 1)) or 1
        if first == self.shape[axis]:
            return
        parts = [first, self.shape[axis] - first]
        self.value = self.node("Split", [self.value, self.numbers(parts)], outputs=2, axis=axis)
        self._set(axis, first)

    def _squeeze(self) -> None:
        axis = self._axis()
        one, other = self.numbers([axis]), self.numbers([axis])
        self.value = self.node("Unsqueeze", [self.node("ReduceSum", [self.value, one], keepdims=0), other])
        self._set(axis, 1)


def _info(name: str, kind: int = TensorProto.FLOAT, shape: Sequence[int] | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)
