# SPDX-License-Identifier: Apache-2.0
"""What the host adds to the factors of a product of activations, by what is true of it.

The elements themselves depend on divisions, which have no meaning on symbols. What a product needs
of them is one equation, which tests show for every sum that rows can have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from vdla.compiler.certificates.operations import binary, cast, summed
from vdla.compiler.certificates.symbols import Symbols, hashed_unknowns, numbers, with_low_half
from vdla.compiler.graph import Node

_UNIT = 127


def row_terms(node: Node, x: Symbols) -> Symbols:
    """vdla.RowTerms: 127 times the sum of all new elements but the last, plus the last one, is
    `factor` times the sum of the row. All are int8; those but the last are unknown.
    """
    factor, count = node.attributes["factor"], node.attributes["count"]
    total = binary("mul", summed(cast(x, "int8", "int32"), (x.ndim - 1,), "int32"), numbers(factor), "int32")
    places = numbers(np.arange(count).reshape((1,) * (x.ndim - 1) + (count,)))
    shares = hashed_unknowns("share of a row", "int8", total, places)
    units = binary("mul", summed(cast(shares, "int8", "int32"), (x.ndim - 1,), "int32"), numbers(_UNIT), "int32")
    last = binary("sub", total, units, "int32").copy()
    last["low"], last["high"] = -_UNIT, _UNIT
    return np.concatenate([x, shares, last], axis=-1)


def column_lanes(node: Node, x: Symbols) -> Symbols:
    """vdla.ColumnLanes: the bias of a lane is `factor` times the sum of a column plus `offset`."""
    factor, offset, lane = (node.attributes[name] for name in ("factor", "offset", "lane"))
    total = summed(cast(x, "int8", "int32"), (x.ndim - 2,), "int32")[..., 0, :]
    scaled = binary("mul", total, numbers(factor), "int32")
    return with_low_half(lane, binary("add", scaled, numbers(offset), "int32"))


HOST_TERMS: Mapping[str, Callable[[Node, Symbols], Symbols]] = {
    "vdla.ColumnLanes": column_lanes,
    "vdla.RowTerms": row_terms,
}
"""The new elements by operator."""
