"""The dense layer of numbers of one or two bits, [M, K] to int32 [M, N]: planes of bits, AND and counts of ones.

The data are taken apart into planes (`<name>_data`), multiplied plane by plane (`<name>_sum`) and put in order
(`<name>`). Packed weights of two bits are a quarter of the size of int8 ones, which is what a product of a matrix and a
vector waits for.
"""

from __future__ import annotations

from enum import Enum

import numpy as np

from vdla.compiler import te
from vdla.compiler.ir import Array
from vdla.compiler.operators.checks import OperatorError, check_choice, check_rank, integer, machine_of, static_extent
from vdla.compiler.operators.quantise import kept_outputs, not_packed, packed_shape
from vdla.compiler.operators.qweights import check_weight, padded_to
from vdla.compiler.operators.results import result_name
from vdla.compiler.target import Target

WORD_BITS = 32  # of a word of one plane, as in the intrinsics
LANES_BITS = 32  # of one sum
BITS = (1, 2)


class Coding(Enum):
    """What the bits of a weight mean: 0, 1, ...; two's complement; or, of one bit each, -1 and 1 (the data's too)."""

    UNSIGNED = "unsigned"
    SIGNED = "signed"
    BIPOLAR = "bipolar"


def pack_bitserial_dense(weight: Array, bits: int, coding: Coding, target: Target | str) -> Array:
    """Weights int8 [N, K] in the range of `bits` bits as uint32 [N / lanes, K / 32, bits, lanes] of planes.

    Bipolar weights are -1 and 1, of one bit.
    """
    where = "pack_bitserial_dense"
    check_bits(where, "bits", bits, coding)
    check_weight(where, weight, 2, "[N, K]")
    check_range(where, weight, bits, coding)
    lanes = lanes_of(machine_of(where, target))
    codes = padded_to((weight > 0 if coding is Coding.BIPOLAR else weight).astype(np.uint8), (lanes, WORD_BITS))
    blocks = codes.reshape(-1, lanes, codes.shape[1] // WORD_BITS, WORD_BITS).astype(np.uint32)
    order = np.arange(WORD_BITS, dtype=np.uint32)
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
    """The int32 product of `x` with weights that `pack_bitserial_dense` packed for `target`.

    `x` is uint8 and below 2**data_bits, or int8 of -1 and 1 where the coding is bipolar; other numbers count with their
    low bits, or by their sign.
    """
    where = name or "bitserial_dense"
    check_bits(where, "data_bits", data_bits, coding)
    lanes = lanes_of(machine_of(where, target))
    depth, packed = check_operands(where, x, weight, lanes, coding)
    features = kept_outputs(where, "out_features", out_features, packed)
    result = result_name(x, "bitserial_dense", name)
    data = planes(x, data_bits, coding, f"{result}_data")
    total = summed(data, weight, coding, result)
    behind = -depth % WORD_BITS if coding is Coding.BIPOLAR else 0  # elements behind K agree

    def value(m: te.Value, n: te.Value) -> te.Value:
        return total[m, n // lanes, n % lanes] - behind

    return te.compute((x.shape[0], features), value, result, {"operator": "dot_rows_result"})


# --- stages ----------------------------------------------------------------------------------------------------------


def planes(x: te.Tensor, bits: int, coding: Coding, name: str) -> te.Tensor:
    """uint32 [M, K / 32, bits]: the planes of the data, with zeros behind K."""
    from vdla.compiler.codegen.llvm.intrinsics.bitserial import plane_bit  # loads llvmlite

    rows, depth = x.shape
    b = te.reduce_axis(WORD_BITS, "b")
    whole = codes(x, coding, f"{name}_codes")

    def value(m: te.Value, k: te.Value, q: te.Value) -> te.Value:
        return te.sum(plane_bit(whole[m, k, b], q, b), axis=b)

    return te.compute((rows, -(-depth // WORD_BITS), bits), value, name, {"operator": "bitserial_data"})


def codes(x: te.Tensor, coding: Coding, name: str) -> te.Tensor:
    """uint8 [M, K / 32, 32]: the bits of the data, elements of a word together."""
    rows, depth = x.shape

    def value(m: te.Value, k: te.Value, b: te.Value) -> te.Value:
        place = k * WORD_BITS + b
        element = te.cast("uint8", x[m, place] > 0) if coding is Coding.BIPOLAR else x[m, place]
        return te.select(place < depth, element, te.const(0, "uint8")) if depth % WORD_BITS else element

    return te.compute((rows, -(-depth // WORD_BITS), WORD_BITS), value, name, {"operator": "bitserial_codes"})


def summed(data: te.Tensor, weight: te.Tensor, coding: Coding, name: str) -> te.Tensor:
    """int32 [M, N / lanes, lanes]."""
    from vdla.compiler.codegen.llvm.intrinsics.bitserial import bit_agreement, bit_product  # loads llvmlite

    blocks, words, weight_bits, lanes = weight.shape
    k, b = te.reduce_axis(words, "k"), te.reduce_axis(WORD_BITS, "b")
    p, q = te.reduce_axis(weight_bits, "p"), te.reduce_axis(data.shape[2], "q")

    def value(m: te.Value, n: te.Value, o: te.Value) -> te.Value:
        if coding is Coding.BIPOLAR:
            return te.sum(bit_agreement(weight[n, k, 0, o], data[m, k, 0], b), axis=[k, b])
        term = bit_product(weight[n, k, p, o], data[m, k, q], p, q, b, weight_bits if coding is Coding.SIGNED else None)
        return te.sum(term, axis=[k, p, q, b])

    stages = {"operator": "bitserial_dense", "data": data.name, "result": name, "coding": coding.value}
    return te.compute((data.shape[0], blocks, lanes), value, f"{name}_sum", stages)


# --- checks ----------------------------------------------------------------------------------------------------------


def lanes_of(target: Target) -> int:
    """The sums in one vector of `target`."""
    return target.lanes(LANES_BITS // 8)


def check_bits(where: str, what: str, bits: object, coding: Coding) -> None:
    """Refuse numbers of bits that there is no product for."""
    if not isinstance(coding, Coding):
        raise OperatorError(f"{where}: coding must be a Coding, got {coding!r}")
    if integer(where, what, bits) not in BITS:
        raise OperatorError(f"{where}: {what} must be 1 or 2, got {bits}")
    if coding is Coding.BIPOLAR and bits != 1:
        raise OperatorError(f"{where}: {what} must be 1 where the coding is bipolar, got {bits}")


def check_range(where: str, weight: Array, bits: int, coding: Coding) -> None:
    """Refuse weights that have no code."""
    allowed = {
        Coding.UNSIGNED: range(1 << bits),
        Coding.SIGNED: range(-(1 << bits - 1), 1 << bits - 1),
        Coding.BIPOLAR: range(-1, 2, 2),
    }[coding]
    outside = weight[~np.isin(weight, list(allowed))]
    if outside.size:
        numbers = ", ".join(map(str, allowed))
        raise OperatorError(f"{where}: {coding.value} weights must be among {numbers}, got {outside[0]}")


def check_operands(where: str, x: te.Tensor, weight: te.Tensor, lanes: int, coding: Coding) -> tuple[int, int]:
    """The depth of the sums and the outputs of the weights; refuses data and weights that do not fit each other."""
    check_rank(where, "x", x, 2, 2)
    check_choice(where, "the dtype of x", x.dtype, ("int8",) if coding is Coding.BIPOLAR else ("uint8",))
    blocks, *entries = packed_shape(where, weight, 4)
    depth = static_extent(where, "extent 1 of x", x.shape[1])
    words, bits = -(-depth // WORD_BITS), (1,) if coding is Coding.BIPOLAR else BITS
    if weight.dtype != "uint32" or entries not in [[words, planes, lanes] for planes in bits]:
        wanted = f"uint32[N / {lanes}, {words}, {' or '.join(map(str, bits))}, {lanes}]"
        raise not_packed(where, weight, wanted, "pack_bitserial_dense")
    return depth, blocks * lanes
