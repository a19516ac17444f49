# SPDX-License-Identifier: Apache-2.0
"""Resizing against ONNX's formulas in floating point."""

from fractions import Fraction

import numpy as np
import pytest
from helpers.run_operator import floats, function_of, integers, run

from vdla.compiler import te
from vdla.compiler.interpret import interpret
from vdla.compiler.operators import OperatorError, resize_linear, resize_nearest
from vdla.compiler.operators.cpu import default_schedule
from vdla.runtime.native import build

COORDINATES = ["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"]
SIZES = [(7, 4), (3, 10), (1, 1), (14, 15), (5, 6)]


def coordinate(place, extent, new, scale, mode):
    if mode == "half_pixel":
        return (place + 0.5) / scale - 0.5
    if mode == "pytorch_half_pixel":
        return (place + 0.5) / scale - 0.5 if new > 1 else 0
    if mode == "asymmetric":
        return place / scale
    return place * (extent - 1) / (new - 1) if new > 1 else 0


def matrix(extent, new, scale, mode, weigh):
    """The linear map along one dimension."""
    result = np.zeros((new, extent))
    for place in range(new):
        for index, weight in weigh(coordinate(place, extent, new, scale, mode)):
            result[place, min(max(index, 0), extent - 1)] += weight
    return result


def linear(x):
    low = int(np.floor(x))
    return [(low, 1 - (x - low)), (low + 1, x - low)]


ROUNDINGS = {
    "round_prefer_floor": lambda x: [(int(np.ceil(round(x - 0.5, 9))), 1)],
    "round_prefer_ceil": lambda x: [(int(np.floor(round(x + 0.5, 9))), 1)],
    "floor": lambda x: [(int(np.floor(round(x, 9))), 1)],
    "ceil": lambda x: [(int(np.ceil(round(x, 9))), 1)],
}


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_linear_resizing_equals_the_formulas(size, coordinates):
    x = floats((2, 3, 5, 6))
    rows, columns = (matrix(n, m, m / n, coordinates, linear) for n, m in zip((5, 6), size, strict=True))
    got = run(lambda t: resize_linear(t, (2, 3, *size), coordinate_transformation_mode=coordinates), x)
    np.testing.assert_allclose(got, np.einsum("yr,zc,nkrc->nkyz", rows, columns, x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_nearest_resizing_equals_the_formulas(size, coordinates, rounding):
    x = integers((1, 2, 5, 6), "int8")
    maps = [matrix(n, m, m / n, coordinates, ROUNDINGS[rounding]) for n, m in zip((5, 6), size, strict=True)]
    got = run(
        lambda t: resize_nearest(t, (1, 2, *size), coordinate_transformation_mode=coordinates, nearest_mode=rounding), x
    )
    np.testing.assert_array_equal(got, np.einsum("yr,zc,nkrc->nkyz", *maps, x).astype(np.int8))


@pytest.mark.parametrize("scale", [0.6, 1.7, 2, 0.25, Fraction(7, 3)], ids=str)
def test_scales_give_the_extent_and_the_coordinates(scale):
    x = floats((10,))
    new = int(10 * scale)
    expected = matrix(10, new, float(scale), "half_pixel", linear) @ x
    np.testing.assert_allclose(run(lambda t: resize_linear(t, scales=[scale]), x), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("resize", [resize_nearest, resize_linear])
def test_coordinates_of_long_dimensions_do_not_overflow(resize):
    x = np.arange(48001, dtype=np.float32)
    fn, (output,) = function_of(lambda t: resize(t, (96001,)), x)
    coordinates = ((np.arange(96001) + 0.5) * 48001 / 96001 - 0.5).clip(0, 48000)
    expected = np.ceil(coordinates - 0.5) if resize is resize_nearest else coordinates
    np.testing.assert_allclose(interpret(fn, {"a": x})[output.name], expected, rtol=1e-5, atol=1e-2)
    np.testing.assert_allclose(build(default_schedule(fn).fn)(x), expected, rtol=1e-5, atol=1e-2)


@pytest.mark.parametrize("scale", [np.float32(0.6), np.float64(1.7), np.int64(2)], ids=repr)
def test_scales_may_be_numpy_numbers(scale):
    x = floats((10,))
    np.testing.assert_array_equal(
        run(lambda t: resize_linear(t, scales=np.array([scale])), x),
        run(lambda t: resize_linear(t, scales=[round(float(scale), 3)]), x),
    )


@pytest.mark.parametrize(
    ("extent", "ratio", "new"),
    [
        (28, Fraction(9999, 10000), 27),
        (10, Fraction(7, 10), 7),
        (27, Fraction(7, 3), 62),
        (30000, Fraction(20001, 10000), 60002),
    ],
    ids=str,
)
def test_scales_are_float32_as_in_onnx(extent, ratio, new):
    x = floats((extent,))
    got = run(
        lambda t: resize_nearest(
            t, scales=[float(ratio)], coordinate_transformation_mode="asymmetric", nearest_mode="floor"
        ),
        x,
    )
    np.testing.assert_array_equal(got, x[[int(place / ratio) for place in range(new)]])


def test_resizing_three_dimensions_equals_the_onnx_reference():
    onnx = pytest.importorskip("onnx")
    from onnx.reference import ReferenceEvaluator

    x = floats((1, 1, 3, 4, 5))
    sizes = np.array([1, 1, 5, 3, 8], np.int64)
    node = onnx.helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear")
    expected = ReferenceEvaluator(node).run(None, {"x": x, "sizes": sizes})[0]
    got = run(lambda t: resize_linear(t, sizes.tolist()), x)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


X, I = te.placeholder((2, 3), "float32", "x"), te.placeholder((2, 3), "int32", "i")  # noqa: E741
SCALE = "resize_linear: every scale must be a positive number up to 2147483647"
MODES = "half_pixel, pytorch_half_pixel, asymmetric, align_corners"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: resize_linear(I, (2, 6)), "resize_linear: x must be of a float dtype, got int32"),
        (lambda: resize_linear(X), "resize_linear: exactly one of sizes and scales must be given, got None and None"),
        (lambda: resize_linear(X, (2,)), "resize_linear: sizes must have 2 entries, one a dimension, got 1"),
        (lambda: resize_linear(X, (2, 0)), "resize_linear: every new extent must be at least 1, got 0"),
        (lambda: resize_linear(X, scales=(1, 0.0)), f"{SCALE}, got 0.0"),
        (lambda: resize_linear(X, scales=(1, float("inf"))),
         f"{SCALE}, got inf"),
        (lambda: resize_linear(X, scales=(1, 1e300)),
         f"{SCALE}, got 1e+300"),
        (lambda: resize_linear(X, scales=(True, 2)), f"{SCALE}, got True"),
        (lambda: resize_linear(X, 5), "resize_linear: sizes must be a sequence, got 5"),
        (lambda: resize_nearest(X, scales=(1, 0.1)),
         "resize_nearest: the result must have elements, got scale 0.1 for extent 3"),
        (lambda: resize_nearest(X, (2, 3), nearest_mode="up"),
         "resize_nearest: nearest_mode must be one of round_prefer_floor, round_prefer_ceil, floor, ceil, got 'up'"),
        (lambda: resize_nearest(X, (2, 3), coordinate_transformation_mode="x"),
         f"resize_nearest: coordinate_transformation_mode must be one of {MODES}, got 'x'"),
    ],
)  # fmt: skip
def test_invalid_resize_arguments_are_refused(build, message):
    with pytest.raises(OperatorError) as error:
        build()
    assert str(error.value) == message
