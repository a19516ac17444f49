"""Products of a matrix and a vector on one thread: two bits, bit by bit, against our own int8.

Both sides give int32 sums of the same numbers: weights -2 to 1 and data 0 to 3, which int8 holds as well.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vdla.benchmarks.cpu.kernel import kernel_of
from vdla.benchmarks.cpu.paired_timing import contest, geomean
from vdla.benchmarks.cpu.part import Measured, Part, Step
from vdla.compiler.operators import Coding, bitserial_dense, pack_bitserial_dense, pack_qdense, qdense
from vdla.compiler.target import host
from vdla.runtime.native import BoundCall

SIZES = (512, 1024, 2048, 4096)  # of square matrices; int8 fits the second-level cache in the first two
BITS = 2


def measure_bitserial(seed: int, step: Step) -> Part:
    """Every size."""
    measured = []
    for size in SIZES:
        step(f"matvec {size}")
        measured.append(measure_size(size, np.random.default_rng([seed, size])))
    speedup, error = geomean(one.times.ratio for one in measured), max(one.error for one in measured)
    return Part({"bitserial_speedup": speedup, "bitserial_error": error}, measured)


def measure_size(size: int, rng: np.random.Generator) -> Measured:
    """One matrix; theirs are our int8 times, and the error is of both sides."""
    weight = rng.integers(-2, 2, (size, size), np.int8)
    data = rng.integers(0, 4, (1, size), np.uint8)
    bits, bytes_ = two_bit_product(data, weight), int8_product(data, weight)
    expected = data.astype(np.int32) @ weight.T.astype(np.int32)
    error = max(float(np.abs(side() - expected).max()) for side in (bits, bytes_)) / float(np.abs(expected).max())
    return Measured(f"matvec {size} 2 bits", contest(bits, bytes_), 2 * size**2, error)


def two_bit_product(data: NDArray[np.uint8], weight: NDArray[np.int8]) -> BoundCall:
    """The bit-serial kernel, called with its operands."""
    packed = pack_bitserial_dense(weight, BITS, Coding.SIGNED, host())
    return kernel_of(lambda x, w: bitserial_dense(x, w, host(), BITS, Coding.SIGNED, len(weight), "y"), data, packed)


def int8_product(data: NDArray[np.uint8], weight: NDArray[np.int8]) -> BoundCall:
    """The int8 kernel, called with its operands."""
    packed = pack_qdense(weight, np.ones(1, np.float32), host())
    arrays = (data, packed.weight, packed.bias)
    return kernel_of(lambda x, w, b: qdense(x, w, b, None, host(), len(weight), name="y"), *arrays)
