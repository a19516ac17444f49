# SPDX-License-Identifier: Apache-2.0
"""The figures of the benchmark gpu that need a device, in small sizes."""

from __future__ import annotations

import numpy as np
from helpers.opencl_functions import needs_opencl

import vdla
from vdla.benchmarks.gpu import device, exact
from vdla.benchmarks.gpu.device import product_ratio
from vdla.compiler import operators
from vdla.runtime.grid.opencl_context import OpenClDeviceError
from vdla.support.progress import silent

CASES = [
    exact.ExactCase("dense", operators.dense, ((4, 6), (5, 6))),
    exact.ExactCase("softmax", operators.softmax, ((4, 6),), ulps=exact.ULPS),
]


def test_the_cases_are_the_layers_of_the_paper_and_a_few_more():
    names = [case.name for case in exact.exact_cases()]
    assert names[:21] == [*(f"C{n}" for n in range(1, 13)), *(f"D{n}" for n in range(1, 10))]
    assert {"dense int8", "batched product float32", "softmax", "layer_norm"} < set(names)


def on_opencl(fn):
    return vdla.compile(fn, "opencl")


@needs_opencl
def test_a_last_bit_is_a_difference_of_a_sum_and_none_of_a_function(monkeypatch):
    assert exact.compare_cases(silent, 0, CASES, on_opencl) == {"dense": True, "softmax": True}
    monkeypatch.setattr(exact, "build", lambda fn, contract: shifted)
    assert exact.compare_cases(silent, 0, CASES, on_opencl) == {"dense": False, "softmax": True}


def shifted(*arrays):
    """The results, each by one unit in the last place too large."""
    if len(arrays) == 1:
        powers = np.exp(arrays[0])
        return np.nextafter(powers / powers.sum(axis=1, keepdims=True), np.float32(2))
    return np.nextafter(arrays[0] @ arrays[1].T, np.float32(99))


@needs_opencl
def test_both_kernels_compute_the_product():
    assert product_ratio(silent, 0, size=64) > 0


def test_without_a_device_there_are_no_figures(monkeypatch):
    def missing():
        raise OpenClDeviceError("opencl: none")

    monkeypatch.setattr(device, "open_opencl", missing)
    assert device.device_figures(silent, 0) == ({}, "opencl: none")
