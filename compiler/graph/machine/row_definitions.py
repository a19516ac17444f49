# SPDX-License-Identifier: Apache-2.0
"""Softmax, norms, rotation and factors of rows as definitions, of which plug-ins have programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from vdla.compiler.operators import definitions
from vdla.compiler.operators.definitions import Definition

OF_ALL_ROWS = ("vdla.QRotary", "vdla.QRowNorm")
"""Those that have all rows in one matrix, whatever the dimensions of the tensor."""
ROW_FUNCTIONS = ("vdla.QFactor", "vdla.QRotary", "vdla.QRowNorm", "vdla.QRowSoftmax")
"""The operators of rows, whose results have 8 bits as their elements have."""


def row_definition(op: str, shape: Sequence[int], attributes: Mapping[str, Any]) -> Definition:
    """The definition of a node of `ROW_FUNCTIONS` whose elements are [..., features].

    Raises:
        DefinitionError: no definition has such rows.
    """
    matrices = 1 if op in OF_ALL_ROWS else prod(shape[:-2])
    extents = {"matrices": matrices, "rows": prod(shape[:-1]) // matrices}
    if op == "vdla.QFactor":
        rows, transposed = extents["rows"], bool(attributes["transposed"])
        return definitions.second_factor(matrices=matrices, rows=rows, columns=shape[-1], transposed=transposed)
    if op == "vdla.QRowSoftmax":
        return definitions.row_softmax(keys=shape[-1], factor=attributes["factor"], **extents)
    if op == "vdla.QRotary":
        heads, turned, interleaved = (attributes[name] for name in ("heads", "turned", "interleaved"))
        size, pairs = shape[-1] // heads, bool(interleaved)
        return definitions.rotary(heads=heads, size=size, turned=turned, interleaved=pairs, **extents)
    centred, least = bool(attributes["centred"]), attributes["least"]
    return definitions.row_norm(features=shape[-1], centred=centred, least=least, **extents)
