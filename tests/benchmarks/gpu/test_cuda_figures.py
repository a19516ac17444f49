# SPDX-License-Identifier: Apache-2.0
"""The figures of the benchmark gpu on a CUDA device, with a driver that has none."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from helpers.stub_cuda import StubCuda

from vdla.benchmarks.gpu import cuda
from vdla.benchmarks.gpu.cuda import vendor_kernels
from vdla.runtime.grid.cuda_devices import open_cuda


def silent(text: str, done: int, total: int) -> None:
    """No progress."""


class FakeEvent:
    """Of CuPy; a product takes 3 ms."""

    def __init__(self) -> None:
        self.at_ms = 0.0

    def record(self) -> None:
        self.at_ms = FakeCupy.clock_ms

    def synchronize(self) -> None:
        pass


class FakeCupy(ModuleType):
    """What is used of CuPy."""

    clock_ms = 0.0
    __version__ = "13.0"
    asarray = staticmethod(np.asarray)
    cuda = SimpleNamespace(Event=FakeEvent, get_elapsed_time=lambda start, end: end.at_ms - start.at_ms)

    @staticmethod
    def matmul(x: np.ndarray, y: np.ndarray) -> None:
        FakeCupy.clock_ms += 3


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "cupy", FakeCupy("cupy"))


def test_the_ratio_is_the_librarys_time_over_ours(cupy: None, stub_cuda: StubCuda) -> None:
    shapes = cuda.operands(size=32)["product"]
    name, ratio = cuda.vendor_ratio(open_cuda(), "product", shapes, 0)
    assert name == "cupy 13.0"
    assert ratio == pytest.approx(3)  # a kernel of the stub takes a millisecond


def test_cupy_has_no_convolution(cupy: None) -> None:
    assert vendor_kernels([np.zeros((1, 1, 4, 4), np.float16)] * 2, "conv2d") is None


def test_without_a_device_there_are_no_figures(stub_cuda: StubCuda) -> None:
    stub_cuda.set_devices(0)
    assert cuda.cuda_figures(silent, 0) == ({}, "no device: cuda: the machine must have a device, got none")
