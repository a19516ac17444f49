# SPDX-License-Identifier: Apache-2.0
"""What the operands of a node are drawn from: the schema of its operator, and a seeded generator.

Attributes that the version of the operator lacks are left out of a draft, so that one function
draws for all versions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from onnx import NodeProto, TensorProto, helper
from onnx.defs import OpSchema

Array = npt.NDArray[Any]
Choice = TypeVar("Choice")

FLOATS = ("float32", "float64", "float16")
_EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 16)
_EMPTY = 0.04  # the share of extents that are 0
_DTYPES = {
    f"tensor({helper.tensor_dtype_to_string(code).removeprefix('TensorProto.').lower()})": code
    for code in TensorProto.DataType.values()
    if code
}
_DTYPES["tensor(double)"] = TensorProto.DOUBLE


@dataclass(frozen=True)
class NodeDraft:
    """The operands and attributes of a node; None is an absent operand. `constant` are the places
    of operands that are parameters, such as axes, which most models have as constants; `absent`
    those of results that the node leaves out, `fixed` those of operands that are constants in every
    model. `before` are nodes that make values of the operands
    x0, x1, ... and `names` the operands then; without them the node takes the operands themselves.
    `tolerance` is how far results may differ beyond the rounding of their type. Declared types of
    `trusted` results are taken at their word. What is not `compiled`, such as sequences, is
    evaluated node by node.
    """

    inputs: Sequence[Array | None]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1
    constant: frozenset[int] = frozenset()
    fixed: frozenset[int] = frozenset()
    absent: frozenset[int] = frozenset()
    before: Sequence[NodeProto] = ()
    names: Sequence[str] = ()
    tolerance: float = 0.0
    trusted: bool = False
    compiled: bool = True


@dataclass(frozen=True)
class OperatorVersion:
    """What a schema says of a version of an operator; `types` are NumPy's names of element types
    by type parameter.
    """

    name: str
    domain: str = ""
    since: int = 1
    attributes: frozenset[str] = frozenset()
    types: Mapping[str, Sequence[str]] = field(default_factory=dict)
    most_inputs: int = 1 << 30

    @classmethod
    def of(cls, schema: OpSchema) -> OperatorVersion:
        """The version that ONNX defines."""
        types = {item.type_param_str: _names(item.allowed_type_strs) for item in schema.type_constraints}
        return cls(
            name=schema.name,
            domain=schema.domain,
            since=int(schema.since_version),
            attributes=frozenset(schema.attributes),
            types=types,
            most_inputs=int(schema.max_input),
        )


def _names(types: Sequence[str]) -> list[str]:
    codes = [_DTYPES[name] for name in types if name in _DTYPES]
    return [np.dtype(helper.tensor_dtype_to_np_dtype(code)).name for code in codes]


class Draw:
    """A seeded generator for one version of an operator."""

    def __init__(self, version: OperatorVersion, seed: Sequence[int]) -> None:
        self.version = version
        self.random = np.random.default_rng(list(seed))

    def pick(self, choices: Sequence[Choice]) -> Choice:
        """One of the choices."""
        return choices[int(self.random.integers(len(choices)))]

    def chance(self, share: float = 0.5) -> bool:
        """True in that share of the draws."""
        return bool(self.random.random() < share)

    def has(self, attribute: str) -> bool:
        """Whether this version has an attribute."""
        return attribute in self.version.attributes

    def takes(self, count: int) -> bool:
        """Whether this version has so many inputs."""
        return self.version.most_inputs >= count

    def options(self, **choices: Sequence[Any]) -> dict[str, Any]:
        """Some of the attributes that this version has; the others keep their defaults."""
        present = {name: values for name, values in choices.items() if self.has(name)}
        return {name: self.pick(values) for name, values in present.items() if self.chance(0.6)}

    def known(self, **attributes: Any) -> dict[str, Any]:  # noqa: ANN401  of any type of attributes
        """The attributes without those that this version lacks."""
        return {name: value for name, value in attributes.items() if self.has(name)}

    # --- types and extents ------------------------------------------------------------------------

    def dtypes(self, parameter: str = "T") -> list[str]:
        """The element types that this version accepts, by NumPy's names."""
        return list(self.version.types.get(parameter, ())) or ["float32"]

    def dtype(self, parameter: str = "T", among: Sequence[str] = ()) -> str:
        """An element type that this version accepts: float32 half of the time, if it may be."""
        names = [name for name in self.dtypes(parameter) if name in (among or _USUAL)]
        if not names:
            names = self.dtypes(parameter)
        return "float32" if "float32" in names and self.chance() else self.pick(names)

    def rank(self, low: int = 1, high: int = 5) -> int:
        """A rank, both limits included."""
        return int(self.random.integers(low, high + 1))

    def extent(self, low: int = 1, empty: bool = False) -> int:
        """An extent, odd ones and 1 among them; some are 0 if it may be."""
        if empty and self.chance(_EMPTY):
            return 0
        return self.pick([extent for extent in _EXTENTS if extent >= low])

    def shape(self, rank: int | None = None, empty: bool = True) -> tuple[int, ...]:
        """A shape of at most some thousand elements."""
        count = self.rank() if rank is None else rank
        shape = [self.extent(empty=empty) for _ in range(count)]
        while np.prod(shape) > 2000:
            shape[int(np.argmax(shape))] = 2
        return tuple(shape)

    def axis(self, rank: int, negative: bool = True) -> int:
        """A dimension, also counted from the end where this version has that."""
        axis = int(self.random.integers(rank))
        return axis - rank if negative and self.version.since >= 11 and self.chance() else axis

    def axes(self, rank: int) -> list[int]:
        """Some dimensions, each once."""
        count = int(self.random.integers(1, rank + 1))
        chosen = self.random.permutation(rank)[:count]
        ends = self.version.since >= 11 and self.chance()
        return [int(axis) - (rank if ends else 0) for axis in chosen]

    # --- arrays -----------------------------------------------------------------------------------

    def array(self, shape: Sequence[int], dtype: str = "float32", low: float = -4, high: float = 4) -> Array:
        """Random elements between two limits; small types are used in full only where asked for."""
        kind = np.dtype(helper.tensor_dtype_to_np_dtype(_code(dtype)))
        shape = tuple(shape)
        if kind.kind == "O":
            words = np.array(["", "a", "bc", "Zug", "über"], object)
            return np.asarray(words[self.random.integers(len(words), size=shape)], object)
        if kind.kind == "b":
            return np.asarray(self.random.integers(2, size=shape) == 1)
        if kind.kind in "iu":
            least = 0 if kind.kind == "u" else int(low)
            return np.asarray(self.random.integers(least, int(high) + 1, size=shape)).astype(kind)
        if kind.name in ("int4", "uint4", "int2", "uint2"):
            bottom, top = {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3)}[kind.name]
            whole = self.random.integers(bottom, top + 1, size=shape)
            return np.asarray(whole.astype(np.int8)).astype(kind)
        if kind.kind == "c":
            return np.asarray(self.random.normal(size=shape) + 1j * self.random.normal(size=shape)).astype(kind)
        return np.asarray(self.random.uniform(low, high, size=shape)).astype(kind)

    def whole(self, shape: Sequence[int], dtype: str) -> Array:
        """Integers of the whole range of a type."""
        info = np.iinfo(dtype)
        return np.asarray(self.random.integers(info.min, info.max, size=tuple(shape), endpoint=True)).astype(dtype)

    def either(self, name: str, values: Sequence[int] | int, inputs: list[Array | None]) -> dict[str, Any]:
        """A parameter as an attribute, or as a further input, whichever this version has."""
        if self.has(name):
            return {name: values}
        inputs.append(np.asarray(values, np.int64))
        return {}


_INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
_USUAL = (*FLOATS, *_INTEGERS, "bool", "object")


def _code(dtype: str) -> int:
    if dtype == "object":
        return int(TensorProto.STRING)
    import ml_dtypes

    return int(helper.np_dtype_to_tensor_dtype(np.dtype(getattr(ml_dtypes, dtype, dtype))))
