# SPDX-License-Identifier: Apache-2.0
"""Calls, streams and events on a real CUDA device; skipped where there is none."""

from __future__ import annotations

import numpy as np
import pytest

import vdla
from vdla.benchmarks.gpu.cuda import float16_function, operands, vendor_ratio
from vdla.compiler import ir, operators, te
from vdla.runtime.grid.cuda_devices import CudaDevice, cuda_devices, open_cuda
from vdla.runtime.grid.cuda_driver import CudaDeviceError

pytestmark = pytest.mark.gpu
BAR = 0.7  # of the speed of cuBLAS and cuDNN


@pytest.fixture
def device() -> CudaDevice:
    """The first device; the test is skipped, with the reason, if there is none."""
    try:
        return open_cuda()
    except CudaDeviceError as error:
        pytest.skip(str(error))


def softmax(rows: te.Expr | int) -> ir.Function:
    x = te.placeholder((rows, 100), "float32", "x")
    return te.create_function([x], [operators.softmax(x)], "softmax")


def test_a_call_with_arrays(device: CudaDevice) -> None:
    x = np.random.default_rng(0).standard_normal((30, 100), np.float32)
    kernel = vdla.compile(softmax(te.var("n")), f"cuda:{device.name}")
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(kernel(x), powers / powers.sum(axis=1, keepdims=True), rtol=1e-5)
    assert kernel.seconds > 0
    assert any(device.name in text for text in cuda_devices())


def test_arrays_stay_on_the_device_from_stream_to_stream(device: CudaDevice) -> None:
    kernel, x = vdla.compile(softmax(64), "cuda"), np.random.default_rng(0).standard_normal((64, 100), np.float32)
    first, second = device.stream(), device.stream()
    a, b, c = first.upload(x), device.empty(x.shape, "float32"), device.empty(x.shape, "float32")
    kernel.enqueue(first, a, b)
    second.wait(first.record())
    kernel.enqueue(second, b, c)
    np.testing.assert_array_equal(second.download(c), kernel(kernel(x)))


def test_more_threads_than_the_device_has(device: CudaDevice) -> None:
    x = te.placeholder((4096,), "float32", "x")
    s = vdla.Schedule(te.create_function([x], [te.compute((4096,), lambda i: x[i], "y")], "wide"))
    s.bind("i", "threadIdx.x")
    rule = f"wide: a block must have at most {device.limits.threads} threads on {device.name}, got 4096"
    with pytest.raises(vdla.Error) as caught:
        vdla.compile(s, "cuda")
    assert str(caught.value).startswith(rule)


@pytest.mark.parametrize("operator", ["product", "conv2d"])
def test_half_precision_on_tensor_cores(operator: str, device: CudaDevice) -> None:
    (x_shape, y_shape), rng = operands(256, 32, 14)[operator], np.random.default_rng(0)
    x, y = (rng.integers(-2, 3, shape).astype(np.float16) for shape in (x_shape, y_shape))
    fn = float16_function(operator, (x_shape, y_shape))
    wanted = vdla.compile(fn, "host")(x, y)
    np.testing.assert_array_equal(vdla.compile(fn, "cuda")(x, y), wanted)  # small integers: exact


@pytest.mark.slow
@pytest.mark.parametrize("operator", ["product", "conv2d"])
def test_the_speed_of_the_vendors_libraries(operator: str, device: CudaDevice) -> None:
    found = vendor_ratio(device, operator, operands()[operator], 0)
    if found is None:
        pytest.skip("the comparison needs torch or cupy with CUDA, and neither is installed")
    assert found[1] >= BAR, found
