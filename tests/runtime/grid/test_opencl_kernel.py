# SPDX-License-Identifier: Apache-2.0
"""Kernels on a device: compiled, called, refused."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from helpers.opencl_functions import needs_opencl

import vdla
from vdla.compiler import operators, te
from vdla.compiler.operators.gpu import grid_schedule
from vdla.compiler.schedule import Schedule
from vdla.runtime.compile import CompileError
from vdla.runtime.grid import opencl_devices as devices
from vdla.runtime.grid.opencl_context import OpenClDeviceError, build_program
from vdla.runtime.grid.opencl_devices import build_opencl, open_opencl, opencl_devices
from vdla.runtime.native import NativeError


def scaled(count):
    x = te.placeholder((count,), "float32", "x")
    return te.create_function([x], [te.compute((count,), lambda i: x[i] * 3.0 + 0.1, "y")], "scaled")


def centred():
    """Two stages, of which one kernel computes a row."""
    x = te.placeholder((5, 7), "int32", "x")
    k = te.reduce_axis(7, "k")
    total = te.compute((5,), lambda i: te.sum(x[i, k], axis=k), "total")
    return te.create_function([x], [te.compute((5, 7), lambda i, j: x[i, j] * 7 - total[i], "y")], "centred")


X = np.arange(35, dtype=np.int32).reshape(5, 7) ** 2


@needs_opencl
def test_a_function_without_bound_loops_gets_the_default_schedule():
    kernel = vdla.compile(centred(), "opencl")
    np.testing.assert_array_equal(kernel(X), X * 7 - X.sum(axis=1, keepdims=True))
    assert [launch.threads for launch in kernel.source.launches] == [(5, 1, 1)]
    assert kernel.seconds > 0
    assert repr(kernel) == f"<DeviceKernel centred(x, y) on {kernel.device.name}>"


@needs_opencl
@pytest.mark.parametrize("threads", [1, 3, 32])
def test_any_number_of_threads(threads):
    kernel = vdla.compile(grid_schedule(centred(), threads=threads), f"opencl:{open_opencl().name[:7]}")
    np.testing.assert_array_equal(kernel(x=X), X * 7 - X.sum(axis=1, keepdims=True))


@needs_opencl
def test_symbolic_extents_and_given_outputs():
    kernel, out = vdla.compile(scaled(te.var("n")), "opencl"), np.empty(300, np.float32)
    x = np.linspace(-1, 1, 300, dtype=np.float32)
    assert kernel(x, out=out) is out
    np.testing.assert_array_equal(out, x * np.float32(3) + np.float32(0.1))  # not fused
    assert kernel(x[:1]).shape == (1,)


@needs_opencl
def test_a_group_reduces_a_row_together():
    x = np.random.default_rng(0).integers(-(1 << 31), 1 << 31, (3, 700)).astype(np.int32)
    rows = te.placeholder(x.shape, "int32", "x")
    fn = te.create_function([rows], [operators.sum(rows, (1,)), operators.max(rows)], "f")
    total, largest = vdla.compile(fn, "opencl")(x)
    np.testing.assert_array_equal(total, x.sum(axis=1, dtype=np.int32))
    assert largest == x.max()


@needs_opencl
def test_a_program_is_built_once():
    kernels = [build_opencl(grid_schedule(scaled(8)).fn) for _ in range(2)]
    assert build_program(kernels[0].device, kernels[0].source.text) is build_program(
        kernels[1].device, kernels[1].source.text
    )


@needs_opencl
def test_arguments_that_a_kernel_refuses():
    kernel, x = vdla.compile(scaled(8), "opencl"), np.zeros(8, np.float32)
    with pytest.raises(NativeError, match=r"^scaled: x must have the dtype float32, got float64 \(x\.astype"):
        kernel(np.zeros(8))
    with pytest.raises(NativeError, match=r"^scaled: y must not overlap another argument, got memory of x$"):
        kernel(x, out=x)


@needs_opencl
def test_a_source_that_does_not_build():
    name = open_opencl().name
    with pytest.raises(OpenClDeviceError) as caught:
        build_program(open_opencl(), "__kernel void f() { nothing; }")
    assert str(caught.value).startswith(f"opencl: {name} must build the source, got ")
    assert "use of undeclared identifier 'nothing'" in str(caught.value)
    assert "\n" not in str(caught.value)


@needs_opencl
def test_more_threads_than_the_device_has():
    limit, name = open_opencl().limits.threads, open_opencl().name
    s = Schedule(scaled(2 * limit))
    s.bind("i", "threadIdx.x")
    message = f"scaled: a block must have at most {limit} threads on {name}, got {2 * limit} ({2 * limit} x 1 x 1)"
    with pytest.raises(vdla.Error) as caught:
        vdla.compile(s, "opencl")
    assert str(caught.value) == message


@needs_opencl
def test_an_unknown_device():
    known = "; ".join(opencl_devices())
    with pytest.raises(OpenClDeviceError) as caught:
        vdla.compile(scaled(8), "opencl:abacus")
    assert str(caught.value) == f"opencl: the device must be one of {known}, got 'abacus'"


def test_without_pyopencl(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    with pytest.raises(OpenClDeviceError) as caught:
        opencl_devices()
    assert str(caught.value).startswith("opencl: pyopencl must be installed, got ")
    assert str(caught.value).endswith('; pip install "vdla[opencl]"')


@needs_opencl
def test_without_a_device(monkeypatch):
    monkeypatch.setattr(devices.pyopencl(), "get_platforms", list)
    with pytest.raises(OpenClDeviceError) as caught:
        opencl_devices()
    assert str(caught.value) == (
        'opencl: a driver with a device must be installed, got none; pip install "vdla[opencl]"'
    )


def test_what_a_device_does_not_run():
    with pytest.raises(CompileError, match=r"^compile: cached must be left out for the device opencl, got False$"):
        vdla.compile(scaled(8), "opencl", cached=False)
    with pytest.raises(
        CompileError,
        match=r"^compile: what must be a Schedule, a Function or a network \(a path, bytes or a model\), got int$",
    ):
        vdla.compile(8, "opencl")
