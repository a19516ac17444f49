# SPDX-License-Identifier: Apache-2.0
"""A TensorFlow Lite model as values: the first subgraph of its file, with options by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler.graph.graph import Array

ELEMENT_TYPES = frozenset(
    {"bool", "float16", "float32", "float64", "int4", "int8", "int16", "int32", "int64"}
    | {"uint8", "uint16", "uint32", "uint64"}
)
"""The element types of tensors of numbers, by the names that NumPy has for them."""
ABSENT = -1
"""The index of an optional input that is absent."""


@dataclass(frozen=True, slots=True)
class TfliteQuantisation:
    """q stands for (q - zero_point) * scale; one number, or one for each index along `axis`."""

    scale: npt.NDArray[np.float32]
    zero_point: npt.NDArray[np.int64]
    axis: int


@dataclass(frozen=True, slots=True, eq=False)
class TfliteTensor:
    """A tensor of a model; `data` is the value of a constant.

    `dtype` is the schema's name of the element type in small letters, of which `ELEMENT_TYPES` are
    numbers.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: Array | None
    quantisation: TfliteQuantisation | None


@dataclass(frozen=True, slots=True)
class TfliteOperator:
    """An operator by its name in the schema, such as CONV_2D; `options` are those of its table."""

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TfliteModel:
    """The tensors and operators of a model, in the order of their execution."""

    tensors: tuple[TfliteTensor, ...]
    operators: tuple[TfliteOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
