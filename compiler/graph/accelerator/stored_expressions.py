# SPDX-License-Identifier: Apache-2.0
"""The expressions of regions as bytes, which an artifact keeps for those who check it again.

The length of a JSON text in eight bytes, that text, the arrays. What is read decides only what a
program is compared with.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from vdla.compiler.graph.accelerator.region_expression import RegionExpression
from vdla.compiler.graph.attributes import GraphError
from vdla.compiler.graph.graph import Array
from vdla.compiler.graph.stored_graph import graph_from_json, graph_to_json

VERSION = 1
_LENGTH = 8  # bytes, little-endian
_KINDS = "iub"  # of NumPy's types: integers and bools

Expressions = Sequence[Sequence[RegionExpression]]
"""The expressions of the regions of each plan."""


def expressions_to_bytes(plans: Expressions) -> bytes:
    """The expressions, constants included."""
    arrays: list[Array] = []
    described = [[_to_json(expression, arrays) for expression in plan] for plan in plans]
    manifest = {
        "version": VERSION,
        "plans": described,
        "arrays": [[array.dtype.name, list(array.shape)] for array in arrays],
    }
    text = json.dumps(manifest).encode()
    return b"".join([len(text).to_bytes(_LENGTH, "little"), text, *(np.ascontiguousarray(a).tobytes() for a in arrays)])


def expressions_from_bytes(content: bytes, where: str) -> tuple[tuple[RegionExpression, ...], ...]:
    """The expressions of `expressions_to_bytes`; `where` names the file in errors.

    Raises:
        GraphError: they are of a newer version, or damaged.
    """
    try:
        end = _LENGTH + int.from_bytes(content[:_LENGTH], "little")
        manifest = json.loads(content[_LENGTH:end])
        if manifest["version"] > VERSION:
            rule = f"version of its expressions must be at most {VERSION}"
            raise GraphError(f"{where}: {rule}, got {manifest['version']} (made by a newer vdla)")
        arrays = _arrays(manifest["arrays"], content[end:])
        return tuple(tuple(_from_json(raw, arrays) for raw in plan) for plan in manifest["plans"])
    except GraphError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError, OverflowError) as error:
        got = f"{type(error).__name__}: {error}"
        raise GraphError(f"{where}: expressions must describe the regions of a network, got {got}") from None


def _arrays(described: list[Any], content: bytes) -> list[Array]:
    arrays, begin = [], 0
    for dtype, shape in described:
        kind = np.dtype(dtype)
        size = prod(shape) * kind.itemsize
        if kind.kind not in _KINDS or min(shape, default=0) < 0 or begin + size > len(content):
            raise ValueError(f"an array {dtype}{shape} at byte {begin} of {len(content)}")
        arrays.append(np.frombuffer(content, kind, prod(shape), begin).reshape(shape))
        begin += size
    return arrays


def _to_json(expression: RegionExpression, arrays: list[Array]) -> dict[str, Any]:
    return {
        "name": expression.name,
        "plain": graph_to_json(expression.plain, arrays),
        "packing": dict(expression.packing),
        "unpacked": graph_to_json(expression.unpacked, arrays),
        "outputs": dict(expression.outputs),
        "results": list(expression.results),
    }


def _from_json(raw: dict[str, Any], arrays: Sequence[Array]) -> RegionExpression:
    return RegionExpression(
        name=raw["name"],
        plain=graph_from_json(raw["plain"], arrays),
        packing=dict(raw["packing"]),
        unpacked=graph_from_json(raw["unpacked"], arrays),
        outputs=dict(raw["outputs"]),
        results=tuple(raw["results"]),
    )
