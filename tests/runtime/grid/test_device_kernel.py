# SPDX-License-Identifier: Apache-2.0
"""Kernels on arrays of a device, in streams."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from helpers.opencl_functions import needs_opencl

import vdla
from vdla.compiler import te
from vdla.runtime.grid.opencl_devices import open_opencl
from vdla.runtime.grid.protocol import GridDeviceError
from vdla.runtime.native import NativeError

X = np.arange(6, dtype=np.int32).reshape(2, 3)


def centred(rows):
    """Two kernels with an array between them; `rows` may be symbolic."""
    x = te.placeholder((rows, 3), "int32", "x")
    k = te.reduce_axis(3, "k")
    total = te.compute((rows,), lambda i: te.sum(x[i, k], axis=k), "total")
    y = te.compute((rows, 3), lambda i, j: x[i, j] * 7 - total[i], "y")
    return vdla.compile(te.create_function([x], [y], "centred"), "opencl")


def expected(x):
    return x * 7 - x.sum(axis=1, keepdims=True)


@needs_opencl
def test_arrays_stay_on_the_device_between_kernels():
    kernel, device = centred(te.var("n")), open_opencl()
    stream = device.stream()
    x, y, z = stream.upload(X), device.empty(X.shape, "int32"), device.empty(X.shape, "int32")
    kernel.enqueue(stream, x, y)
    kernel.enqueue(stream, y, z)
    del x, y  # the device keeps what the kernels read
    gc.collect()
    np.testing.assert_array_equal(stream.download(z), expected(expected(X)))


@needs_opencl
def test_a_bound_kernel_runs_on_what_its_arrays_hold():
    kernel, device = centred(2), open_opencl()
    stream, x, y = device.stream(), device.empty(X.shape, "int32"), device.empty(X.shape, "int32")
    call, out = kernel.bind(stream, [x, y]), np.zeros_like(X)
    for data in (X, -3 * X):
        assert stream.upload(data, x) is x
        call()
        assert stream.download(y, out) is out
        np.testing.assert_array_equal(out, expected(data))


@needs_opencl
def test_a_stream_waits_for_another_and_events_have_times():
    kernel, device = centred(2), open_opencl()
    first, second = device.stream(), device.stream()
    x, y = first.upload(X), device.empty(X.shape, "int32")
    start = first.record()
    kernel.enqueue(first, x, y)
    end = first.record()
    second.wait(end)
    np.testing.assert_array_equal(second.download(y), expected(X))
    first.synchronize()
    assert 0 < end.seconds_since(start) < 60
    assert start.seconds_since(end) == 0


@needs_opencl
def test_views_are_parts_of_an_array():
    device = open_opencl()
    stream, step = device.stream(), device.alignment
    whole = stream.upload(np.arange(2 * step, dtype=np.uint8))
    part = whole.view(step, (step // 4, 2), "int16")
    assert (part.nbytes, part.dtype) == (step, "int16")
    stream.upload(np.full(part.shape, -1, np.int16), part)
    assert stream.download(whole).tolist() == [*range(step), *[255] * step]


@needs_opencl
@pytest.mark.parametrize("dtype", ["bool", "bfloat16", "float16", "int64"])
def test_every_type_is_copied_whole(dtype):
    stream = open_opencl().stream()
    data = np.arange(6).reshape(2, 3).astype(pytest.importorskip("ml_dtypes").bfloat16 if dtype[0] == "b" else dtype)
    found = stream.download(stream.upload(data))
    assert found.dtype == data.dtype
    np.testing.assert_array_equal(found, data)
    assert stream.download(stream.upload(data[:0])).shape == (0, 3)


@needs_opencl
def test_arrays_that_do_not_fit():
    kernel, device = centred(2), open_opencl()
    stream, x = device.stream(), device.empty((2, 3), "int32")
    with pytest.raises(NativeError, match=r"^centred: arrays must be given for x, y, got 1 arrays$"):
        kernel.enqueue(stream, x)
    with pytest.raises(NativeError, match=r"^centred: y must be int32\(2, 3\), got float32\(2, 3\)$"):
        kernel.enqueue(stream, x, device.empty((2, 3), "float32"))
    with pytest.raises(NativeError, match=r"^centred: x must be int32\(2, 3\), got int32\(3, 2\)$"):
        kernel.enqueue(stream, device.empty((3, 2), "int32"), x)
    with pytest.raises(GridDeviceError, match=rf"^opencl: .* must have {1 << 60} bytes, got "):
        device.empty((1 << 60,), "int8")
