"""Expressions on random data: integers over the range of their type, scales that fit their sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log2, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler import te
from vdla.compiler.interpret import interpret
from vdla.compiler.ir import is_float, limits, storage_dtype
from vdla.hardware.numerics import pack_scale
from vdla.runtime.verdict.layers import placeholders_of, terms_of

Array = NDArray[Any]
_SHARE = 0.4  # of the range of results: about one in a hundred is beyond it


def random_arrays(output: te.Tensor, seed: int) -> dict[str, Array]:
    """Random values of the inputs of a tensor, by name."""
    rng, terms = np.random.default_rng(seed), terms_of(output)
    return {tensor.name: _elements(tensor, terms, rng) for tensor in placeholders_of(output)}


def computed(output: te.Tensor, arrays: Mapping[str, Array]) -> Array:
    """The tensor computed from its inputs, by the interpreter."""
    inputs = placeholders_of(output)
    function = te.create_function(inputs, [output], "layer")
    return interpret(function, {tensor.name: arrays[tensor.name] for tensor in inputs})[output.name]


def largest_difference(output: te.Tensor, other: te.Tensor, seed: int) -> float:
    """The largest difference of two formulations on the same inputs."""
    arrays = random_arrays(output, seed)
    results = [computed(tensor, arrays).astype(np.float64) for tensor in (output, other)]
    return float(np.abs(results[0] - results[1]).max())


def _elements(tensor: te.Tensor, terms: int, rng: np.random.Generator) -> Array:
    if tensor.dtype == "int64":  # lanes of the scale buffer
        return _scales(tensor.shape, terms, rng)
    if is_float(tensor.dtype):
        return rng.standard_normal(tensor.shape).astype(storage_dtype(tensor.dtype))
    low, high = (int(limit) for limit in limits(tensor.dtype))
    return rng.integers(low, high, tensor.shape, endpoint=True).astype(storage_dtype(tensor.dtype))


def _scales(shape: Sequence[int], terms: int, rng: np.random.Generator) -> Array:
    """Multipliers for sums of so many products of two random bytes."""
    product = (256**2 - 1) / 12  # of their standard deviations
    spread = sqrt(terms) * product
    mult = rng.integers(1 << 22, 1 << 24, shape)
    shift = np.full(shape, round(log2(spread * (1 << 23) / (_SHARE * 127))))
    bias = rng.integers(-round(spread), round(spread), shape, endpoint=True)
    return pack_scale(bias, mult, shift).view(np.int64)
