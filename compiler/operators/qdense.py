"""The quantised dense layer, [M, K] to [M, N]: ONNX's QLinearMatMul and MatMulInteger, for int8 weights around 0.

The data in groups (`<name>_data`), the sums in lanes of outputs (`<name>_sum`), and the result (`<name>`). Weights,
bias and scale come from `pack_qdense`.
"""

from __future__ import annotations

from vdla.compiler import te
from vdla.compiler.operators.checks import OperatorError, check_rank, machine_of, static_extent
from vdla.compiler.operators.quantise import (
    check_quantised,
    check_rescaling,
    check_vector,
    kept_outputs,
    not_packed,
    packed_shape,
    requantised,
    shifted,
)
from vdla.compiler.operators.qweights import DotLayout, layout_of
from vdla.compiler.operators.results import result_name
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
    name: str | None = None,
) -> te.Tensor:
    """The product of uint8 or int8 `x` with packed int8 weights; without `scale` the int32 sums are the result.

    `weight` is [N / lanes, K / group, lanes, group] as `pack_qdense` makes it for `target`; of its outputs the first
    `out_features` (all of them by default) are kept.
    """
    where = name or "qdense"
    layout = layout_of(machine_of(where, target))
    packed = packed_features(where, x, weight, layout)
    features = kept_outputs(where, "out_features", out_features, packed)
    if scale is None:
        check_vector(where, "bias", bias, packed, "int32")
        check_sums(where, y_zero_point)
    else:
        check_rescaling(where, bias, scale, packed, y_zero_point, dtype)
    result = result_name(x, "qdense", name)
    data = grouped(x, layout, f"{result}_data")
    total = summed(data, weight, layout, result)

    def value(m: te.Value, n: te.Value) -> te.Value:
        biased = total[m, n // layout.lanes, n % layout.lanes] + bias[n]
        return biased if scale is None else requantised(biased, scale[n], y_zero_point, dtype)

    return te.compute((x.shape[0], features), value, result, {"operator": "dot_rows_result"})


def grouped(x: te.Tensor, layout: DotLayout, name: str) -> te.Tensor:
    """[M, K / group, group] in the dtype that the dot product reads; what lies behind K meets weights of 0."""
    rows, depth = x.shape

    def value(m: te.Value, k: te.Value, i: te.Value) -> te.Value:
        place = k * layout.group + i
        element = shifted(x[m, place], layout.data)
        return te.select(place < depth, element, te.const(0, layout.data)) if depth % layout.group else element

    return te.compute((rows, -(-depth // layout.group), layout.group), value, name, {"operator": "dot_rows_data"})


def summed(data: te.Tensor, weight: te.Tensor, layout: DotLayout, name: str) -> te.Tensor:
    """[M, N / lanes, lanes]: the int32 sums."""
    k, i = te.reduce_axis(data.shape[1], "k"), te.reduce_axis(layout.group, "i")

    def value(m: te.Value, b: te.Value, o: te.Value) -> te.Value:
        return te.sum(te.cast("int32", data[m, k, i]) * te.cast("int32", weight[b, k, o, i]), axis=[k, i])

    stages = {"operator": "qdense", "data": data.name, "result": name}
    return te.compute((data.shape[0], weight.shape[0], layout.lanes), value, f"{name}_sum", stages)


def check_sums(where: str, zero_point: int) -> None:
    """Refuse a zero point of results that are sums."""
    if zero_point != 0:
        raise OperatorError(f"{where}: y_zero_point must be 0 without a scale, got {zero_point!r}")


def packed_features(where: str, x: te.Tensor, weight: te.Tensor, layout: DotLayout) -> int:
    """The outputs of the weights; refuses data and weights that do not fit each other, or the layout."""
    check_rank(where, "x", x, 2, 2)
    check_quantised(where, "x", x)
    blocks, *entries = packed_shape(where, weight, 4)
    groups = -(-static_extent(where, "extent 1 of x", x.shape[1]) // layout.group)
    if (weight.dtype, *entries) != (layout.weights, groups, layout.lanes, layout.group):
        wanted = f"{layout.weights}[N / {layout.lanes}, {groups}, {layout.lanes}, {layout.group}]"
        raise not_packed(where, weight, wanted, "pack_qdense")
    return blocks * layout.lanes
