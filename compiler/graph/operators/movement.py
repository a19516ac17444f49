# SPDX-License-Identifier: Apache-2.0
"""Rules of operators that only move elements; the result's shape is known from its type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from vdla.compiler import operators, te
from vdla.compiler.graph.layouts import elementwise
from vdla.compiler.graph.machine.calls import concat
from vdla.compiler.graph.operators.record import OperatorRecord, Trait, records
from vdla.compiler.graph.rules.rule import Expression, FusionClass, NodeCall
from vdla.compiler.ir import storage_dtype
from vdla.compiler.operators.movement import moved_runs, tiled_transpose
from vdla.compiler.target import Target

_FEWEST = 8  # elements along which tiles of a transposition pay
_SHUFFLES = {1: "avx512vbmi", 2: "avx512bw", 4: "avx512f", 8: "avx512f"}  # by the bytes of an element
_MODES = ("constant", "edge", "reflect", "wrap")


def _reshape(call: NodeCall) -> te.Tensor:
    return operators.reshape(call.tensor(0), call.extents, name=call.name())


def _transpose(call: NodeCall) -> te.Tensor:
    x, perm = call.tensor(0), call.attribute("perm", None)
    if perm is not None and _pays_in_tiles(call.target, x, perm):
        return tiled_transpose(x, perm, call.name())
    return operators.transpose(x, perm, name=call.name())


def _pays_in_tiles(target: Target, x: te.Tensor, perm: Sequence[int]) -> bool:
    """Whether the last elements of `x` move, and vectors along them and along those of the result
    are filled.
    """
    if sorted(perm) != list(range(len(x.shape))) or not all(isinstance(extent, int) for extent in x.shape):
        return False  # `transpose` refuses a wrong `perm`
    runs = moved_runs(x.shape, perm)
    if not runs or runs[-1] == max(runs):
        return False
    fills = all(prod(x.shape[d] for d in run) >= _FEWEST for run in (runs[-1], max(runs)))
    return fills and target.has(_SHUFFLES[storage_dtype(x.dtype).itemsize])


def _concat(call: NodeCall) -> te.Tensor:
    tensors = [call.tensor(n) for n in range(len(call.node.inputs))]
    axis = call.attribute("axis") % len(call.result.extents)
    return operators.concat(tensors, axis, name=call.name())


def _split(call: NodeCall) -> tuple[te.Tensor, ...]:
    x, axis = call.tensor(0), call.attribute("axis")
    lengths = call.integers(1, "lengths")
    if lengths is None:
        lengths = _equal_parts(x.shape[axis], call.attribute("num_outputs", len(call.node.outputs)))
    if 0 in lengths:
        call.decline(f"have parts with elements, got {list(lengths)}")
    names = [name or f"{call.name()}_part{n}" for n, name in enumerate(call.node.outputs)]
    return operators.split(x, axis, lengths, names=names)


def _equal_parts(extent: int, count: int) -> tuple[int, ...]:
    """The lengths of equal parts, the last of which may be shorter."""
    length = -(-extent // count)
    return (*((length,) * (count - 1)), extent - length * (count - 1))


def _slice(call: NodeCall) -> te.Tensor:
    starts, ends = call.required(1, "starts"), call.required(2, "ends")
    axes, steps = call.integers(3, "axes"), call.integers(4, "steps")
    return operators.slice(call.tensor(0), starts, ends, axes, steps, name=call.name())


def _tile(call: NodeCall) -> te.Tensor:
    return operators.tile(call.tensor(0), call.required(1, "repeats"), name=call.name())


def _expand(call: NodeCall) -> te.Tensor:
    return operators.broadcast_to(call.tensor(0), call.extents, name=call.name())


def _pad(call: NodeCall) -> te.Tensor:
    x, mode = call.tensor(0), call.attribute("mode")
    if mode not in _MODES:
        call.decline(f"have a mode among {', '.join(_MODES)}, got {mode}")
    pads = _all_pads(len(x.shape), call.required(1, "pads"), call.integers(3, "axes"))
    fill = call.constant(2, "constant_value") if mode == "constant" else None
    value = 0 if fill is None else fill.reshape(-1)[0].item()
    if x.dtype == "bool":
        call.decline("have numbers, got bool")
    return operators.pad(x, pads, value, mode, name=call.name())


def _all_pads(rank: int, given: tuple[int, ...], axes: tuple[int, ...] | None) -> list[int]:
    """The padding of all dimensions; `given` has the pads of `axes`."""
    pads = [0] * (2 * rank)
    named = range(len(given) // 2) if axes is None else axes
    for n, axis in enumerate(named):
        pads[axis % rank] = given[n]
        pads[rank + axis % rank] = given[len(named) + n]
    return pads


def _depth_to_space(call: NodeCall) -> te.Tensor:
    mode = call.attribute("mode")
    return operators.depth_to_space(call.tensor(0), call.attribute("blocksize"), mode, name=call.name())


def _space_to_depth(call: NodeCall) -> te.Tensor:
    """CRD puts the position in a block into the fast part of the channel."""
    x, size, name = call.tensor(0), call.attribute("blocksize"), call.name()
    if call.attribute("mode") == "DCR":
        return operators.space_to_depth(x, size, name=name)
    area = size * size

    def value(n: te.Value, c: te.Value, y: te.Value, z: te.Value) -> te.Value:
        phase = c % area
        return x[n, c // area, y * size + phase // size, z * size + phase % size]

    return te.compute(call.extents, value, name)


def _triangle(call: NodeCall) -> te.Tensor:
    """Trilu: the elements on one side of a diagonal, 0 elsewhere."""
    x, diagonal = call.tensor(0), call.integers(1, "k")
    k, upper = (diagonal[0] if diagonal else 0), call.attribute("upper")
    if abs(k) > max(x.shape[-2:]):
        k = max(x.shape[-2:]) * (1 if k > 0 else -1)
    zero = te.const(0, x.dtype)

    def value(*i: te.Value) -> te.Value:
        distance = i[-1] - i[-2]
        return te.select(distance >= k if upper else distance <= k, x[i], zero)

    return te.compute(x.shape, value, call.name())


def _center_crop_pad(call: NodeCall) -> te.Tensor:
    """Crops and pads with 0 about the middle; the extra element of an odd number is last."""
    x, result = call.tensor(0), call.extents
    pads_before, pads_after = [], []
    for extent, wanted in zip(x.shape, result, strict=True):
        spare = wanted - extent
        before = spare // 2 if spare >= 0 else -((-spare) // 2)
        pads_before.append(before)
        pads_after.append(spare - before)
    return operators.pad(x, [*pads_before, *pads_after], name=call.name())


def _reverse_sequence(call: NodeCall) -> te.Tensor:
    x, lengths = call.tensor(0), call.tensor(1)
    batch, time = call.attribute("batch_axis"), call.attribute("time_axis")

    def value(*i: te.Value) -> te.Value:
        count = te.cast("int32", te.clip(lengths[i[batch]], 0, x.shape[time]))
        place = te.select(i[time] < count, count - 1 - i[time], i[time])
        return x[tuple(te.clip(place, 0, x.shape[time] - 1) if d == time else at for d, at in enumerate(i))]

    return te.compute(x.shape, value, call.name())


def _eye_like(call: NodeCall) -> te.Tensor:
    k, dtype = call.attribute("k"), call.result.dtype
    one, zero = te.const(1, dtype), te.const(0, dtype)
    return te.compute(call.extents, lambda i, j: te.select(j - i == k, one, zero), call.name())


_MOVEMENTS: Mapping[str, Expression] = {
    "DepthToSpace": _depth_to_space,
    "Expand": _expand,
    "Slice": _slice,
    "SpaceToDepth": _space_to_depth,
    "Split": _split,
    "Tile": _tile,
    "Transpose": _transpose,
}
_RESHAPES: Mapping[str, Expression] = dict.fromkeys(("Flatten", "Reshape", "Squeeze", "Unsqueeze"), _reshape)
_PLAIN: Mapping[str, Expression] = {
    "CenterCropPad": _center_crop_pad,
    "EyeLike": _eye_like,
    "ReverseSequence": _reverse_sequence,
    "Trilu": _triangle,
}
MOVEMENT = (
    *records(FusionClass.INJECTIVE, _MOVEMENTS, Trait.MOVEMENT),
    *records(FusionClass.INJECTIVE, _RESHAPES, Trait.MOVEMENT | Trait.RESHAPE),
    *records(FusionClass.INJECTIVE, _PLAIN),
    OperatorRecord(
        name="Concat",
        fusion=FusionClass.INJECTIVE,
        expression=_concat,
        traits=Trait.JOIN | Trait.COMBINING,
        layout=elementwise.concat,
        template=concat,
    ),
    OperatorRecord(
        name="Pad", fusion=FusionClass.INJECTIVE, expression=_pad, traits=Trait.MOVEMENT, layout=elementwise.pad
    ),
)


# --- reads at data-dependent indices; out of range, the nearest element ---------------------------


_VALUES = 2  # input of OneHot: [off, on]


def _gather(call: NodeCall) -> te.Tensor:
    """The index may be a scalar, which leaves its dimension out of the result."""
    x, indices, axis = call.tensor(0), call.tensor(1), call.attribute("axis")
    if len(x.shape) + len(indices.shape) - 1 == len(call.extents) and len(call.result.extents):
        return operators.gather(x, indices, axis, name=call.name())
    whole = operators.gather(x, indices, axis, name=f"{call.name()}_rows")
    return operators.reshape(whole, call.extents, name=call.name())


def _with_option(function: Callable[..., te.Tensor], option: str) -> Expression:
    """A function of a tensor, indices and one attribute, 0 by default."""
    return lambda call: function(call.tensor(0), call.tensor(1), call.attribute(option, 0), name=call.name())


def _one_hot(call: NodeCall) -> te.Tensor:
    indices, values, axis = call.tensor(0), call.tensor(_VALUES), call.attribute("axis")
    depth = call.extents[axis]
    if len(call.extents) != len(indices.shape) + 1:
        call.decline("have indices of at least one dimension")
    if not indices.dtype.startswith(("int", "uint")):
        indices = operators.cast(indices, "int64", name=f"{call.name()}_indices")
    off, on = (values[te.const(n, "int32")] for n in range(2))
    return operators.one_hot(indices, depth, on, off, axis, name=call.name())


_GATHERS: Mapping[str, Expression] = {
    "Gather": _gather,
    "GatherElements": _with_option(operators.gather_elements, "axis"),
    "GatherND": _with_option(operators.gather_nd, "batch_dims"),
}
GATHERS = (
    *records(FusionClass.INJECTIVE, _GATHERS, Trait.MOVEMENT),
    *records(FusionClass.INJECTIVE, {"OneHot": _one_hot}),
)
