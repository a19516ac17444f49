# SPDX-License-Identifier: Apache-2.0
"""Whether the programs that authors of extensions write for a layer are right.

The check runs a program on random data and compares every element with the layer's expression.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log2, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler import te
from vdla.compiler.interpret import interpret
from vdla.compiler.ir import is_float, limits, storage_dtype
from vdla.hardware.numerics import pack_scale
from vdla.runtime.studies.layers import EvaluateError, placeholders_of, terms_of

if TYPE_CHECKING:
    from vdla.compiler.layer_programs import LayerProgram, WrittenProgram


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
    """Multipliers for sums of `terms` products of two random bytes."""
    product = (256**2 - 1) / 12  # of their standard deviations
    spread = sqrt(terms) * product
    mult = rng.integers(1 << 22, 1 << 24, shape)
    shift = np.full(shape, round(log2(spread * (1 << 23) / (_SHARE * 127))))
    bias = rng.integers(-round(spread), round(spread), shape, endpoint=True)
    return pack_scale(bias, mult, shift).view(np.int64)


def check_written(written: WrittenProgram, layer: str, output: te.Tensor, seed: int) -> None:
    """EvaluateError unless all programs are safe and compute the layer."""
    arrays = random_arrays(output, seed)
    wanted = computed(output, arrays)
    for number, program in enumerate(written.programs):
        which = f" ({number + 1} of {len(written.programs)})" if len(written.programs) > 1 else ""
        where = f"evaluate: {written.label} of {layer}{which}"
        _require_equal(where, output, _computed(where, program, arrays), wanted, seed)


def _computed(where: str, program: LayerProgram, arrays: dict[str, Array]) -> Array:
    """The plain result of a program; EvaluateError unless it is safe."""
    from vdla.simulator.simulate import simulate
    from vdla.simulator.verify import VerifyError

    try:
        return program.unpack(simulate(program.program, program.pack(arrays), mode="function").outputs)
    except VerifyError as error:
        raise EvaluateError(f"{where} must be a safe program, got {error.verdict.findings[0].message}") from None


def _require_equal(where: str, output: te.Tensor, output_array: Array, wanted: Array, seed: int) -> None:
    """EvaluateError with the first element that differs."""
    if output_array.shape != wanted.shape or output_array.dtype != wanted.dtype:
        got = f"{output_array.dtype}{list(output_array.shape)}"
        raise EvaluateError(f"{where} must give {output.dtype}{list(output.shape)}, got {got}")
    wrong = np.argwhere(output_array != wanted)
    if len(wrong):
        at = tuple(map(int, wrong[0]))
        rule = f"{output.name}{list(at)} must be {wanted[at]}, by the expression of the layer, got {output_array[at]}"
        raise EvaluateError(f"{where}: {rule}; {len(wrong):,} of {wanted.size:,} elements differ (seed {seed})")
