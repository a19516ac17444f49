"""The quantised dense layer, [M, K] to [M, N]: ONNX's QLinearMatMul and MatMulInteger, for constant weights.

The data in groups (`<name>_data`), the sums in lanes of outputs (`<name>_sum`), and the result (`<name>`). Weights,
bias and scale come from `pack_qdense`.
"""

from __future__ import annotations

from vdla.compiler import te
from vdla.compiler.operators.checks import OperatorError, check_rank
from vdla.compiler.operators.qconv2d import kept_channels
from vdla.compiler.operators.quantise import (
    check_quantised,
    check_rescaling,
    check_vector,
    requantised,
    shift_of,
    shifted,
)
from vdla.compiler.operators.qweights import DotLayout, layout_of
from vdla.compiler.target import Target


def qdense(
    x: te.Tensor,
    weight: te.Tensor,
    bias: te.Tensor,
    scale: te.Tensor | None,
    target: Target,
    out_features: int | None = None,
    y_zero_point: int = 0,
    dtype: str = "uint8",
    name: str = "qdense",
) -> te.Tensor:
    """The product of uint8 or int8 `x` with packed int8 weights; without `scale` the int32 sums are the result.

    `weight` is [N / lanes, K / group, lanes, group] as `pack_qdense` makes it for `target`; of its outputs the first
    `out_features` (all of them by default) are kept.
    """
    layout = layout_of(target)
    check_operands(name, x, weight, layout)
    packed = weight.shape[0] * layout.lanes
    features = kept_channels(name, packed, out_features)
    if scale is None:
        check_vector(name, "bias", bias, packed, "int32")
    else:
        check_rescaling(name, bias, scale, packed, y_zero_point, dtype)
    data = grouped(x, layout, f"{name}_data")
    total = summed(data, weight, layout, name)

    def value(m: te.Value, n: te.Value) -> te.Value:
        biased = total[m, n // layout.lanes, n % layout.lanes] + bias[n]
        return biased if scale is None else requantised(biased, scale[n], y_zero_point, dtype)

    return te.compute((x.shape[0], features), value, name, {"operator": "dot_rows_result"})


def grouped(x: te.Tensor, layout: DotLayout, name: str) -> te.Tensor:
    """[M, K / group, group] in the dtype that the dot product reads; what lies behind K meets weights of 0."""
    rows, depth = x.shape

    def value(m: te.Value, k: te.Value, i: te.Value) -> te.Value:
        place = k * layout.group + i
        element = shifted(x[m, place], layout.data)
        rest = te.const(shift_of(x.dtype, layout.data), layout.data)
        return te.select(place < depth, element, rest) if depth % layout.group else element

    return te.compute((rows, -(-depth // layout.group), layout.group), value, name, {"operator": "dot_rows_data"})


def summed(data: te.Tensor, weight: te.Tensor, layout: DotLayout, name: str) -> te.Tensor:
    """[M, N / lanes, lanes]: the int32 sums."""
    k, i = te.reduce_axis(data.shape[1], "k"), te.reduce_axis(layout.group, "i")

    def value(m: te.Value, b: te.Value, o: te.Value) -> te.Value:
        return te.sum(te.cast("int32", data[m, k, i]) * te.cast("int32", weight[b, k, o, i]), axis=[k, i])

    stages = {"operator": "qdense", "data": data.name, "result": name}
    return te.compute((data.shape[0], weight.shape[0], layout.lanes), value, f"{name}_sum", stages)


def check_operands(where: str, x: te.Tensor, weight: te.Tensor, layout: DotLayout) -> None:
    """Refuse data and weights that do not fit each other, or the layout."""
    check_rank(where, "x", x, 2, 2)
    check_quantised(where, "x", x)
    check_rank(where, "weight", weight, 4, 4)
    groups, entry = -(-x.shape[1] // layout.group), (layout.lanes, layout.group)
    if weight.dtype != layout.weights or weight.shape[1:] != (groups, *entry):
        wanted = f"{layout.weights}[N / {layout.lanes}, {groups}, {layout.lanes}, {layout.group}]"
        found = f"{weight.dtype}{list(weight.shape)}"
        raise OperatorError(f"{where}: weight must be {wanted}, got {found}; pack_qdense packs it for a target")
