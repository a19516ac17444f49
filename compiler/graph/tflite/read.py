# SPDX-License-Identifier: Apache-2.0
"""The bytes of a TensorFlow Lite file as a model.

The accessors that the package `tflite` generates check nothing: an offset of a damaged file may
lead anywhere. Lengths are checked here before anything is counted to them, and what the accessors
raise becomes one error.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import cache
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from vdla.compiler.graph.graph import Array
from vdla.compiler.graph.tflite.errors import TfliteError
from vdla.compiler.graph.tflite.model import (
    ABSENT,
    ELEMENT_TYPES,
    TfliteModel,
    TfliteOperator,
    TfliteQuantisation,
    TfliteTensor,
)

_DAMAGE = (struct.error, IndexError, TypeError, ValueError, OverflowError, AttributeError, KeyError, MemoryError)
_MOST_ELEMENTS = 1 << 40
_OLD_CODES = 127  # the field for operators of the first 127 codes; others have it at this number


def read_model(content: bytes, place: str) -> TfliteModel:
    """The model of a file with the format's identifier; `place` is its name in messages.

    Raises:
        TfliteError: the content is damaged, or contradicts itself.
    """
    try:
        return _Reader(content, place).model()
    except TfliteError:
        raise
    except _DAMAGE as error:
        text = " ".join(str(error).split())
        raise TfliteError(f"{place}: the flatbuffer must be whole, got a damaged one ({text})") from None


class _Reader:
    def __init__(self, content: bytes, place: str) -> None:
        import tflite

        self.schema, self.content, self.place = tflite, content, place
        self.root = tflite.Model.GetRootAs(content, 0)
        self.limit = len(content)

    def model(self) -> TfliteModel:
        """The first subgraph."""
        if not self._count("subgraphs", self.root.SubgraphsLength()):
            raise TfliteError(f"{self.place}: the model must have a subgraph, got none")
        graph = self.root.Subgraphs(0)
        tensors = tuple(self._tensor(graph.Tensors(i), i) for i in self._range("tensors", graph.TensorsLength()))
        codes = [self._code(self.root.OperatorCodes(i)) for i in self._range("codes", self.root.OperatorCodesLength())]
        count, total = graph.OperatorsLength(), len(tensors)
        operators = tuple(self._operator(graph.Operators(i), codes, total) for i in self._range("operators", count))
        inputs = self._indices("inputs", graph.InputsAsNumpy(), total)
        outputs = self._indices("outputs", graph.OutputsAsNumpy(), total)
        if not outputs or ABSENT in (*inputs, *outputs):
            raise TfliteError(f"{self.place}: the model must have an output, and no absent ones, got {list(outputs)}")
        return TfliteModel(tensors, operators, inputs, outputs)

    def _count(self, what: str, length: int) -> int:
        if not 0 <= length <= self.limit:
            raise TfliteError(f"{self.place}: the number of {what} must be that of a file of {self.limit} bytes")
        return length

    def _range(self, what: str, length: int) -> range:
        return range(self._count(what, length))

    def _indices(self, what: str, values: Array | int, tensors: int) -> tuple[int, ...]:
        """Indices of tensors; a vector that the file lacks is read as the number 0."""
        indices = () if isinstance(values, int) else tuple(int(value) for value in values)
        for index in indices:
            if not ABSENT <= index < tensors:
                raise TfliteError(f"{self.place}: {what} must be indices of {tensors} tensors, got {index}")
        return indices

    # --- tensors ----------------------------------------------------------------------------------

    def _tensor(self, table: Any, index: int) -> TfliteTensor:  # noqa: ANN401  of the schema
        name = (table.Name() or b"").decode(errors="replace") or f"tensor{index}"
        kind = _names(self.schema.TensorType).get(table.Type(), f"type {table.Type()}")
        shape = () if isinstance(table.ShapeAsNumpy(), int) else tuple(int(n) for n in table.ShapeAsNumpy())
        if any(extent < 0 for extent in shape) or prod(shape) > _MOST_ELEMENTS:
            raise TfliteError(f"{self.place}: the shape of {name} must be whole numbers, got {list(shape)}")
        if table.IsVariable() or (table.Sparsity() is not None):
            what = "sparse" if table.Sparsity() is not None else "a variable"
            raise TfliteError(f"{self.place}: tensor {name} must be dense and no variable, got {what}")
        data = self._data(table.Buffer(), name, kind, shape)
        return TfliteTensor(name, kind.lower(), shape, data, self._quantisation(table, name, shape))

    def _data(self, buffer: int, name: str, kind: str, shape: tuple[int, ...]) -> Array | None:
        if not 0 <= buffer < self._count("buffers", self.root.BuffersLength()):
            raise TfliteError(f"{self.place}: the buffer of {name} must be one of the file, got number {buffer}")
        table = self.root.Buffers(buffer)
        raw = None if table is None else table.DataAsNumpy()
        if raw is None or isinstance(raw, int) or not raw.size:
            raw = self._beyond(table, name)
        if raw is None:
            return None
        if kind.lower() not in ELEMENT_TYPES:
            raise TfliteError(f"{self.place}: constant {name} must be of numbers, got {kind}")
        elements = prod(shape)
        dtype = np.dtype(np.uint8 if kind == "INT4" else kind.lower())
        wanted = -(-elements // 2) if kind == "INT4" else elements * dtype.itemsize
        if raw.nbytes != wanted:
            raise TfliteError(f"{self.place}: constant {name} must have {wanted} bytes, got {raw.nbytes}")
        if kind == "INT4":
            return _nibbles(raw)[:elements].reshape(shape)
        return np.frombuffer(raw.tobytes(), dtype.newbyteorder("<")).astype(dtype).reshape(shape)

    def _beyond(self, buffer: Any, name: str) -> Array | None:  # noqa: ANN401  of the schema
        """The bytes of a buffer behind the flatbuffer, as in files of more than 2 GB."""
        offset, size = (0, 0) if buffer is None else (buffer.Offset(), buffer.Size())
        if offset <= 1:
            return None
        if offset + size > self.limit:
            raise TfliteError(
                f"{self.place}: the data of {name} must lie within {self.limit} bytes, got {offset + size}"
            )
        return np.frombuffer(self.content[offset : offset + size], np.uint8)

    def _quantisation(self, table: Any, name: str, shape: tuple[int, ...]) -> TfliteQuantisation | None:  # noqa: ANN401
        parameters = table.Quantization()
        scale = 0 if parameters is None else parameters.ScaleAsNumpy()
        if parameters is None or isinstance(scale, int) or not scale.size:
            return None
        given = parameters.ZeroPointAsNumpy()
        zero = np.zeros(scale.size, np.int64) if isinstance(given, int) else np.asarray(given, np.int64)
        axis = int(parameters.QuantizedDimension())
        if zero.size not in (1, scale.size) or not (np.isfinite(scale) & (scale >= 0)).all():
            raise TfliteError(f"{self.place}: scales of {name} must be numbers from 0, with a zero point each")
        if scale.size > 1 and not (0 <= axis < len(shape) and shape[axis] == scale.size):
            raise TfliteError(
                f"{self.place}: scales of {name} must be one for each index along an axis, got {scale.size}"
            )
        return TfliteQuantisation(np.array(scale, np.float32), np.broadcast_to(zero, scale.size).copy(), axis)

    # --- operators --------------------------------------------------------------------------------

    def _code(self, table: Any) -> str:  # noqa: ANN401  of the schema
        number = max(table.DeprecatedBuiltinCode(), table.BuiltinCode())
        name = _names(self.schema.BuiltinOperator).get(number, f"operator {number}")
        if name != "CUSTOM":
            return name
        return f"CUSTOM {(table.CustomCode() or b'').decode(errors='replace')}".rstrip()

    def _operator(self, table: Any, codes: list[str], tensors: int) -> TfliteOperator:  # noqa: ANN401
        code = table.OpcodeIndex()
        if not 0 <= code < len(codes):
            raise TfliteError(f"{self.place}: an operator must have a code of the file, got number {code}")
        inputs = self._indices(f"inputs of {codes[code]}", table.InputsAsNumpy(), tensors)
        outputs = self._indices(f"outputs of {codes[code]}", table.OutputsAsNumpy(), tensors)
        return TfliteOperator(codes[code], inputs, outputs, dict(self._options(table)))

    def _options(self, table: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401  of the schema
        """The fields of the table of options, by their names in the schema."""
        kinds = _names(self.schema.BuiltinOptions)
        union, name = table.BuiltinOptions(), kinds.get(table.BuiltinOptionsType(), "NONE")
        if union is None or name == "NONE":
            return
        options = getattr(self.schema, name)()
        options.Init(union.Bytes, union.Pos)
        for field in _fields(options.__class__):
            value = getattr(options, field)()
            yield field.removesuffix("AsNumpy"), value if not isinstance(value, np.ndarray) else tuple(value.tolist())


@cache
def _names(enum: Any) -> dict[int, str]:  # noqa: ANN401  a class of the schema
    """The names of an enumeration of the schema by their numbers."""
    return {value: name for name, value in vars(enum).items() if isinstance(value, int)}


@cache
def _fields(options: Any) -> tuple[str, ...]:  # noqa: ANN401  a class of the schema
    """The accessors of a table that read a number, a string, or a vector of numbers."""
    accessors: dict[str, Callable[..., Any]] = {
        k: v for k, v in vars(options).items() if callable(v) and k[0].isupper()
    }
    vectors = {name.removesuffix("AsNumpy") for name in accessors if name.endswith("AsNumpy")}
    plain = [name for name, function in accessors.items() if function.__code__.co_argcount == 1]
    return tuple(n for n in plain if not n.endswith(("Length", "IsNone")) and n not in vectors)


def _nibbles(raw: Array) -> Array:
    """Elements of four bits, the low ones first, as int8."""
    pairs = np.stack([raw & 0xF, raw >> 4], axis=-1).reshape(-1).astype(np.uint8)
    return np.asarray(((pairs ^ 8).astype(np.int8) - 8).astype(ml_dtypes.int4))
