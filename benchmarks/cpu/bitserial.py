# SPDX-License-Identifier: Apache-2.0
"""Matrix-vector products on one thread: 2-bit bit-serial kernels against our own int8 kernels.

Both sides compute int32 sums of the same numbers: weights from -2 to 1, data from 0 to 3.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

from vdla.benchmarks.cpu.layers import kernel_of
from vdla.benchmarks.cpu.measurement import Measurement, section
from vdla.benchmarks.harness import Section, geomean, paired_times
from vdla.compiler.operators import Coding, bitserial_dense, pack_bitserial_dense, pack_qdense, qdense
from vdla.compiler.target import host
from vdla.runtime.native import BoundCall
from vdla.support.arrays import Bytes
from vdla.support.progress import ReportStep

SIZES = (512, 1024, 2048, 4096)  # of square matrices; int8 weights of the first two fit the second-level cache
BITS = 2


def measure_bitserial(seed: int, step: ReportStep) -> Section:
    """Measure every size in sequence."""
    measurements = []
    for size in SIZES:
        step(f"matvec {size}")
        measurements.append(measure_size(size, default_rng([seed, size])))
    speedup, error = geomean(one.times.ratio for one in measurements), max(one.error for one in measurements)
    return section({"bitserial_speedup": speedup, "bitserial_error": error}, measurements)


def measure_size(size: int, rng: Generator) -> Measurement:
    """One matrix; `theirs` is the time of int8, and the error that of both sides."""
    weight = rng.integers(-2, 2, (size, size), np.int8)
    data = rng.integers(0, 4, (1, size), np.uint8)
    bits, bytes_ = _two_bit_kernel(data, weight), _int8_kernel(data, weight)
    expected = data.astype(np.int32) @ weight.T.astype(np.int32)
    error = max(float(np.abs(side() - expected).max()) for side in (bits, bytes_)) / float(np.abs(expected).max())
    return Measurement(f"matvec {size} 2 bits", paired_times(bits, bytes_), 2 * size**2, error)


def _two_bit_kernel(data: Bytes, weight: NDArray[np.int8]) -> BoundCall:
    """The bit-serial kernel, bound to its operands."""
    packed = pack_bitserial_dense(weight, BITS, Coding.SIGNED, host())
    return kernel_of(lambda x, w: bitserial_dense(x, w, host(), BITS, Coding.SIGNED, len(weight), "y"), data, packed)


def _int8_kernel(data: Bytes, weight: NDArray[np.int8]) -> BoundCall:
    """The int8 kernel, bound to its operands."""
    packed = pack_qdense(weight, np.ones(1, np.float32), host())
    arrays = (data, packed.weight, packed.bias)
    return kernel_of(lambda x, w, b: qdense(x, w, b, None, host(), len(weight), name="y"), *arrays)
