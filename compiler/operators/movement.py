# SPDX-License-Identifier: Apache-2.0
"""Operators that only move elements, of any dtype: transpose, reshape, concat, split, slice.

Negative axes count from the end.
"""

from __future__ import annotations

import builtins
import itertools
import math
from collections import Counter
from collections.abc import Sequence

from vdla.compiler import te
from vdla.compiler.operators.checks import (
    OperatorError,
    at_least,
    axes_of,
    axis_of,
    check_choice,
    check_rank,
    check_same_dtype,
    check_tensor,
    dim_text,
    extents_of,
    integer,
    integers,
    is_one,
    same_shape,
    sequence,
    shape_text,
    static_extent,
    static_extents,
    to_list,
)
from vdla.compiler.operators.results import result_name
from vdla.compiler.operators.roles import GROUPED, OPERATOR, RUNS, TILED_TRANSPOSE

_ZERO = te.const(0, "int32")
_GROUP = 4  # elements: lanes at this distance are loaded and shuffled


def transpose(x: te.Tensor, perm: Sequence[int] | None = None, name: str | None = None) -> te.Tensor:
    """Dimension d of the result is dimension perm[d] of `x`; None reverses the dimensions."""
    check_tensor("transpose", "x", x)
    rank = len(x.shape)
    given = range(rank)[::-1] if perm is None else sequence("transpose", "perm", perm)
    source = [axis_of("transpose", rank, d, "every entry of perm") for d in given]
    if sorted(source) != list(range(rank)):
        raise OperatorError(f"transpose: perm must name each of {rank} dimensions once, got {list(given)}")
    inverse = [source.index(d) for d in range(rank)]
    shape = [x.shape[d] for d in source]
    return te.compute(shape, lambda *i: x[tuple(i[d] for d in inverse)], result_name(x, "transpose", name))


def moved_runs(shape: Sequence[te.Dim], perm: Sequence[int]) -> list[tuple[int, ...]]:
    """The dimensions of a tensor in the order of `perm`, without those of extent 1; neighbours that
    move together are one run.
    """
    moved = [d for d in perm if not is_one(shape[d])]
    following = dict(itertools.pairwise(sorted(moved)))
    runs: list[tuple[int, ...]] = []
    for d in moved:
        if runs and following.get(runs[-1][-1]) == d:
            runs[-1] += (d,)
        else:
            runs.append((d,))
    return runs


def tiled_transpose(x: te.Tensor, perm: Sequence[int], name: str) -> te.Tensor:
    """The transposition of `transpose`, of static extents, where the last run of dimensions moves:
    elements are regrouped first, so that lanes along the result need shuffles only.
    """
    runs = moved_runs(x.shape, perm)
    moved, lanes = runs.index(max(runs)), len(runs) - 1
    extents = [static_extents("transpose", "extent", [x.shape[d] for d in run]) for run in runs]
    lengths = [math.prod(run) for run in extents]
    outer = [r for r in range(lanes) if r != moved]

    def group(*i: te.Value) -> te.Value:
        *images, groups, lane, element = i
        place = groups * _GROUP + element
        places = dict(zip(outer, images, strict=True)) | {lanes: lane, moved: place}
        digits = [_unravel_index(places[r], extents[r]) for r in range(len(runs))]
        at = dict(zip(itertools.chain(*runs), itertools.chain(*digits), strict=True))
        value = x[tuple(at.get(d, _ZERO) for d in range(len(perm)))]
        return value if lengths[moved] % _GROUP == 0 else te.select(place < lengths[moved], value, te.const(0, x.dtype))

    shape = (*(lengths[r] for r in outer), -(-lengths[moved] // _GROUP), lengths[lanes], _GROUP)
    results = tuple(tuple(map(list(perm).index, run)) for run in runs)
    groups = te.compute(shape, group, f"{name}_groups", {OPERATOR: TILED_TRANSPOSE, RUNS: results, GROUPED: moved})

    def value(*i: te.Value) -> te.Value:
        at = [_ravel_index([i[d] for d in run], kinds) for run, kinds in zip(results, extents, strict=True)]
        return groups[(*(at[r] for r in outer), at[moved] // _GROUP, at[lanes], at[moved] % _GROUP)]

    return te.compute([x.shape[d] for d in perm], value, name)


# --- the same elements under another shape --------------------------------------------------------


def reshape(x: te.Tensor, shape: Sequence[te.Dim], allowzero: bool = False, name: str | None = None) -> te.Tensor:
    """The elements of `x` in row-major order under another shape.

    One extent may be -1: it is computed from the others. 0 keeps the extent of `x`, unless
    `allowzero`. A symbolic extent of `x` must be an extent of the result, or the one inferred for
    -1.
    """
    check_tensor("reshape", "x", x)
    target = _new_shape(x.shape, extents_of("reshape", "shape", shape), allowzero)
    runs = _matched_runs(x.shape, target)

    def value(*i: te.Value) -> te.Value:
        places: list[te.Value] = []
        for (start, stop), (first, last) in runs:
            places += _unravel_index(_ravel_index(i[first:last], target[first:last]), x.shape[start:stop])
        return x[tuple(places)]

    return te.compute(target, value, result_name(x, "reshape", name))


def _new_shape(old: Sequence[te.Dim], wanted: Sequence[te.Dim], allowzero: bool) -> tuple[te.Dim, ...]:
    """The shape of a reshape, with -1 and 0 replaced."""
    asked = f"got {shape_text(old)} to {shape_text(wanted)}"
    if any(_is_number(e, 0) and (allowzero or d >= len(old)) for d, e in enumerate(wanted)):
        raise OperatorError(f"reshape: the result must have elements, {asked}")
    shape = [old[d] if _is_number(extent, 0) else extent for d, extent in enumerate(wanted)]
    unknown = [d for d, extent in enumerate(shape) if _is_number(extent, -1)]
    if not shape or len(unknown) > 1 or any(isinstance(e, int) and e < -1 for e in shape):
        raise OperatorError(f"reshape: extents must be positive, 0, or once -1, {asked}")
    (total, symbols), (known, present) = _volume(old), _volume([e for e in shape if not _is_number(e, -1)])
    free = symbols - present
    if present - symbols or (free and (not unknown or free.total() > 1 or total != known)):
        raise OperatorError(f"reshape: a symbolic extent must stay, {asked}")
    if total % known or (not unknown and total != known):
        raise OperatorError(f"reshape: the number of elements must stay, {asked}")
    inferred = next((e for e in old if isinstance(e, te.Value) and dim_text(e) in free), total // known)
    return tuple(inferred if d in unknown else extent for d, extent in enumerate(shape))


def _is_number(extent: te.Dim, number: int) -> bool:
    """Whether an extent is the given number."""
    return isinstance(extent, int) and extent == number


def _volume(extents: Sequence[te.Dim]) -> tuple[int, Counter[str]]:
    """The product of the static extents, and the multiset of the symbolic ones."""
    numbers = math.prod(extent for extent in extents if isinstance(extent, int))
    return numbers, Counter(dim_text(extent) for extent in extents if not isinstance(extent, int))


_Run = tuple[int, int]  # dimensions start..stop


def _matched_runs(old: Sequence[te.Dim], new: Sequence[te.Dim]) -> list[tuple[_Run, _Run]]:
    """The shortest runs of dimensions of equal size, which keeps index arithmetic short."""
    runs = []
    start = first = 0
    while start < len(old) or first < len(new):
        stop, last = min(start + 1, len(old)), min(first + 1, len(new))
        while (a := _volume(old[start:stop])) != (b := _volume(new[first:last])):
            shorter = a[1] < b[1] or (a[1] == b[1] and a[0] < b[0])
            if (shorter and stop < len(old)) or last == len(new):
                stop += 1
            else:
                last += 1
        runs.append(((start, stop), (first, last)))
        start, first = stop, last
    return runs


def _ravel_index(indices: Sequence[te.Value], extents: Sequence[te.Dim]) -> te.Value:
    """The row-major position of an index."""
    total: te.Value = _ZERO
    for index, extent in zip(indices, extents, strict=True):
        total = total * extent + index if total is not _ZERO else index
    return total


def _unravel_index(position: te.Value, extents: Sequence[te.Dim]) -> list[te.Value]:
    """The index at a row-major position."""
    places: list[te.Value] = []
    below: te.Dim = 1
    for d in range(len(extents) - 1, -1, -1):
        digit = position if is_one(below) else position // below
        below = below * extents[d]
        last = all(is_one(extent) for extent in extents[:d])
        places.append(_ZERO if is_one(extents[d]) else digit if last else digit % extents[d])
    return places[::-1]


def flatten(x: te.Tensor, axis: int = 1, name: str | None = None) -> te.Tensor:
    """A matrix: the dimensions before `axis` make its rows, the others its columns."""
    check_tensor("flatten", "x", x)
    rank = len(x.shape)
    cut = integer("flatten", "axis", axis)
    if not -rank <= cut <= rank:
        raise OperatorError(f"flatten: axis must be in {-rank}..{rank}, got {cut}")
    cut = cut % rank if cut < rank else rank
    shape = (_product(x.shape[:cut]), _product(x.shape[cut:]))
    return reshape(x, shape, name=result_name(x, "flatten", name))


def _product(extents: Sequence[te.Dim]) -> te.Dim:
    """The product of extents."""
    total: te.Dim = 1
    for extent in extents:
        total = total * extent
    return total


def squeeze(x: te.Tensor, axes: int | Sequence[int] | None = None, name: str | None = None) -> te.Tensor:
    """`x` without the given dimensions of extent 1, None for all; at least one dimension stays."""
    check_tensor("squeeze", "x", x)
    rank = len(x.shape)
    dropped = axes_of("squeeze", rank, axes) if axes is not None else [d for d in range(rank) if is_one(x.shape[d])]
    for d in dropped:
        if not is_one(x.shape[d]):
            raise OperatorError(f"squeeze: dimension {d} must have the extent 1, got {dim_text(x.shape[d])}")
    remaining = [d for d in range(rank) if d not in dropped] or [0]
    shape = [x.shape[d] for d in remaining]

    def value(*i: te.Value) -> te.Value:
        at = dict(zip(remaining, i, strict=True))
        return x[tuple(at.get(d, _ZERO) for d in range(rank))]

    return te.compute(shape, value, result_name(x, "squeeze", name))


def unsqueeze(x: te.Tensor, axes: int | Sequence[int], name: str | None = None) -> te.Tensor:
    """`x` with dimensions of extent 1 inserted; `axes` are dimensions of the result."""
    check_tensor("unsqueeze", "x", x)
    if axes is None:
        raise OperatorError("unsqueeze: axes must be an integer or several, got None")
    given = to_list(axes)
    added = len(given) if isinstance(given, Sequence) else 1
    new = axes_of("unsqueeze", len(x.shape) + added, given)
    source = iter(x.shape)
    shape = [1 if d in new else next(source) for d in range(len(x.shape) + added)]
    old = [d for d in range(len(shape)) if d not in new]
    return te.compute(shape, lambda *i: x[tuple(i[d] for d in old)], result_name(x, "unsqueeze", name))


# --- parts of tensors -----------------------------------------------------------------------------


def concat(tensors: Sequence[te.Tensor], axis: int = 0, name: str | None = None) -> te.Tensor:
    """The tensors joined along `axis`."""
    if not sequence("concat", "tensors", tensors):
        raise OperatorError("concat: tensors must be at least one, got none")
    check_same_dtype("concat", *tensors)
    along = axis_of("concat", len(tensors[0].shape), axis)
    for tensor in tensors[1:]:
        _check_joinable(tensors[0], tensor, along)
    lengths = [static_extent("concat", f"the extent of {tensor.name}", tensor.shape[along]) for tensor in tensors]
    starts = [sum(lengths[:n]) for n in range(len(tensors) + 1)]
    shape = [starts[-1] if d == along else extent for d, extent in enumerate(tensors[0].shape)]

    def value(*i: te.Value) -> te.Value:
        parts = [t[(*i[:along], i[along] - start, *i[along + 1 :])] for t, start in zip(tensors, starts, strict=False)]
        element = parts[-1]
        for part, end in zip(parts[-2::-1], starts[-2:0:-1], strict=True):
            element = te.select(i[along] < end, part, element)
        return element

    return te.compute(shape, value, result_name(tensors[0], "concat", name))


def _check_joinable(first: te.Tensor, second: te.Tensor, along: int) -> None:
    """Refuse a tensor whose other extents differ from those of the first one."""
    a, b = list(first.shape), list(second.shape)
    if len(a) != len(b) or not same_shape(a[:along] + a[along + 1 :], b[:along] + b[along + 1 :]):
        text = f"{shape_text(a)} and {shape_text(b)}"
        raise OperatorError(f"concat: shapes must be equal except along axis {along}, got {text}")


def split(
    x: te.Tensor,
    axis: int = 0,
    split: Sequence[int] | None = None,
    num_outputs: int | None = None,
    names: Sequence[str] | None = None,
) -> tuple[te.Tensor, ...]:
    """`x` cut along `axis` into lengths `split`, or `num_outputs` parts, the last shorter."""
    check_tensor("split", "x", x)
    along = axis_of("split", len(x.shape), axis)
    extent = static_extent("split", "the extent", x.shape[along])
    if (split is None) == (num_outputs is None):
        raise OperatorError(f"split: exactly one of split and num_outputs must be given, got {split} and {num_outputs}")
    given = _part_lengths(extent, num_outputs) if split is None else sequence("split", "split", split)
    lengths = [at_least("split", "every length", length, 1) for length in given]
    if sum(lengths) != extent:
        raise OperatorError(f"split: split must sum to the extent {extent}, got {lengths}")
    titles = [f"{x.name}_{n}" for n in range(len(lengths))] if names is None else sequence("split", "names", names)
    if len(titles) != len(lengths):
        raise OperatorError(f"split: names must be {len(lengths)}, one for each part, got {len(titles)}")
    starts = [sum(lengths[:n]) for n in range(len(lengths))]
    pieces = zip(starts, lengths, titles, strict=True)
    return tuple(slice(x, [start], [start + length], [along], name=title) for start, length, title in pieces)


def _part_lengths(extent: int, num_outputs: object) -> list[int]:
    """The lengths of equal parts; the last one has the remainder."""
    count = at_least("split", "num_outputs", num_outputs, 1)
    length = -(-extent // count)
    if length * (count - 1) >= extent:
        raise OperatorError(f"split: every part must have elements, got {count} parts of {extent}")
    return [length] * (count - 1) + [extent - length * (count - 1)]


def slice(
    x: te.Tensor,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int] | None = None,
    steps: Sequence[int] | None = None,
    name: str | None = None,
) -> te.Tensor:
    """x[start:end:step] along each of `axes`, None for the leading dimensions.

    Bounds are clamped as in Python, except that a start before the first element is the first
    element for negative steps too, as in ONNX.
    """
    check_tensor("slice", "x", x)
    rank = len(x.shape)
    given = range(len(sequence("slice", "starts", starts))) if axes is None else sequence("slice", "axes", axes)
    dimensions = [axis_of("slice", rank, d, "every axis") for d in given]
    if len(set(dimensions)) != len(dimensions):
        raise OperatorError(f"slice: axes must name each dimension once, got {list(given)}")
    lows, highs = integers("slice", "starts", starts, len(dimensions)), integers("slice", "ends", ends, len(dimensions))
    strides = integers("slice", "steps", 1 if steps is None else steps, len(dimensions))
    positions = {
        d: _positions(static_extent("slice", f"extent {d}", x.shape[d]), *bounds)
        for d, *bounds in zip(dimensions, lows, highs, strides, strict=True)
    }
    shape = [len(positions[d]) if d in positions else extent for d, extent in enumerate(x.shape)]

    def value(*i: te.Value) -> te.Value:
        return x[tuple(at * positions[d].step + positions[d].start if d in positions else at for d, at in enumerate(i))]

    return te.compute(shape, value, result_name(x, "slice", name))


def _positions(extent: int, start: int, end: int, step: int) -> range:
    """The positions of a slice."""
    if step == 0:
        raise OperatorError("slice: steps must not be 0, got 0")
    positions = range(*builtins.slice(max(start, -extent), end, step).indices(extent))
    if not positions:
        raise OperatorError(f"slice: the result must have elements, got {start}:{end}:{step} of {extent}")
    return positions


def tile(x: te.Tensor, repeats: int | Sequence[int], name: str | None = None) -> te.Tensor:
    """`x` repeated `repeats` times along each dimension."""
    check_tensor("tile", "x", x)
    times = integers("tile", "repeats", repeats, len(x.shape), 1)
    shape = [extent * n for extent, n in zip(x.shape, times, strict=True)]

    def value(*i: te.Value) -> te.Value:
        return x[tuple(at if n == 1 else at % extent for at, extent, n in zip(i, x.shape, times, strict=True))]

    return te.compute(shape, value, result_name(x, "tile", name))


# --- between channels and space -------------------------------------------------------------------


def depth_to_space(x: te.Tensor, blocksize: int, mode: str = "DCR", name: str | None = None) -> te.Tensor:
    """[N, C, H, W] to [N, C / blocksize^2, H * blocksize, W * blocksize].

    The position in a block is the slow part of the input channel in `mode` "DCR", the fast part in
    "CRD".
    """
    check_rank("depth_to_space", "x", x, 4, 4)
    check_choice("depth_to_space", "mode", mode, ("DCR", "CRD"))
    size = at_least("depth_to_space", "blocksize", blocksize, 1)
    images, _, rows, columns = x.shape
    channels = static_extent("depth_to_space", "channels", x.shape[1])
    if channels % (size * size):
        raise OperatorError(f"depth_to_space: channels must be a multiple of {size * size}, got {channels}")
    depth = channels // (size * size)

    def value(n: te.Value, c: te.Value, y: te.Value, z: te.Value) -> te.Value:
        phase = (y % size) * size + z % size
        channel = phase * depth + c if mode == "DCR" else c * (size * size) + phase
        return x[n, channel, y // size, z // size]

    return te.compute((images, depth, rows * size, columns * size), value, result_name(x, "depth_to_space", name))


def space_to_depth(x: te.Tensor, blocksize: int, name: str | None = None) -> te.Tensor:
    """[N, C, H, W] to [N, C * blocksize^2, H / blocksize, W / blocksize], the inverse of DCR."""
    check_rank("space_to_depth", "x", x, 4, 4)
    size = at_least("space_to_depth", "blocksize", blocksize, 1)
    images, channels = x.shape[:2]
    rows, columns = static_extents("space_to_depth", "spatial extent", x.shape[2:])
    if rows % size or columns % size:
        raise OperatorError(f"space_to_depth: rows and columns must be multiples of {size}, got {rows} and {columns}")

    def value(n: te.Value, d: te.Value, y: te.Value, z: te.Value) -> te.Value:
        phase = d // channels
        return x[n, d % channels, y * size + phase // size, z * size + phase % size]

    shape = (images, channels * size * size, rows // size, columns // size)
    return te.compute(shape, value, result_name(x, "space_to_depth", name))
