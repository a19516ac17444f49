# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements, padding and gathering, against NumPy."""

import itertools

import numpy as np
import pytest
from helpers.run_operator import function_of, integers, run

from vdla.compiler import ir, te
from vdla.compiler import operators as ops
from vdla.compiler.operators import OperatorError, pad
from vdla.compiler.operators.cpu import default_schedule
from vdla.compiler.operators.movement import tiled_transpose

DATA = integers((2, 3, 4, 5), "int16", low=-999, high=999)


def assert_same(operator, expected, *arrays):
    got = run(operator, *(arrays or (DATA,)))
    np.testing.assert_array_equal(got, expected)
    assert got.dtype == expected.dtype


@pytest.mark.parametrize("order", [None, *itertools.permutations(range(4))][::5], ids=str)
def test_transpose_equals_numpy(order):
    assert_same(lambda x: ops.transpose(x, order), DATA.transpose(order))


def test_transpose_accepts_negative_axes():
    assert_same(lambda x: ops.transpose(x, (0, -1, 1, -2)), DATA.transpose(0, 3, 1, 2))


@pytest.mark.parametrize(
    "shape", [(120,), (6, 20), (2, 3, 20), (2, 12, 5), (5, 4, 3, 2), (2, 1, 3, 2, 2, 5, 1), (3, -1, 2)], ids=str
)
def test_reshape_equals_numpy(shape):
    assert_same(lambda x: ops.reshape(x, shape), DATA.reshape(shape))


def test_reshape_resolves_0_and_minus_1():
    assert_same(lambda x: ops.reshape(x, (0, -1, 0)), DATA.reshape(2, 15, 4))
    assert_same(lambda x: ops.reshape(x, (1, 1)), np.array([[7]]), np.array([7]))


def test_a_split_dimension_leaves_the_indices_of_others_alone():
    x = te.placeholder((2, 3, 8), "int8", "x")
    text = str(te.create_function([x], [ops.reshape(x, (2, 3, 2, 4), name="y")], "f"))
    assert "y[vi0, vi1, vi2, vi3] = x[vi0, vi1, vi2 * 4 + vi3]" in text


@pytest.mark.parametrize("axis", range(-4, 5))
def test_flatten_splits_the_shape_at_the_axis(axis):
    rows = int(np.prod(DATA.shape[: axis if axis >= 0 else axis + 4]))
    assert_same(lambda x: ops.flatten(x, axis), DATA.reshape(rows, -1))


def test_squeeze_and_unsqueeze_equal_numpy():
    x = DATA.reshape(1, 2, 1, 60, 1)
    assert_same(lambda t: ops.squeeze(t), x.squeeze(), x)
    assert_same(lambda t: ops.squeeze(t, (0, -1)), x.squeeze((0, -1)), x)
    assert_same(lambda t: ops.squeeze(t), np.array([3]), np.array([[3]]))
    assert_same(lambda t: ops.unsqueeze(t, (0, -2, 3)), np.expand_dims(DATA, (0, -2, 3)))
    assert_same(lambda t: ops.unsqueeze(t, -1), np.expand_dims(DATA, -1))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat_and_split_are_inverses(axis):
    parts = [integers((2, 3, 4), seed=n) for n in range(3)]
    whole = np.concatenate([parts[0], *(p.take([0, 1], axis) for p in parts[1:])], axis)
    assert_same(lambda *t: ops.concat(t, axis), whole, parts[0], *(p.take([0, 1], axis) for p in parts[1:]))
    lengths = [whole.shape[axis] - 4, 2, 2]
    pieces = run(lambda t: ops.split(t, axis, lengths), whole)
    for piece, expected in zip(pieces, np.split(whole, np.cumsum(lengths)[:-1], axis), strict=True):
        np.testing.assert_array_equal(piece, expected)


def test_the_last_equal_part_has_the_remainder():
    assert [p.shape for p in run(lambda t: ops.split(t, num_outputs=3), np.arange(8))] == [(3,), (3,), (2,)]


@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps"),
    [
        ((1,), (2,), None, None),
        ((0, 1), (2, 99), (1, -1), None),
        ((-1, 4), (-99, 0), (2, 3), (-1, -2)),
        ((-3, 1), (99, -1), (3, 2), (2, 1)),
    ],
    ids=str,
)
def test_slice_equals_numpy(starts, ends, axes, steps):
    cuts = [slice(None)] * 4
    for n, axis in enumerate(range(len(starts)) if axes is None else axes):
        cuts[axis] = slice(starts[n], ends[n], steps[n] if steps else 1)
    assert_same(lambda x: ops.slice(x, starts, ends, axes, steps), DATA[tuple(cuts)])


def test_a_backward_slice_clamps_its_start_as_onnx():
    assert_same(lambda x: ops.slice(x, [-99], [-99], [2], [-1]), DATA[:, :, :1])


def test_arguments_may_be_numpy_arrays():
    assert_same(lambda x: ops.transpose(x, np.array([3, 1, 0, 2])), DATA.transpose(3, 1, 0, 2))
    assert_same(lambda x: ops.reshape(x, np.array([6, -1])), DATA.reshape(6, -1))
    assert_same(lambda x: ops.slice(x, np.array([1]), np.array([3]), np.array([2])), DATA[:, :, 1:3])
    padded = np.pad(DATA, ((1, 0), (0, 0), (0, 0), (0, 0)))
    assert_same(lambda x: pad(x, np.array([1, *[0] * 7])), padded)


def test_tile_equals_numpy():
    assert_same(lambda x: ops.tile(x, (1, 2, 1, 3)), np.tile(DATA, (1, 2, 1, 3)))


@pytest.mark.parametrize("order", ["DCR", "CRD"])
def test_depth_to_space_and_space_to_depth_equal_the_model(order):
    x = integers((2, 12, 3, 5))
    split = x.reshape(2, 2, 2, 3, 3, 5) if order == "DCR" else x.reshape(2, 3, 2, 2, 3, 5)
    places = (0, 3, 4, 1, 5, 2) if order == "DCR" else (0, 1, 4, 2, 5, 3)
    expected = split.transpose(places).reshape(2, 3, 6, 10)
    assert_same(lambda t: ops.depth_to_space(t, 2, order), expected, x)
    if order == "DCR":
        assert_same(lambda t: ops.space_to_depth(t, 2), x, expected)


# --- padding --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
@pytest.mark.parametrize("amounts", [((0, 0), (1, 2)), ((3, 0), (0, 7)), ((9, 9), (8, 8))], ids=str)
def test_padding_modes_match_numpy(mode, amounts):
    x = integers((3, 4))
    options = {"constant_values": 7} if mode == "constant" else {}
    pairs = list(zip(*amounts, strict=True))
    assert_same(lambda t: pad(t, [*amounts[0], *amounts[1]], 7, mode), np.pad(x, pairs, mode, **options), x)


def test_negative_pads_crop():
    x = integers((5, 6))
    assert_same(lambda t: pad(t, (-1, 2, 0, -3), 9), np.pad(x[1:, :3], ((0, 0), (2, 0)), constant_values=9), x)
    assert_same(lambda t: pad(t, (0, -2, -2, 0), mode="edge"), x[:-2, 2:], x)


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
def test_cropped_elements_are_not_reflected_or_wrapped(mode):
    x = integers((5, 6))
    assert_same(lambda t: pad(t, (-2, 4, 4, -1), mode=mode), np.pad(x[2:, :5], ((0, 4), (4, 0)), mode), x)


def test_reflecting_one_element_repeats_it():
    assert_same(lambda t: pad(t, (2, 2), mode="reflect"), np.full(5, 3), np.array([3]))


# --- gathering ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int32", "int64", "int8"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_equals_numpy(axis, dtype):
    extent = DATA.shape[axis]
    indices = integers((2, 3), dtype, low=-extent, high=extent)
    assert_same(lambda x, i: ops.gather(x, i, axis), np.take(DATA, indices, axis), DATA, indices)


def test_indices_out_of_range_are_clipped_or_wrapped():
    x, indices = np.arange(10, 15), np.array([-(1 << 40), -6, -5, 4, 5, 1 << 40])
    assert_same(lambda t, i: ops.gather(t, i), x[[0, 0, 0, 4, 4, 4]], x, indices)
    assert_same(lambda t, i: ops.gather(t, i, mode="wrap"), x[indices % 5], x, indices)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_gather_elements_equals_numpy(axis):
    x = integers((3, 4, 5))
    indices = integers((2, 3, 4), "int64", low=-x.shape[axis], high=x.shape[axis])
    part = x[tuple(slice(None) if d == axis else slice(n) for d, n in enumerate(indices.shape))]
    assert_same(lambda t, i: ops.gather_elements(t, i, axis), np.take_along_axis(part, indices, axis), x, indices)


def test_gather_nd_equals_numpy():
    x = integers((3, 4, 5))
    points = np.stack([integers((2, 3), "int64", n, 0, e) for n, e in enumerate(x.shape)], -1)
    assert_same(lambda t, i: ops.gather_nd(t, i), x[tuple(np.moveaxis(points, -1, 0))], x, points)
    assert_same(lambda t, i: ops.gather_nd(t, i), x[tuple(np.moveaxis(points[..., :2], -1, 0))], x, points[..., :2])
    columns = integers((3, 2, 1), "int64", low=-4, high=4)
    expected = np.stack([x[n, columns[n, :, 0]] for n in range(3)])
    assert_same(lambda t, i: ops.gather_nd(t, i, 1), expected, x, columns)
    assert_same(lambda t, i: ops.gather_nd(t, i), x[2, 1, 3:4], x, np.array([2, 1, 3]))


def test_one_hot_sets_indices_in_range_only():
    indices = np.array([[0, 3], [-1, 9]])
    on, off = te.const(5, "int8"), te.const(2, "int8")
    expected = np.full((2, 4, 2), 2, np.int8)
    expected[0, 0, 0] = expected[0, 3, 1] = expected[1, 3, 0] = 5
    assert_same(lambda i: ops.one_hot(i, 4, on, off, 1), expected, indices)


X, Y = te.placeholder((2, 3), "int32", "x"), te.placeholder((2, 2), "int32", "y")
F, Z = te.placeholder((2, 3), "float32", "f"), te.placeholder((1, 5, 3, 3), "int32", "z")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ops.transpose(X, (0, 0)), "transpose: perm must name each of 2 dimensions once, got [0, 0]"),
        (lambda: ops.reshape(X, (4,)), "reshape: the number of elements must stay, got [2, 3] to [4]"),
        (lambda: ops.reshape(X, (-1, -1)), "reshape: extents must be positive, 0, or once -1, got [2, 3] to [-1, -1]"),
        (lambda: ops.reshape(X, (6, 1, 0)), "reshape: the result must have elements, got [2, 3] to [6, 1, 0]"),
        (lambda: ops.flatten(X, 3), "flatten: axis must be in -2..2, got 3"),
        (lambda: ops.squeeze(X, 1), "squeeze: dimension 1 must have the extent 1, got 3"),
        (lambda: ops.transpose(X, 5), "transpose: perm must be a sequence, got 5"),
        (lambda: ops.reshape(X, 6), "reshape: shape must be a sequence, got 6"),
        (lambda: ops.unsqueeze(X, None), "unsqueeze: axes must be an integer or several, got None"),
        (lambda: ops.concat(X), "concat: tensors must be a sequence, got <Tensor x>"),
        (lambda: ops.split(X, 1, None, 3, "abc"), "split: names must be a sequence, got 'abc'"),
        (lambda: ops.slice(X, 1, 2), "slice: starts must be a sequence, got 1"),
        (lambda: ops.slice(X, [1], [2], 0), "slice: axes must be a sequence, got 0"),
        (lambda: ops.concat([]), "concat: tensors must be at least one, got none"),
        (lambda: ops.concat([X, Y]), "concat: shapes must be equal except along axis 0, got [2, 3] and [2, 2]"),
        (lambda: ops.concat([X, F]), "concat: all operands must have one dtype, got int32, float32"),
        (lambda: ops.split(X, 1, [1, 1]), "split: split must sum to the extent 3, got [1, 1]"),
        (lambda: ops.split(X), "split: exactly one of split and num_outputs must be given, got None and None"),
        (lambda: ops.split(X, 1, num_outputs=4), "split: every part must have elements, got 4 parts of 3"),
        (lambda: ops.slice(X, [0], [1], [0], [0]), "slice: steps must not be 0, got 0"),
        (lambda: ops.slice(X, [1], [1]), "slice: the result must have elements, got 1:1:1 of 2"),
        (lambda: ops.slice(X, [0, 0], [1, 1], [1, -1]), "slice: axes must name each dimension once, got [1, -1]"),
        (lambda: ops.tile(X, (0, 1)), "tile: repeats must be at least 1, got 0"),
        (lambda: ops.depth_to_space(Z, 2), "depth_to_space: channels must be a multiple of 4, got 5"),
        (lambda: ops.space_to_depth(Z, 2), "space_to_depth: rows and columns must be multiples of 2, got 3 and 3"),
        (lambda: pad(X, (1, 1, 1)), "pad: pads must be 4 integers, got (1, 1, 1)"),
        (lambda: pad(X, (-2, 0, 0, 0)), "pad: dimension 0 must keep elements, got -2 and 0 for 2"),
        (lambda: pad(X, (0, -3, 0, 2), mode="edge"),
         "pad: dimension 1 must keep elements of x, got -3 and 2 for 3"),
        (lambda: pad(X, 1, "a"), "pad: constant_value must be a number, got 'a'"),
        (lambda: pad(X, (0, 0, 1, 1), mode="zero"),
         "pad: mode must be one of constant, edge, reflect, wrap, got 'zero'"),
        (lambda: ops.gather(X, F), "gather: indices must be of an integer dtype that int64 holds, got float32"),
        (lambda: ops.one_hot(te.placeholder((2,), "uint64", "u"), 4, 1, 0),
         "one_hot: indices must be of an integer dtype that int64 holds, got uint64"),
        (lambda: ops.gather(X, X, mode="error"), "gather: mode must be one of clip, wrap, got 'error'"),
        (lambda: ops.gather_elements(Y, X), "gather_elements: extent 1 of indices must be at most 2, got 3"),
        (lambda: ops.gather_nd(X, X), "gather_nd: the last extent of indices must be at most 2, got 3"),
        (lambda: ops.gather_nd(X, Y, 2), "gather_nd: batch_dims must be less than both ranks, got 2"),
        (lambda: ops.one_hot(X, 0, 1, 0), "one_hot: depth must be at least 1, got 0"),
    ],
)  # fmt: skip
def test_invalid_movement_arguments_are_refused(build, message):
    with pytest.raises(OperatorError) as error:
        build()
    assert str(error.value) == message


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int16", "uint8", "bool"])
@pytest.mark.parametrize(
    ("shape", "perm"),
    [
        ((2, 19, 5, 13), (0, 2, 3, 1)),
        ((3, 9, 140), (0, 2, 1)),
        ((17, 33), (1, 0)),
        ((8, 2, 3, 16), (3, 1, 2, 0)),
        ((1, 9, 1, 7, 5), (0, 3, 2, 4, 1)),
        ((3, 5, 2, 11), (2, 3, 0, 1)),
        ((7, 4, 3, 1), (1, 3, 2, 0)),
    ],
    ids=str,
)
def test_tiles_of_a_transposition_move_all_elements(dtype, shape, perm):
    x = integers(shape, dtype)
    fn, _ = function_of(lambda t: tiled_transpose(t, perm, "moved"), x)
    made = default_schedule(fn, "x86-64-avx512")
    assert any(isinstance(stmt, ir.For) and stmt.kind is ir.LoopKind.UNROLL for stmt in ir.walk(made.fn.body))
    np.testing.assert_array_equal(run(lambda t: tiled_transpose(t, perm, "moved"), x), x.transpose(perm))
