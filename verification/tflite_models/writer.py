# SPDX-License-Identifier: Apache-2.0
"""Writes TensorFlow Lite files: tensors and operators one after the other, then the bytes.

    writer = TfliteWriter()
    x = writer.tensor((1, 8), scale=0.1)
    y = writer.tensor((1, 8), scale=1 / 256, zero_point=-128)
    writer.operator("SOFTMAX", (x,), (y,), Beta=1.0)
    content = writer.bytes((x,), (y,))

Needs the package `tflite`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vdla.support.arrays import Array

_VERSION = 3
_VERSIONS = {
    "RESHAPE": 1, "SQUEEZE": 1, "EXPAND_DIMS": 1, "TILE": 1, "ELU": 1, "HARD_SWISH": 1, "RELU_N1_TO_1": 1,
    "PRELU": 1, "LEAKY_RELU": 2, "ARG_MAX": 2, "ARG_MIN": 2, "SUM": 2, "SPACE_TO_DEPTH": 2, "DEPTH_TO_SPACE": 1,
    "BROADCAST_TO": 2, "CAST": 1, "DEQUANTIZE": 2, "EQUAL": 2, "EXP": 2, "GATHER_ND": 2, "GELU": 2, "GREATER": 2,
    "GREATER_EQUAL": 2, "L2_NORMALIZATION": 2, "LESS": 2, "LESS_EQUAL": 2, "LOG": 2, "LOG_SOFTMAX": 2,
    "MIRROR_PAD": 2, "NOT_EQUAL": 2, "PADV2": 2, "RELU_0_TO_1": 1, "REVERSE_V2": 2, "RSQRT": 2, "SELECT": 2,
    "SELECT_V2": 1, "SHAPE": 1, "SPLIT_V": 2, "SQRT": 2, "SQUARED_DIFFERENCE": 2,
}  # fmt: skip
"""Versions of operators but the third; interpreters refuse versions that they do not know."""
_FIRST_NEW_CODE = 127
_OPTIONS = {
    "AVERAGE_POOL_2D": "Pool2DOptions", "MAX_POOL_2D": "Pool2DOptions", "CONV_2D": "Conv2DOptions",
    "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions", "FULLY_CONNECTED": "FullyConnectedOptions",
    "SOFTMAX": "SoftmaxOptions", "ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions",
    "CONCATENATION": "ConcatenationOptions", "RESHAPE": "ReshapeOptions", "LEAKY_RELU": "LeakyReluOptions",
    "MEAN": "ReducerOptions", "SUM": "ReducerOptions", "REDUCE_MAX": "ReducerOptions",
    "REDUCE_MIN": "ReducerOptions", "TRANSPOSE_CONV": "TransposeConvOptions", "SPLIT": "SplitOptions",
    "SPLIT_V": "SplitVOptions", "STRIDED_SLICE": "StridedSliceOptions", "PACK": "PackOptions",
    "UNPACK": "UnpackOptions", "GATHER": "GatherOptions", "SPACE_TO_DEPTH": "SpaceToDepthOptions",
    "DEPTH_TO_SPACE": "DepthToSpaceOptions", "BATCH_MATMUL": "BatchMatMulOptions",
    "RESIZE_NEAREST_NEIGHBOR": "ResizeNearestNeighborOptions", "RESIZE_BILINEAR": "ResizeBilinearOptions",
    "ARG_MAX": "ArgMaxOptions", "ARG_MIN": "ArgMinOptions", "CAST": "CastOptions", "DIV": "DivOptions",
    "SQUEEZE": "SqueezeOptions", "MIRROR_PAD": "MirrorPadOptions", "L2_NORMALIZATION": "L2NormOptions",
    "GELU": "GeluOptions", "SHAPE": "ShapeOptions",
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class _Tensor:
    name: str
    shape: tuple[int, ...]
    dtype: str
    data: Array | None
    scale: Sequence[float]
    zero_point: int
    axis: int


@dataclass
class TfliteWriter:
    """A model of one subgraph; tensors are known by their numbers."""

    tensors: list[_Tensor] = field(default_factory=list)
    operators: list[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = field(default_factory=list)

    def tensor(
        self,
        shape: Sequence[int],
        dtype: str = "int8",
        *,
        scale: float | Sequence[float] | None = None,
        zero_point: int = 0,
        axis: int = 0,
        data: Array | None = None,
        name: str = "",
    ) -> int:
        """A tensor, constant with `data`; a sequence of scales is one along `axis`."""
        scales = [] if scale is None else [scale] if isinstance(scale, int | float | np.floating) else list(scale)
        number = len(self.tensors)
        made = _Tensor(
            name=name or f"t{number}",
            shape=tuple(shape),
            dtype=dtype,
            data=data,
            scale=scales,
            zero_point=zero_point,
            axis=axis,
        )
        self.tensors.append(made)
        return number

    def constant(
        self, data: Array, *, scale: float | Sequence[float] | None = None, axis: int = 0, zero_point: int = 0
    ) -> int:
        """A constant tensor."""
        name = f"constant{len(self.tensors)}"
        return self.tensor(
            data.shape, data.dtype.name, scale=scale, axis=axis, zero_point=zero_point, data=data, name=name
        )

    def operator(self, name: str, inputs: Sequence[int], outputs: Sequence[int], **options: Any) -> None:  # noqa: ANN401
        """An operator; an absent input is -1, options have the names of the schema's accessors."""
        self.operators.append((name, tuple(inputs), tuple(outputs), options))

    def bytes(self, inputs: Sequence[int], outputs: Sequence[int]) -> bytes:
        """The file."""
        return _File().written(self, tuple(inputs), tuple(outputs))


class _File:
    def __init__(self) -> None:
        import flatbuffers
        import tflite

        self.schema, self.builder = tflite, flatbuffers.Builder(1024)

    def written(self, model: TfliteWriter, inputs: Sequence[int], outputs: Sequence[int]) -> bytes:
        names = list(dict.fromkeys(name for name, *_ in model.operators))
        buffers = [self._buffer(None), *(self._buffer(tensor.data) for tensor in model.tensors)]
        tensors = [self._tensor(tensor, number) for number, tensor in enumerate(model.tensors, start=1)]
        operators = [self._operator(names, *operator) for operator in model.operators]
        codes = [self._code(name) for name in names]
        fields = {
            "Tensors": self._tables(tensors),
            "Inputs": self._numbers(np.array(inputs, np.int32)),
            "Outputs": self._numbers(np.array(outputs, np.int32)),
            "Operators": self._tables(operators),
        }
        graph = self._table("SubGraph", fields)
        parts = {
            "OperatorCodes": self._tables(codes),
            "Subgraphs": self._tables([graph]),
            "Buffers": self._tables(buffers),
        }
        root = self._table("Model", {"Version": _VERSION, **parts})
        self.builder.Finish(root, file_identifier=b"TFL3")
        return bytes(self.builder.Output())

    def _table(self, kind: str, fields: dict[str, Any]) -> int:
        self._of(f"{kind}Start")(self.builder)
        for name, value in fields.items():
            self._of(f"{kind}Add{name}")(self.builder, value)
        return int(self._of(f"{kind}End")(self.builder))

    def _of(self, name: str) -> Callable[..., Any]:
        function: Callable[..., Any] = getattr(self.schema, name)
        return function

    def _tables(self, offsets: Sequence[int]) -> int:
        self.builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self.builder.PrependUOffsetTRelative(offset)
        return int(self.builder.EndVector())

    def _numbers(self, values: Array) -> int:
        return int(self.builder.CreateNumpyVector(values))

    def _buffer(self, data: Array | None) -> int:
        if data is None:
            return self._table("Buffer", {})
        self.builder.StartVector(1, data.nbytes, 16)  # elements of any type lie aligned
        self.builder.head -= data.nbytes
        self.builder.Bytes[self.builder.head : self.builder.head + data.nbytes] = np.ascontiguousarray(data).tobytes()
        return self._table("Buffer", {"Data": int(self.builder.EndVector())})

    def _tensor(self, tensor: _Tensor, buffer: int) -> int:
        name, shape = self.builder.CreateString(tensor.name), self._numbers(np.array(tensor.shape, np.int32))
        fields = {
            "Shape": shape,
            "Type": getattr(self.schema.TensorType, tensor.dtype.upper()),
            "Buffer": buffer,
            "Name": name,
        }
        if tensor.scale:
            fields["Quantization"] = self._quantisation(tensor)
        return self._table("Tensor", fields)

    def _quantisation(self, tensor: _Tensor) -> int:
        scale = self._numbers(np.array(tensor.scale, np.float32))
        zero = self._numbers(np.full(len(tensor.scale), tensor.zero_point, np.int64))
        fields = {"Scale": scale, "ZeroPoint": zero, "QuantizedDimension": tensor.axis}
        return self._table("QuantizationParameters", fields)

    def _code(self, name: str) -> int:
        number = getattr(self.schema.BuiltinOperator, name)
        return self._table(
            "OperatorCode",
            {
                "DeprecatedBuiltinCode": min(number, _FIRST_NEW_CODE),
                "BuiltinCode": number,
                "Version": _VERSIONS.get(name, _VERSION),
            },
        )

    def _operator(
        self, names: Sequence[str], name: str, inputs: Sequence[int], outputs: Sequence[int], options: dict[str, Any]
    ) -> int:
        kind = _OPTIONS.get(name)
        fields = {
            "OpcodeIndex": names.index(name),
            "Inputs": self._numbers(np.array(inputs, np.int32)),
            "Outputs": self._numbers(np.array(outputs, np.int32)),
        }
        if kind is not None:
            made = {key: self._option(value) for key, value in options.items()}
            fields["BuiltinOptionsType"] = getattr(self.schema.BuiltinOptions, kind)
            fields["BuiltinOptions"] = self._table(kind, made)
        return self._table("Operator", fields)

    def _option(self, value: Any) -> Any:  # noqa: ANN401  a number, or numbers
        return self._numbers(np.array(value, np.int32)) if isinstance(value, tuple | list) else value
