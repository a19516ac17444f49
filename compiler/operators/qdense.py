# SPDX-License-Identifier: Apache-2.0
"""Quantised dense layer: ONNX's QLinearMatMul and MatMulInteger, with symmetric int8 weights.

The stages: `<name>_data` the input in groups; `<name>_sum` the int32 sums, in lanes of outputs;
`<name>` the result. `pack_qdense` makes weight, bias and scale.
"""

from __future__ import annotations

from vdla.compiler import te
from vdla.compiler.operators.checks import OperatorError, check_rank, static_extent, target_of
from vdla.compiler.operators.quantisation import (
    Requantisation,
    check_quantised,
    check_requantisation,
    check_vector,
    convert_activation,
    output_count,
    packed_extents,
    packing_error,
)
from vdla.compiler.operators.quantised_weights import DotLayout, best_dot_layout
from vdla.compiler.operators.results import result_name
from vdla.compiler.operators.roles import DATA, OPERATOR, PLACED, RESULT
from vdla.compiler.target import Target


def qdense(
    x: te.Tensor,
    weight: te.Tensor,
    bias: te.Tensor,
    scale: te.Tensor | None,
    target: Target | str,
    out_features: int | None = None,
    y_zero_point: int = 0,
    dtype: str = "uint8",
    largest_sum: int | None = None,
    clip: tuple[int, int] | None = None,
    name: str | None = None,
) -> te.Tensor:
    """The product of uint8 or int8 `x` with a packed int8 weight; without `scale` the int32 sums.

    `weight` is [N / lanes, K / group, lanes, group], as `pack_qdense` makes it for `target`; its
    first `out_features` are used.
    """
    where = name or "qdense"
    layout = best_dot_layout(target_of(where, target))
    packed = _packed_features(where, x, weight, layout)
    features = output_count(where, "out_features", out_features, packed)
    requantisation = None
    if scale is None:
        check_vector(where, "bias", bias, packed, "int32")
        _check_zero_point_of_sums(where, y_zero_point)
    else:
        requantisation = Requantisation(scale, y_zero_point, dtype, largest_sum, clip, bias)
        check_requantisation(where, bias, packed, requantisation)
    result = result_name(x, "qdense", name)
    data = _group_inputs(x, layout, f"{result}_data")
    total = _sums(data, weight, layout, result)

    def value(m: te.Value, n: te.Value) -> te.Value:
        element = total[m, n // layout.lanes, n % layout.lanes]
        return element + bias[n] if requantisation is None else requantisation.result(element, n)

    return te.compute((x.shape[0], features), value, result, PLACED)


def _group_inputs(x: te.Tensor, layout: DotLayout, name: str) -> te.Tensor:
    """[M, K / group, group]: the input in the dtype of the dot product, padded with zeros."""
    rows, depth = x.shape

    def value(m: te.Value, k: te.Value, i: te.Value) -> te.Value:
        place = k * layout.group + i
        element = convert_activation(x[m, place], layout.data)
        return te.select(place < depth, element, te.const(0, layout.data)) if depth % layout.group else element

    return te.compute((rows, -(-depth // layout.group), layout.group), value, name, PLACED)


def _sums(data: te.Tensor, weight: te.Tensor, layout: DotLayout, name: str) -> te.Tensor:
    """[M, N / lanes, lanes]: the int32 sums."""
    k, i = te.reduce_axis(data.shape[1], "k"), te.reduce_axis(layout.group, "i")

    def value(m: te.Value, b: te.Value, o: te.Value) -> te.Value:
        return te.sum(te.cast("int32", data[m, k, i]) * te.cast("int32", weight[b, k, o, i]), axis=[k, i])

    stages = {OPERATOR: "qdense", DATA: data.name, RESULT: name}
    return te.compute((data.shape[0], weight.shape[0], layout.lanes), value, f"{name}_sum", stages)


def _check_zero_point_of_sums(where: str, zero_point: int) -> None:
    """Refuse a zero point of int32 sums."""
    if zero_point != 0:
        raise OperatorError(f"{where}: y_zero_point must be 0 without a scale, got {zero_point!r}")


def _packed_features(where: str, x: te.Tensor, weight: te.Tensor, layout: DotLayout) -> int:
    """The outputs of the weight, whose layout must fit the data and the target."""
    check_rank(where, "x", x, 2, 2)
    check_quantised(where, "x", x)
    blocks, *entries = packed_extents(where, weight, 4)
    groups = -(-static_extent(where, "extent 1 of x", x.shape[1]) // layout.group)
    if (weight.dtype, *entries) != (layout.weights, groups, layout.lanes, layout.group):
        wanted = f"{layout.weights}[N / {layout.lanes}, {groups}, {layout.lanes}, {layout.group}]"
        raise packing_error(where, weight, wanted, "pack_qdense")
    return blocks * layout.lanes
