# SPDX-License-Identifier: Apache-2.0
"""Bit-serial dense layer for 1-bit and 2-bit numbers: int32 sums by AND and population count.

The stages: `<name>_data` the input in bit planes; `<name>_sum` the products plane by plane;
`<name>` the result. Packed 2-bit weights take a quarter of the memory of int8 ones, which bounds a
matrix-vector product.
"""

from __future__ import annotations

from enum import Enum

import numpy as np

from vdla.compiler import te
from vdla.compiler.ir import Array
from vdla.compiler.operators.checks import OperatorError, check_choice, check_rank, integer, static_extent, target_of
from vdla.compiler.operators.quantisation import output_count, packed_extents, packing_error
from vdla.compiler.operators.quantised_weights import check_int8_weight, pad_to_multiples
from vdla.compiler.operators.results import result_name
from vdla.compiler.operators.roles import CODING, DATA, OPERATOR, PLACED, RESULT
from vdla.compiler.target import Target

_WORD_BITS = 32  # bits of one plane in a word, as in the intrinsics
_SUM_BYTES = 4
_BITS = (1, 2)


class Coding(Enum):
    """The coding of weights: unsigned, two's complement, or -1 and 1 in one bit (the data too)."""

    UNSIGNED = "unsigned"
    SIGNED = "signed"
    BIPOLAR = "bipolar"


def pack_bitserial_dense(weight: Array, bits: int, coding: Coding, target: Target | str) -> Array:
    """An int8 weight [N, K] in bit planes, uint32 [N / lanes, K / 32, bits, lanes].


    Bipolar weights are -1 and 1, in one bit.
    """
    where = "pack_bitserial_dense"
    _check_bits(where, "bits", bits, coding)
    check_int8_weight(where, weight, 2, "[N, K]")
    _check_range(where, weight, bits, coding)
    lanes = _lanes_of(target_of(where, target))
    codes = pad_to_multiples((weight > 0 if coding is Coding.BIPOLAR else weight).astype(np.uint8), (lanes, _WORD_BITS))
    blocks = codes.reshape(-1, lanes, codes.shape[1] // _WORD_BITS, _WORD_BITS).astype(np.uint32)
    order = np.arange(_WORD_BITS, dtype=np.uint32)
    planes = [((blocks >> p & 1) << order).sum(axis=-1, dtype=np.uint32) for p in range(bits)]
    return np.ascontiguousarray(np.stack(planes).transpose(1, 3, 0, 2))


def bitserial_dense(
    x: te.Tensor,
    weight: te.Tensor,
    target: Target | str,
    data_bits: int = 2,
    coding: Coding = Coding.UNSIGNED,
    out_features: int | None = None,
    name: str | None = None,
) -> te.Tensor:
    """The int32 product of `x` with a weight that `pack_bitserial_dense` packed for `target`.

    `x` is uint8, whose bits above data_bits are ignored; for bipolar weights it is int8, of which
    only the sign counts.
    """
    where = name or "bitserial_dense"
    _check_bits(where, "data_bits", data_bits, coding)
    lanes = _lanes_of(target_of(where, target))
    depth, packed = _check_operands(where, x, weight, lanes, coding)
    features = output_count(where, "out_features", out_features, packed)
    result = result_name(x, "bitserial_dense", name)
    data = _bit_planes(x, data_bits, coding, f"{result}_data")
    total = _sums(data, weight, coding, result)
    padding = -depth % _WORD_BITS if coding is Coding.BIPOLAR else 0  # every padding bit agrees: + 1

    def value(m: te.Value, n: te.Value) -> te.Value:
        return total[m, n // lanes, n % lanes] - padding

    return te.compute((x.shape[0], features), value, result, PLACED)


# --- stages ---------------------------------------------------------------------------------------


def _bit_planes(x: te.Tensor, bits: int, coding: Coding, name: str) -> te.Tensor:
    """uint32 [M, K / 32, bits]: the bit planes of the data, padded with zeros."""
    from vdla.compiler.codegen.llvm.intrinsics.bitserial import plane_bit  # loads llvmlite

    rows, depth = x.shape
    b = te.reduce_axis(_WORD_BITS, "b")
    codes = _codes(x, coding, f"{name}_codes")

    def value(m: te.Value, k: te.Value, q: te.Value) -> te.Value:
        return te.sum(plane_bit(codes[m, k, b], q, b), axis=b)

    return te.compute((rows, -(-depth // _WORD_BITS), bits), value, name, PLACED)


def _codes(x: te.Tensor, coding: Coding, name: str) -> te.Tensor:
    """uint8 [M, K / 32, 32]: the codes of the data, split into words."""
    rows, depth = x.shape

    def value(m: te.Value, k: te.Value, b: te.Value) -> te.Value:
        place = k * _WORD_BITS + b
        element = te.cast("uint8", x[m, place] > 0) if coding is Coding.BIPOLAR else x[m, place]
        return te.select(place < depth, element, te.const(0, "uint8")) if depth % _WORD_BITS else element

    return te.compute((rows, -(-depth // _WORD_BITS), _WORD_BITS), value, name, PLACED)


def _sums(data: te.Tensor, weight: te.Tensor, coding: Coding, name: str) -> te.Tensor:
    """int32 [M, N / lanes, lanes]."""
    from vdla.compiler.codegen.llvm.intrinsics.bitserial import bit_agreement, bit_product  # loads llvmlite

    blocks, words, weight_bits, lanes = weight.shape
    k, b = te.reduce_axis(words, "k"), te.reduce_axis(_WORD_BITS, "b")
    p, q = te.reduce_axis(weight_bits, "p"), te.reduce_axis(data.shape[2], "q")

    def value(m: te.Value, n: te.Value, o: te.Value) -> te.Value:
        if coding is Coding.BIPOLAR:
            return te.sum(bit_agreement(weight[n, k, 0, o], data[m, k, 0], b), axis=[k, b])
        term = bit_product(weight[n, k, p, o], data[m, k, q], p, q, b, weight_bits if coding is Coding.SIGNED else None)
        return te.sum(term, axis=[k, p, q, b])

    stages = {OPERATOR: "bitserial_dense", DATA: data.name, RESULT: name, CODING: coding.value}
    return te.compute((data.shape[0], blocks, lanes), value, f"{name}_sum", stages)


# --- checks ---------------------------------------------------------------------------------------


def _lanes_of(target: Target) -> int:
    """The int32 sums in one vector of `target`."""
    return target.lanes(_SUM_BYTES)


def _check_bits(where: str, what: str, bits: object, coding: Coding) -> None:
    """Refuse a number of bits without an intrinsic."""
    if not isinstance(coding, Coding):
        raise OperatorError(f"{where}: coding must be a Coding, got {coding!r}")
    if integer(where, what, bits) not in _BITS:
        raise OperatorError(f"{where}: {what} must be 1 or 2, got {bits}")
    if coding is Coding.BIPOLAR and bits != 1:
        raise OperatorError(f"{where}: {what} must be 1 where the coding is bipolar, got {bits}")


def _check_range(where: str, weight: Array, bits: int, coding: Coding) -> None:
    """Refuse weights out of the range of their coding."""
    allowed = {
        Coding.UNSIGNED: range(1 << bits),
        Coding.SIGNED: range(-(1 << bits - 1), 1 << bits - 1),
        Coding.BIPOLAR: range(-1, 2, 2),
    }[coding]
    outside = weight[~np.isin(weight, list(allowed))]
    if outside.size:
        numbers = ", ".join(map(str, allowed))
        raise OperatorError(f"{where}: {coding.value} weights must be among {numbers}, got {outside[0]}")


def _check_operands(where: str, x: te.Tensor, weight: te.Tensor, lanes: int, coding: Coding) -> tuple[int, int]:
    """K, and the outputs of the weight, whose layout must fit the data and the target."""
    check_rank(where, "x", x, 2, 2)
    check_choice(where, "the dtype of x", x.dtype, ("int8",) if coding is Coding.BIPOLAR else ("uint8",))
    blocks, *entries = packed_extents(where, weight, 4)
    depth = static_extent(where, "extent 1 of x", x.shape[1])
    words, bits = -(-depth // _WORD_BITS), (1,) if coding is Coding.BIPOLAR else _BITS
    if weight.dtype != "uint32" or entries not in [[words, planes, lanes] for planes in bits]:
        wanted = f"uint32[N / {lanes}, {words}, {' or '.join(map(str, bits))}, {lanes}]"
        raise packing_error(where, weight, wanted, "pack_bitserial_dense")
    return depth, blocks * lanes
